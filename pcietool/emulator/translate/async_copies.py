"""Asynchronous copies as Python source: cp.async.bulk, cp.async, their groups, and mbarrier.

Every line is a request to the engine; must not decide when a copy is done.
"""

from __future__ import annotations

from collections.abc import Iterator

from pcietool.emulator.mbarriers import BYTES
from pcietool.emulator.ops import Code
from pcietool.emulator.translate.translation import Translation
from pcietool.ptx.model import Immediate, Instruction

SHARED = frozenset({"shared", "shared::cta", "shared::cluster"})


def copy(t: Translation, i: Instruction) -> Iterator[str]:
    """cp.async, and cp.async.bulk between shared and global memory without tensor maps."""
    if i.has("reduce"):
        raise t.unknown(i, "cp.reduce, a copy that adds to what is there,")
    if i.has("tensor"):
        raise t.unknown(i, "tensor maps, which the driver makes,")
    if i.has("async") and not i.has("bulk"):
        yield from _fetch(t, i)
        return
    if not i.has("async"):
        raise t.unknown(i, f"copy .{'.'.join(i.modifiers)}")
    if i.has("commit_group", "wait_group"):
        yield from _group(t, i)
        return
    t.allow(i, SHARED | {"async", "bulk", "global", "bulk_group", "mbarrier::complete_tx::bytes", "L2::cache_hint"})
    spaces = [m for m in i.modifiers if m in SHARED or m == "global"]
    stores = len(spaces) == 2 and spaces[0] == "global" and spaces[1] in SHARED and i.has("bulk_group")
    loads = len(spaces) == 2 and spaces[0] in SHARED and spaces[1] == "global" and not i.has("bulk_group")
    if not (stores or loads) or len(i.operands) - i.has("L2::cache_hint") != (3 if stores else 4):
        raise t.unknown(i, f"bulk copy .{'.'.join(i.modifiers)}")
    to, source = (
        t.address(i, operand, 32 if space in SHARED else 64)
        for operand, space in zip(i.operands[:2], spaces, strict=True)
    )
    op = t.op(i, Code.BULK, kind="store" if stores else "load")
    barrier = "0" if stores else t.address(i, i.operands[3], 32)
    yield f"yield ({op}, {to}, {source}, {t.value(i, i.operands[2], 32)}, {barrier})"


def _fetch(t: Translation, i: Instruction) -> Iterator[str]:
    """cp.async of a few bytes, its commit_group, wait_group and wait_all, and its arrival at an mbarrier."""
    if i.has("commit_group"):
        t.allow(i, {"async", "commit_group"})
        yield f"yield ({t.op(i, Code.BULK, kind='commit fetches')},)"
    elif i.has("wait_group", "wait_all"):
        t.allow(i, {"async", "wait_group", "wait_all"})
        allowed = i.operands[0] if i.has("wait_group") and i.operands else None
        if i.has("wait_group") and not isinstance(allowed, Immediate):
            raise t.unknown(i, "number of groups")
        number = allowed.value if isinstance(allowed, Immediate) else None
        yield f"yield ({t.op(i, Code.BULK, kind='wait for fetches')}, {number})"
    elif i.has("mbarrier"):
        t.allow(i, {"async", "mbarrier", "arrive", "noinc", "shared", "shared::cta", "b64"})
        op = t.op(i, Code.MBARRIER, kind="arrive when fetched", size=BYTES, strong=True, release=True, scope=0)
        yield f"yield ({op}, {t.address(i, i.operands[0], 32)}, {int(i.has('noinc'))})"
    else:
        yield _fetching(t, i)


def _fetching(t: Translation, i: Instruction) -> str:
    hints = {m for m in i.modifiers if m.startswith("L2::")}
    t.allow(i, {"async", "ca", "cg", "shared", "shared::cta", "global", *hints})
    operands = i.operands[:-1] if "L2::cache_hint" in hints else i.operands
    if len(operands) not in (3, 4) or not isinstance(operands[2], Immediate):
        raise t.unknown(i, "number of operands")
    size = operands[2].value
    if size not in (4, 8, 16) or (i.has("cg") and size != 16):
        raise t.unknown(i, f"size of {size} bytes")
    ignored = len(operands) == 4 and t.is_predicate(operands[3])
    if ignored:
        given = f"(0 if {t.value(i, operands[3], 32)} else {size})"
    else:
        given = t.value(i, operands[3], 32) if len(operands) == 4 else str(size)
    op = t.op(i, Code.BULK, kind="fetch", size=size)
    return f"yield ({op}, {t.address(i, operands[0], 32)}, {t.address(i, operands[1])}, {given})"


def _group(t: Translation, i: Instruction) -> Iterator[str]:
    """commit_group, wait_group N and wait_group.read N."""
    t.allow(i, {"async", "bulk", "commit_group", "wait_group", "read"})
    if i.has("commit_group"):
        yield f"yield ({t.op(i, Code.BULK, kind='commit')},)"
        return
    if len(i.operands) != 1 or not isinstance(i.operands[0], Immediate):
        raise t.unknown(i, "number of groups")
    op = t.op(i, Code.BULK, kind="wait read" if i.has("read") else "wait")
    yield f"yield ({op}, {i.operands[0].value})"


def mbarrier(t: Translation, i: Instruction) -> Iterator[str]:
    """init, inval, arrive (with expect_tx, or a count); try_wait and test_wait, for a parity or an arrival's state."""
    kind = t.one_of(i, {"init", "inval", "arrive", "try_wait", "test_wait"})
    t.allow(i, {kind, "expect_tx", "parity", "shared", "shared::cta", "b64", "acquire", "release", "cta"})
    if i.has("acquire", "release") and not i.has("release" if kind == "arrive" else "acquire"):
        raise t.unknown(i, f"instruction form {i.form}")
    waits, arrives = kind in ("try_wait", "test_wait"), kind == "arrive"
    op = t.op(i, Code.MBARRIER, kind=kind, size=BYTES, strong=waits or arrives, acquire=waits, release=arrives, scope=0)
    if kind == "init":
        address, count = i.operands
        yield f"yield ({op}, {t.address(i, address, 32)}, {t.value(i, count, 32)})"
    elif kind == "inval":
        yield f"yield ({op}, {t.address(i, i.operands[0], 32)}, 0)"
    elif kind == "arrive":
        address, *rest = i.operands[1:]
        if len(rest) > 1 or (i.has("expect_tx") and not rest):
            raise t.unknown(i, "number of operands")
        given = t.value(i, rest[0], 32) if rest else "1"
        expected, times = (given, "1") if i.has("expect_tx") else ("0", given)
        yield f"{t.destination(i)} = yield ({op}, {t.address(i, address, 32)}, {expected}, {times})"
    else:
        if len(i.operands) not in (3, 4):  # how long to wait at most is a hint
            raise t.unknown(i, "number of operands")
        barrier, parity = t.address(i, i.operands[1], 32), t.value(i, i.operands[2], 32)
        yield f"{t.destination(i)} = yield ({op}, {barrier}, {parity})"
