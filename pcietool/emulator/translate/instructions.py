"""Instructions as Python source, one generator of lines a kind; those of memory are in `accesses`.

A line may be a `yield`, a request to the engine. Must not know how the lines of a function are put together, nor what
a request costs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

from pcietool.emulator.memory import CLUSTER_OFFSET, RANK_SHIFT
from pcietool.emulator.ops import Code
from pcietool.emulator.translate.accesses import extend_sign, scope_of
from pcietool.emulator.translate.translation import Translation, mask
from pcietool.ptx.model import TYPE_BYTES, Instruction, Operand, Pair, Register, Vector

OPERAND = re.compile(r"\{([wnsfyzlhp]?)([abcd])\}")
FROM_BITS = {"f16": "bits_half", "bf16": "bits_brain", "f32": "bits_float", "f64": "bits_double"}
TO_BITS = {"f16": "half_bits", "bf16": "brain_bits", "f32": "float_bits", "f64": "double_bits"}
"""Functions of `floats`, by type; two numbers in a register have those of one."""
READINGS: Mapping[str, Callable[[Translation, Instruction, Operand, int], str]] = {
    "": lambda t, i, operand, width: t.value(i, operand, width),
    "w": lambda t, i, operand, width: t.value(i, operand, 2 * width),
    "n": lambda t, i, operand, width: t.value(i, operand, 32),
    "s": lambda t, i, operand, width: t.signed(i, operand, width),
    "f": lambda t, i, operand, width: f"{FROM_BITS[i.type]}({t.value(i, operand, width)})",
    "y": lambda t, i, operand, width: f"flush({t.value(i, operand, width)})",
    "z": lambda t, i, operand, width: f"bits_float(flush({t.value(i, operand, width)}))",
    "p": lambda t, i, operand, width: t.value(i, operand, 1),
    "l": lambda t, i, operand, width: f"{FROM_BITS[i.type[:-2]]}({t.value(i, operand, width)}&0xffff)",
    "h": lambda t, i, operand, width: f"{FROM_BITS[i.type[:-2]]}({t.value(i, operand, width)}>>16)",
}
COMPARISONS: Mapping[str, str] = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">=",
    "ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<",
}  # fmt: skip
CONVERTIBLE = frozenset({"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"})
"""cvt between any two integers of these types is one rule, and no form: read as the source type says, cut, extended."""
CARRY = "%cc"
"""The carry flag, among the registers: no PTX can name it."""
CARRY_IN = frozenset({"addc", "subc", "madc"})
CARRYING = frozenset({"u32", "s32", "u64", "s64"})
FENCES = frozenset({"acq_rel", "sc", "acquire", "release"})
MBARRIER_INIT = frozenset({"mbarrier_init", "release", "cluster"})
BARRIER_VOTES = frozenset({"and", "or", "popc"})
VOTES = frozenset({"all", "any", "ballot", "uni"})
MATCHES = frozenset({"all", "any"})
SHUFFLES = frozenset({"up", "down", "bfly", "idx"})
REDUCTIONS = frozenset(
    {"add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32", "xor.b32"}
)
"""What redux.sync computes of the numbers of a warp."""


def compute(t: Translation, i: Instruction, expression: str) -> Iterator[str]:
    """Whatever `isa.ALU` has an expression for."""
    width = TYPE_BYTES[next(m for m in reversed(i.modifiers) if m in TYPE_BYTES)] * 8
    both = i.opcode == "setp" and isinstance(i.operands[0], Pair)
    if both and "{Q}" not in expression:
        expression = f"{{Q}}({expression})"
    used = set(OPERAND.findall(expression))
    if len(i.operands) - 1 != len({letter for _, letter in used}):
        raise t.unknown(i, "number of operands")
    fields: dict[str, Any] = {
        "M": mask(width),
        "M2": mask(2 * width),
        "W": width,
        "S": hex(1 << width - 1),
        "F": TO_BITS.get(i.type.removesuffix("x2")),
        "KIND": i.modifiers[0],
        "CMP": COMPARISONS.get(i.modifiers[0]),
        "LAST": i.modifiers[-1],
        "BEFORE": i.modifiers[-2:][0],
        "Q": "",
    }
    for reading, letter in used:
        fields[reading + letter] = READINGS[reading](t, i, i.operands[1 + "abcd".index(letter)], width)
    result = expression.format_map(fields)
    if both:
        yield f"{_pair(t, i)} = {result}, {expression.format_map(fields | {'Q': 'not '})}"
    else:
        yield f"{t.destination(i)} = {result}"


def move(t: Translation, i: Instruction) -> Iterator[str]:
    """Between a register and the parts that it is made of, the lowest first."""
    into, source = i.operands
    width = TYPE_BYTES[i.type] * 8
    if isinstance(into, Vector):
        part = width // len(into.items)
        yield f"whole = {t.value(i, source, width)}"
        for n, item in enumerate(into.items):
            if isinstance(item, Register) and item.name != "_":
                yield f"{t.register(item.name)} = whole >> {n * part} & {mask(part)}"
    elif isinstance(source, Vector):
        part = width // len(source.items)
        parts = (f"{t.value(i, item, part)} << {n * part}" for n, item in enumerate(source.items))
        yield f"{t.destination(i)} = {' | '.join(parts)}"
    else:
        raise t.unknown(i, f"instruction form {i.form}")


def convert(t: Translation, i: Instruction) -> Iterator[str]:
    """Between integers; floats have forms of their own."""
    *saturates, to, source = i.modifiers
    if saturates not in ([], ["sat"]) or not CONVERTIBLE.issuperset((to, source)):
        raise t.unknown(i, f"conversion {i.form}")
    read = t.signed if source[0] == "s" else t.value
    width = TYPE_BYTES[to] * 8
    value = read(i, i.operands[1], TYPE_BYTES[source] * 8)
    if saturates:
        lowest = -(1 << width - 1) if to[0] == "s" else 0
        value = f"min(max({value}, {lowest}), {lowest + (1 << width) - 1})"
    yield f"{t.destination(i)} = {value}&{mask(width)}"
    if to[0] == "s":
        assert isinstance(i.operands[0], Register)
        yield from extend_sign(t, i.operands[0].name, width)


def carry(t: Translation, i: Instruction) -> Iterator[str]:
    """add.cc, subc, madc.hi.cc and the like: sums with a carry that one instruction leaves for the next. A difference
    is a sum with the complement, which carries unless something was borrowed, as on an H200."""
    opcode = i.opcode.removesuffix("c")
    if i.type not in CARRYING or not (i.has("cc") or i.opcode in CARRY_IN) or len(i.operands) != 3 + (opcode == "mad"):
        raise t.unknown(i, f"instruction form {i.form}")
    t.allow(i, {"cc", "lo", "hi", i.type} if opcode == "mad" else {"cc", i.type})
    width = TYPE_BYTES[i.type] * 8
    read = t.signed if i.has("hi") and i.type[0] == "s" else t.value
    a, b = (read(i, operand, width) for operand in i.operands[1:3])
    if opcode == "mad":
        half = t.one_of(i, {"lo", "hi"})
        a = f"({a}*{b}{f'>>{width}' if half == 'hi' else ''}&{mask(width)})"
        b = t.value(i, i.operands[3], width)
    flag = t.register(CARRY)
    if opcode == "sub":
        b = f"({b}^{mask(width)})"
    yield f"whole = {a}+{b}+{flag if i.opcode in CARRY_IN else int(opcode == 'sub')}"
    yield f"{t.destination(i)} = whole&{mask(width)}"
    if i.has("cc"):
        yield f"{flag} = whole>>{width}&1"


def elect(t: Translation, i: Instruction) -> Iterator[str]:
    """All lanes named meet; the lowest is the one."""
    t.allow(i, {"sync"})
    if not isinstance(i.operands[0], Pair):
        raise t.unknown(i, f"destination {i.operands[0]}")
    yield f"whole = yield ({t.op(i, Code.WARP, kind='vote.ballot')}, {t.value(i, i.operands[1], 32)}, True)"
    yield "whole = (whole & -whole).bit_length() - 1"
    yield f"{_pair(t, i)} = whole, whole == TX & 31"


def fence(t: Translation, i: Instruction) -> Iterator[str]:
    if i.has("proxy", "mbarrier_init"):
        t.allow(i, {"proxy", "async", "global", "shared::cta"} if i.has("proxy") else MBARRIER_INIT)
        yield f"yield ({t.op(i, Code.FENCE, scope=0, kind='proxy')},)"
        return
    if any(modifier.startswith("sync_restrict") for modifier in i.modifiers):
        raise t.unknown(i, "a fence of some memory only (.sync_restrict, for clusters)")
    t.allow(i, FENCES | {"cta", "gpu", "gl", "sys", "cluster"})
    scope = 1 if i.has("gl") else scope_of(i, "sys")
    kind = "sc" if i.opcode == "membar" else t.one_of(i, FENCES) if i.has(*FENCES) else "acq_rel"
    yield f"yield ({t.op(i, Code.FENCE, scope=scope, kind=kind)},)"


def barrier(t: Translation, i: Instruction) -> Iterator[str]:
    if i.has("warp"):
        t.allow(i, {"warp", "sync"})
        yield f"yield ({t.op(i, Code.WARP, kind='sync')}, {t.value(i, i.operands[0], 32)}, 0)"
        return
    if i.has("red"):
        yield from barrier_with_votes(t, i)
        return
    if i.has("cluster"):
        yield from _cluster_barrier(t, i)
        return
    t.allow(i, {"cta", "sync", "arrive", "aligned"})
    kind = t.one_of(i, {"sync", "arrive"})
    number, count = [*(t.value(i, operand, 32) for operand in i.operands), "0"][:2]
    op = t.op(i, Code.BARRIER, kind=kind)
    if number.isdigit() and count.isdigit():  # one object for all threads, so that they are found to arrive together
        yield f"yield {t.constant('BARRIER', (t.constants[op], int(number), int(count)))}"
    else:
        yield f"yield ({op}, {number}, {count})"


def _cluster_barrier(t: Translation, i: Instruction) -> Iterator[str]:
    kind = t.one_of(i, {"arrive", "wait"})
    t.allow(i, {"cluster", kind, "aligned", *(("release", "relaxed") if kind == "arrive" else ("acquire",))})
    t.refuse_exploring(i, "barriers of clusters")
    op = t.op(i, Code.BARRIER, kind=f"cluster {kind}", release=not i.has("relaxed"))
    yield f"yield ({op},)"


def shared_address_of_rank(t: Translation, i: Instruction) -> Iterator[str]:
    """mapa: an address in this block's shared memory as that of another block of its cluster."""
    t.allow(i, {"shared::cluster", "u32", "u64"})
    t.refuse_exploring(i, "shared memory of clusters")
    address, rank = t.value(i, i.operands[1], 32), t.value(i, i.operands[2], 32)
    window = "" if i.has("shared::cluster") else "|SHARED_WINDOW"
    yield f"{t.destination(i)} = ({address})&{CLUSTER_OFFSET}|({rank})+1<<{RANK_SHIFT}{window}"


