"""The checks of a result: how one is written down, and what failed ones make of the result. Must not run anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pcietool.contract.results import Row, Status
from pcietool.probes.common.injections import amount
from pcietool.probes.common.world import World


def check(name: str, passed: bool, text: str, **more: str) -> Row:
    """`more`: severity="warn" if a failure is only a reason for doubt; reason, what to do about it."""
    return {"name": name, "passed": passed, "text": text, **more}


def control(name: str, found: Any, missed: str = "nothing was found") -> Row:
    """Something was broken on purpose: passed if that was `found`, which is what was seen of it, or None."""
    return check(f"control: {name}", found is not None, missed if found is None else str(found))


def survived(injection: str) -> Row:
    """Of an injected failure that did not stop the run."""
    stall_us = amount(injection)
    text = f"one rank stalled {stall_us} µs: survived" if stall_us else "the run went on"
    return check(f"--inject {injection}", True, text)


def guard_check(world: World, prefix: str = "") -> Row:
    """Did anybody write beside the slots?"""
    damage = world.damaged_guards()
    return check("guard words", not damage, prefix + ("; ".join(damage) or "untouched"))


def first_failed(checks: Sequence[Row]) -> Row | None:
    """A failure counts more than a doubt."""
    failed = [one for one in checks if not one["passed"]]
    return min(failed, key=lambda one: one.get("severity") == "warn", default=None)


def judge(checks: Sequence[Row]) -> tuple[Status, str | None]:
    """(status, reason) of a result with these checks."""
    failed = first_failed(checks)
    if failed is None:
        return Status.PASS, None
    return Status.WARN if failed.get("severity") == "warn" else Status.FAIL, f"{failed['name']}: {failed['text']}"
