"""What might mend a kernel by more order alone: an access made stronger or wider, a fence or barrier put in.

Must not run anything, nor know which of it mends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from pcietool.check.changing.edits import Edit, Site, sites
from pcietool.check.changing.weaken import MEMBARS, SCOPE_NAMES, SCOPES
from pcietool.ptx.model import Module

_WIDER = {"cta": ("gpu", "sys"), "cluster": ("gpu", "sys"), "gpu": ("sys",), "sys": ()}
_WORDS = {"gpu": "thread_scope_device", "sys": "thread_scope_system"}
_FENCES = {"gpu": "__threadfence()", "sys": "__threadfence_system()"}
WIDEN, ORDER, STRONG, BARRIER, WARP_BARRIER, FENCE = 2, 3, 4, 5, 6, 7
"""Costs: a wider scope; an order for what is strong already; an order for a plain access; a barrier of the block, which
is right for larger blocks too; one of the warp; a fence."""


def strengthenings(module: Module, scopes: Collection[str]) -> list[Edit]:
    """Smallest first. `scopes`: those that may be needed, "gpu" alone where all happens on one."""
    found = [edit for site in sites(module) for edit in _of(site, scopes)]
    return sorted(found, key=lambda edit: edit.cost)


def _of(site: Site, scopes: Collection[str]) -> Iterator[Edit]:
    instruction = site.instruction
    if instruction.opcode in ("fence", "membar") and not instruction.has("proxy"):
        yield from _of_fence(site, scopes)
    elif instruction.opcode in ("ld", "st", "atom", "red") and not instruction.has("param", "local", "const", "async"):
        if not instruction.has("shared", "shared::cta"):
            yield from _of_access(site, scopes)
        yield from _around(site, scopes)
    elif instruction.form.startswith("cp.async.bulk"):
        yield from _of_bulk(site)


def _of_fence(site: Site, scopes: Collection[str]) -> Iterator[Edit]:
    instruction = site.instruction
    scope = MEMBARS.get(instruction.form) or next((one for one in SCOPES if instruction.has(one)), "")
    order = "sc" if instruction.has("sc") or instruction.opcode == "membar" else "acq_rel"
    for wider in _WIDER.get(scope, ()):
        if wider in scopes:
            yield Edit(site, f"a fence of {wider} scope: {_FENCES[wider]}", form=f"fence.{order}.{wider}", cost=WIDEN)


def _of_access(site: Site, scopes: Collection[str]) -> Iterator[Edit]:
    instruction = site.instruction
    opcode, modifiers = instruction.opcode, instruction.modifiers
    is_rmw = opcode in ("atom", "red")
    orders = ("relaxed", "acquire", "release", "acq_rel", "volatile", "weak")
    order = next((one for one in orders if one in modifiers), "relaxed" if is_rmw else "weak")
    scope = next((one for one in SCOPES if one in modifiers), "gpu" if is_rmw else "")
    rest = [
        one for one in modifiers if one not in (*orders, *SCOPES, "nc") and not one.startswith(("L1", "L2", "level"))
    ]
    if order not in ("weak", "volatile"):
        for wider in _WIDER[scope]:
            if wider in scopes:
                yield _access(site, [order, wider, *rest], f"{SCOPE_NAMES[wider]} scope: {_WORDS[wider]}", WIDEN)
    best = {"ld": "acquire", "st": "release", "atom": "acq_rel", "red": "release"}[opcode]
    if order != best:
        for wanted in dict.fromkeys((scope, *scopes)):
            if wanted in scopes:
                about = f"memory_order_{best}, {_WORDS[wanted]} ({opcode}.{best}.{wanted})"
                yield _access(site, [best, wanted, *rest], about, STRONG if order == "weak" else ORDER)
    if "nc" in modifiers:
        yield _access(site, rest, "a plain load: no const __restrict__, no __ldg", WIDEN)


def _access(site: Site, modifiers: Sequence[str], about: str, cost: int) -> Edit:
    return Edit(site, about, form=".".join((site.instruction.opcode, *modifiers)), cost=cost)


def _around(site: Site, scopes: Collection[str]) -> Iterator[Edit]:
    """Something put before a store or after a load; both where it is one and the other."""
    writes, reads = site.instruction.opcode != "ld", site.instruction.opcode in ("ld", "atom")
    barriers = ("__syncthreads()", "bar.sync 0", BARRIER), ("__syncwarp()", "bar.warp.sync 0xffffffff", WARP_BARRIER)
    for cuda, ptx, cost in barriers:
        yield Edit(site, f"{cuda} before it", before=ptx, cost=cost)
        yield Edit(site, f"{cuda} behind it", after=ptx, cost=cost)
    if site.instruction.has("shared", "shared::cta"):
        return
    for scope in scopes:
        if writes:
            yield Edit(site, f"{_FENCES[scope]} before it", before=f"fence.acq_rel.{scope}", cost=FENCE)
        if reads:
            yield Edit(site, f"{_FENCES[scope]} behind it", after=f"fence.acq_rel.{scope}", cost=FENCE)


def _of_bulk(site: Site) -> Iterator[Edit]:
    instruction = site.instruction
    proxy = 'asm volatile("fence.proxy.async;" ::: "memory")'
    if instruction.has("wait_group"):
        if instruction.has("read"):
            form = ".".join((instruction.opcode, *(one for one in instruction.modifiers if one != "read")))
            yield Edit(site, "wait until the copies are done, not only read: wait_group without .read", form=form)
        yield Edit(site, f"{proxy} behind it", after="fence.proxy.async", cost=FENCE)
    elif not instruction.has("commit_group"):
        yield Edit(site, f"{proxy} before it", before="fence.proxy.async", cost=FENCE)
        yield Edit(
            site, f"{proxy}; __syncthreads() before it", before="fence.proxy.async; bar.sync 0", cost=FENCE + BARRIER
        )