def barrier_with_votes(t: Translation, i: Instruction) -> Iterator[str]:
    """bar.red: all threads give a predicate, and get what it is of all of them."""
    kind = t.one_of(i, BARRIER_VOTES)
    t.allow(i, BARRIER_VOTES | {"cta", "red", "aligned", "pred", "u32"})
    number, *count = (t.value(i, operand, 32) for operand in i.operands[1:-1])
    given = t.value(i, i.operands[-1], 1)
    yield f"{t.destination(i)} = yield ({t.op(i, Code.BARRIER, kind=kind)}, {number}, {[*count, '0'][0]}, {given})"


def grid_dependency(t: Translation, i: Instruction) -> Iterator[str]:
    """Programmatic dependent launch: lets the next launch begin, or waits for the end of those before."""
    yield f"yield ({t.op(i, Code.GRID, kind=t.one_of(i, {'wait', 'launch_dependents'}))},)"


def sleep(t: Translation, i: Instruction) -> Iterator[str]:
    t.allow(i, {"u32"})
    yield f"yield ({t.op(i, Code.SLEEP)}, {t.value(i, i.operands[0], 32)})"


def vote(t: Translation, i: Instruction) -> Iterator[str]:
    kind = _warp_kind(t, i, VOTES, {"pred", "b32"}, operands=3)
    given, members = t.value(i, i.operands[1], 1), t.value(i, i.operands[2], 32)
    yield f"{t.destination(i)} = yield ({t.op(i, Code.WARP, kind=f'vote.{kind}')}, {members}, {given})"


