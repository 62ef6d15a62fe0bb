"""Builds the one document of a run, schema `pcietool.result/1`, and says what it means: verdict and exit code.

Everything that differs between two runs of the same thing stands under `run`; for one seed the rest is identical
on the emulator, byte for byte. Must not measure, print, or write files.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pcietool
from pcietool.contract.results import ProbeResult, Status
from pcietool.errors import ExitCode

SCHEMA = "pcietool.result/1"

ENVIRONMENT = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_MODULE_LOADING", "CUDA_LAUNCH_BLOCKING")
"""The only variables that a result may carry, since they change what CUDA does."""

EXIT_CODES = {
    Status.PASS: ExitCode.PASS,
    Status.INFO: ExitCode.PASS,
    Status.WARN: ExitCode.PASS,
    Status.WAIVED: ExitCode.NOTHING_RAN,
    Status.INTERRUPTED: ExitCode.INTERRUPTED,
    Status.ERROR: ExitCode.TOOL_ERROR,
    Status.FAIL: ExitCode.WRONG_DATA,
    Status.HANG: ExitCode.HANG,
}

Document = dict[str, Any]


@dataclass(frozen=True)
class Stopwatch:
    """When a run started, by the wall clock."""

    started_at: datetime

    @classmethod
    def start(cls) -> Stopwatch:
        return cls(datetime.now(UTC))

    def run_record(self, nvrtc_path: str | None = None) -> dict[str, Any]:
        """Everything about this one run that no other run has to repeat."""
        ended_at = datetime.now(UTC)
        return {
            "started_at": self.started_at.isoformat(),
            "ended_at": ended_at.isoformat(),
            "wall_s": round((ended_at - self.started_at).total_seconds(), 3),
            "argv": sys.argv[1:],
            "host": {
                "name": platform.node(),
                "system": f"{platform.system()} {platform.release()}",
                "machine": platform.machine(),
                "python": platform.python_version(),
            },
            "environment": {name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
            "nvrtc_path": nvrtc_path,
        }


def merged_status(results: Sequence[ProbeResult]) -> Status:
    """The worst status counts; parts that were waived only count if nothing else ran.

    No result at all is an error: no measurement is not a pass.
    """
    if not results:
        return Status.ERROR
    severity = list(Status)
    ran = [result.status for result in results if result.status is not Status.WAIVED]
    return max(ran, key=severity.index, default=Status.WAIVED)


def exit_code(results: Sequence[ProbeResult]) -> ExitCode:
    return EXIT_CODES[merged_status(results)]


def verdict(results: Sequence[ProbeResult]) -> dict[str, str]:
    """{"status", "text"}: what holds for the whole run, and the line of every part."""
    lines = [f"{result.transport}: {result.verdict}" for result in results]
    return {"status": merged_status(results).value, "text": "; ".join(lines) or "nothing was measured"}


def build_document(
    machine: Mapping[str, Any], config: Mapping[str, Any], results: Sequence[ProbeResult], stopwatch: Stopwatch
) -> Document:
    """`machine` is what `machines.description.describe` says: backend, label, devices, links, host_links, facts."""
    facts = dict(machine["facts"])
    before = facts.pop("gpus_now", None)
    after = facts.pop("after", {}).get("gpus_now")
    nvrtc = dict(facts.pop("nvrtc", {}))
    run = stopwatch.run_record(nvrtc.pop("path", None))
    return {
        "schema": SCHEMA,
        "backend": machine["backend"],
        "run": run,
        "tool": {
            "version": pcietool.__version__,
            "git": git_revision(),
            "kernels_sha256": facts.pop("kernels_sha256", None),
            "nvrtc": nvrtc,
        },
        "config": dict(config),
        "machine": {"label": machine["label"], **facts},
        "gpus": [
            {**device, "before": before and before[n], "after": after and after[n]}
            for n, device in enumerate(machine["devices"])
        ],
        "pairs": machine["links"],
        "host_links": machine["host_links"],
        "probes": [_probe_record(result) for result in results],
        "verdict": verdict(results),
    }


def tidy_rows(document: Mapping[str, Any], results: Sequence[ProbeResult]) -> list[dict[str, Any]]:
    """One row a line for CSV, each with what it was found by and on: lines of several runs can stand in one table. A
    part without rows has one, with the reason."""
    of_run = {
        "version": document["tool"]["version"],
        "backend": document["backend"],
        "fabric": document["config"].get("fabric"),
    }
    return [
        {**of_run, "probe": result.name, "transport": result.transport}
        | {key: cell(value) for key, value in row.items()}
        for result in results
        for row in result.rows or [{"reason": result.reason or result.verdict}]
    ]


def cell(value: Any) -> Any:
    """A JSON value as one cell of a table: lists and objects are plain text, "0, 1" and "seen: 3; lost: 0"."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_word(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        words = [_word(item) for item in value]
        return ("; " if any(", " in word or ": " in word for word in words) else ", ").join(words)
    return value


def _word(value: Any) -> str:
    return "" if value is None else str(cell(value))


def raw_samples(results: Sequence[ProbeResult]) -> dict[str, Any]:
    """Arrays by "transport/name"."""
    return {f"{result.transport}/{name}": array for result in results for name, array in result.samples.items()}


def git_revision() -> dict[str, Any]:
    """{"commit", "dirty"} of the checkout this runs from; commit is None, with a reason, where there is none."""
    root = Path(pcietool.__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return {"commit": None, "dirty": None, "reason": "not run from a git checkout"}
    try:
        commit = _git(root, "rev-parse", "HEAD").strip()
        changes = _git(root, "status", "--porcelain", "--untracked-files=no")
    except FileNotFoundError:
        return {"commit": None, "dirty": None, "reason": "git is not installed"}
    except subprocess.SubprocessError:
        return {"commit": None, "dirty": None, "reason": "git does not answer for this checkout, or has no commit"}
    return {"commit": commit, "dirty": bool(changes)}


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout


def _probe_record(result: ProbeResult) -> dict[str, Any]:
    return {
        "name": result.name,
        "status": result.status.value,
        "reason": result.reason,
        "transport": result.transport,
        "method": result.method,
        "effort": result.effort,
        "verdict": result.verdict,
        "matrix": result.matrix,
        "rows": result.rows,
        "checks": result.checks,
        "hang": result.hang,
        **({"details": result.details} if result.details else {}),
    }