def shuffle(t: Translation, i: Instruction) -> Iterator[str]:
    kind = _warp_kind(t, i, SHUFFLES, {"b32"}, operands=5)
    value, lane, clamp, members = (t.value(i, operand, 32) for operand in i.operands[1:])
    op = t.op(i, Code.WARP, kind=f"shfl.{kind}")
    yield f"{_pair(t, i)} = yield ({op}, {members}, ({value}, {lane}, {clamp}))"


def reduce(t: Translation, i: Instruction) -> Iterator[str]:
    kind = _warp_kind(t, i, {form.partition(".")[0] for form in REDUCTIONS}, {i.type}, operands=3)
    if f"{kind}.{i.type}" not in REDUCTIONS:
        raise t.unknown(i, f"instruction form {i.form}")
    value, members = (t.value(i, operand, 32) for operand in i.operands[1:])
    yield f"{t.destination(i)} = yield ({t.op(i, Code.WARP, kind=f'redux.{kind}.{i.type}')}, {members}, {value})"


def match(t: Translation, i: Instruction) -> Iterator[str]:
    kind = _warp_kind(t, i, MATCHES, {"b32", "b64"}, operands=3)
    value = t.value(i, i.operands[1], TYPE_BYTES[i.type] * 8)
    request = f"yield ({t.op(i, Code.WARP, kind=f'match.{kind}')}, {t.value(i, i.operands[2], 32)}, {value})"
    yield f"{_pair(t, i) if kind == 'all' else t.destination(i)} = {request}"


def _warp_kind(t: Translation, i: Instruction, kinds: Set[str], others: Set[str], operands: int) -> str:
    """Which operation of a warp it is. Only those there are whose lanes are named."""
    kind = t.one_of(i, kinds)
    t.allow(i, {*kinds, *others, "sync"})
    if not i.has("sync") or len(i.operands) != operands:
        raise t.unknown(i, f"instruction form {i.form}")
    return kind


def _pair(t: Translation, i: Instruction) -> str:
    """A value, and a predicate that not everybody takes."""
    into = i.operands[0]
    if isinstance(into, Pair):
        return f"{t.register(into.first.name)}, {t.register(into.second.name)}"
    return f"{t.destination(i)}, _"


def cache_policy(t: Translation, i: Instruction) -> Iterator[str]:
    """Nothing depends on it."""
    yield f"{t.destination(i)} = 0"


def prefetch(t: Translation, i: Instruction) -> Iterator[str]:
    """There are no caches to fill."""
    t.allow(i, {"global", "L1", "L2", "L2::evict_last", "L2::evict_normal"})
    t.address(i, i.operands[0])
    yield "pass"


def trap(t: Translation, i: Instruction) -> Iterator[str]:
    t.allow(i, ())
    yield "trap(G)"
