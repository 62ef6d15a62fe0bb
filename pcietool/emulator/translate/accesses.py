"""Memory instructions as Python source: ld, st, atom, red.

Must not decide what an access costs or when it becomes visible: whatever other threads can see is a request to the
engine. Only weak accesses to the device's own memory, and shared and local memory, are done in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from pcietool.emulator.ops import SCOPES, Code
from pcietool.emulator.translate import floats
from pcietool.emulator.translate.calls import answer, argument
from pcietool.emulator.translate.translation import Translation, mask
from pcietool.ptx.model import TYPE_BYTES, Address, Instruction, Operand, Register, Symbol, Vector

VIEWS = {1: "B", 2: "H", 4: "I", 8: "Q"}
SHIFTS = {1: 0, 2: 1, 4: 2, 8: 3}
WIDEST_ACCESS = 16
"""Bytes of one request; a wider vector is several. The engine finds parked polls by granules of this size."""
SPACES = frozenset({"global", "shared", "shared::cta", "shared::cluster", "const", "local"})
SEMANTICS = frozenset({"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"})
CACHE_HINTS = frozenset(
    {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "L2::64B", "L2::128B", "L2::256B", "L2::cache_hint"}
    | {f"L1::{hint}" for hint in ("no_allocate", "evict_normal", "evict_unchanged", "evict_first", "evict_last")}
)
"""What no result depends on. The policy of a cache hint is the last operand."""
VECTORS: Mapping[str, int] = {"v2": 2, "v4": 4, "v8": 8}
RMW: Mapping[str, str] = {
    "add": "(old+b)&M",
    "min": "min(old,b)",
    "max": "max(old,b)",
    "inc": "0 if old>=b else old+1",
    "dec": "b if old==0 or old>b else old-1",
    "and": "old&b",
    "or": "old|b",
    "xor": "old^b",
    "exch": "b",
    "cas": "c if old==b else old",
}
"""The new value of a word from its old one and the operands, unsigned; signed min and max are biased."""
RMW_TYPES = frozenset({"u32", "s32", "b32", "u64", "s64", "b64"})
"""Of all operations; cas has b16, too."""
FLOAT_SUMS: Mapping[str, str] = {
    "f32": "float_bits(bits_float(old)+bits_float(b))",
    "f64": "double_bits(bits_double(old)+bits_double(b))",
    "f16": "add_halves(old,b)",
    "bf16": "add_brains(old,b)",
    "f16x2": "in_both(add_halves,old,b)",
    "bf16x2": "in_both(add_brains,old,b)",
}
"""What add does to floats, which have no other read-modify-write. Those of 16 bits are written with .noftz."""
FLUSHED_SUM = "flush(float_bits(bits_float(flush(old))+bits_float(flush(b))))"
"""The same in global memory, where the hardware makes 32-bit subnormals zero."""
NEAR: Mapping[str, str] = {"S": "shared", "V": "local", "K": "constant"}


def is_shared(i: Instruction) -> bool:
    return i.has("shared", "shared::cta", "shared::cluster")


def near_memory(i: Instruction) -> str:
    """The prefix of the views of the memory that nobody outside the block changes, if `i` goes there."""
    return "S" if is_shared(i) else "V" if i.has("local") else "K" if i.has("const") else ""


def is_non_coherent(i: Instruction) -> bool:
    """Does the load take the path that is for what nobody writes meanwhile?"""
    return i.opcode == "ld" and i.has("nc")


def is_near(i: Instruction) -> bool:
    """Are its addresses offsets of 32 bits?"""
    return bool(near_memory(i))


def is_strong(i: Instruction) -> bool:
    return i.has("volatile", "relaxed", "acquire", "release")


def vector_length(i: Instruction) -> int:
    return next((VECTORS[modifier] for modifier in i.modifiers if modifier in VECTORS), 1)


def scope_of(i: Instruction, default: str) -> int:
    """As its Op has it."""
    return SCOPES[next((m for m in i.modifiers if m in SCOPES), default)]


def address_of(t: Translation, i: Instruction, address: Operand) -> str:
    """Generic, except for what is accessed in place near the thread: an offset of 32 bits."""
    if not is_near(i):
        return t.address(i, address)
    offset = t.address(i, address, 32)
    return f"({offset})|SHARED_WINDOW" if is_shared(i) and not t.inline_shared else offset


@dataclass(frozen=True)
class _Access:
    """A load or store whose modifiers were checked; `address` is Python source."""

    op: str
    address: str
    size: int
    count: int
    parts: int
    """Requests it takes, each for `count` elements."""
    near: str
    """Shared, local or constant memory, if it goes there and is accessed in place: the prefix of its views."""
    asks: bool
    """Else always served by the engine."""

    @classmethod
    def of(cls, t: Translation, i: Instruction, code: int, address: Operand, *, returns: bool = False) -> _Access:
        if i.type not in TYPE_BYTES or i.type in ("pred", "b128"):
            raise t.unknown(i, f"type .{i.type}")
        t.allow(i, SPACES | SEMANTICS | SCOPES.keys() | CACHE_HINTS | VECTORS.keys() | {i.type})
        if i.has("local") and i.has("relaxed", "acquire", "release"):
            raise t.unknown(i, "strong access to local memory")
        if i.has("const") and (is_strong(i) or code == Code.STORE):
            raise t.unknown(i, "strong access or store to constant memory")
        size = TYPE_BYTES[i.type]
        nbytes = size * vector_length(i)
        parts = max(1, nbytes // WIDEST_ACCESS)
        if parts > 2 or (parts > 1 and (is_near(i) or not t.asks_often)):
            raise t.unknown(i, f"a {nbytes} byte access{' here' * (parts == 2)}")
        count = nbytes // size // parts
        poll = t.polls.get(id(i)) if parts == 1 else None
        op = t.op(
            i,
            code,
            size=size,
            count=count,
            strong=is_strong(i),
            acquire=i.has("acquire"),
            release=i.has("release"),
            scope=scope_of(i, "sys"),
            poll=poll and poll.loop,
            carried=tuple(map(t.register, poll.carried)) if poll else (),
            counts=poll is not None and poll.counts,
            alone=poll is None or poll.alone,
            returns=returns,
            coherent=not is_non_coherent(i),
        )
        near = "" if is_shared(i) and not t.inline_shared else near_memory(i)
        asks = is_strong(i) or is_shared(i) or not t.inline_weak
        return cls(op, address_of(t, i, address), size, count, parts, near, asks)

    @property
    def view(self) -> str:
        return VIEWS[self.size]

    @property
    def elsewhere(self) -> str:
        """Condition: address `a` is not in the device's own memory, or misaligned; `m` is that memory."""
        nbytes = self.size * self.count
        return "m is None" + (f" or a & {nbytes - 1}" if nbytes > 1 else "")

    def locate(self) -> Iterator[str]:
        """Leaves the address in `a`, and for accesses in place the memory in `m`."""
        yield f"a = {self.address}"
        if self.near:
            yield from locate_near(self.near, self.size, self.count)
        elif not self.asks:
            yield f"m = L{self.view}.get(a >> 32)"

    def each(self) -> Iterator[tuple[slice, list[str], _Access]]:
        """Which elements, what locates them, and the access."""
        if self.parts == 1:
            yield slice(None), list(self.locate()), self
            return
        nbytes = self.size * self.count * self.parts
        before = [
            f"whole = {self.address}",
            f"if whole & {nbytes - 1}: misaligned(whole & 0xffffffff, {nbytes}, 'global')",
        ]
        for n in range(self.parts):
            part = replace(self, address=f"whole+{n * WIDEST_ACCESS}")
            yield slice(n * self.count, (n + 1) * self.count), [*before[: 0 if n else 2], *part.locate()], part

    @property
    def index(self) -> str:
        return f"i = (a & 0xffffffff) >> {SHIFTS[self.size]}"


def locate_near(memory: str, size: int, count: int = 1) -> Iterator[str]:
    """Shared or local memory in `m` and the index of address `a` in `i`."""
    if size * count > 1:
        yield f"if a & {size * count - 1}: misaligned(a, {size * count}, '{NEAR[memory]}')"
    yield f"m = {memory}{VIEWS[size]}; i = a >> {SHIFTS[size]}"


def load(t: Translation, i: Instruction) -> Iterator[str]:
    if i.has("param"):
        yield from _parameter(t, i)
        return
    destinations = i.operands[0].items if isinstance(i.operands[0], Vector) else (i.operands[0],)
    registers = [d.name for d in destinations if isinstance(d, Register)]
    returns = not t.read.isdisjoint(registers)
    access = _Access.of(t, i, Code.LOAD, i.operands[1], returns=returns)
    if len(registers) != access.count * access.parts:
        raise t.unknown(i, "destination")
    elements = ", ".join(f"m[i+{n}]" if n else "m[i]" for n in range(access.count))
    for which, located, part in access.each():
        targets = ", ".join(t.register(name) for name in registers[which])
        request = f"{targets} = " * returns + f"yield ({access.op}, a)"
        yield from located
        if access.near:
            yield f"{targets} = {elements}"
        elif access.asks:
            yield request
        else:
            if is_non_coherent(i):
                yield f"MC.order.loads_non_coherent(TH, {access.op}, a)"
            yield f"if {part.elsewhere}: {request}"
            yield f"else: {access.index}; {targets} = {elements}"
    if i.type[0] == "s":
        yield from (extension for name in registers for extension in extend_sign(t, name, access.size * 8))


def extend_sign(t: Translation, name: str, width: int) -> Iterator[str]:
    """Gives a register the signed value of its low `width` bits, if it is wider."""
    if t.register_width(name) > width:
        sign = hex(1 << width - 1)
        yield f"{t.register(name)} = (({t.register(name)} ^ {sign}) - {sign}) & {mask(t.register_width(name))}"


def _parameter(t: Translation, i: Instruction) -> Iterator[str]:
    """Part of a parameter, which is one number."""
    t.allow(i, {"param", "v2", "v4", i.type})
    address = i.operands[1]
    names = [parameter.name for parameter in t.function.parameters]
    if not isinstance(address, Address) or not isinstance(address.base, Symbol):
        raise t.unknown(i, "parameter access")
    if address.base.name not in names:
        yield from answer(t, i)
        return
    number = names.index(address.base.name)
    parameter, size = t.function.parameters[number], TYPE_BYTES[i.type]
    destinations = i.operands[0].items if isinstance(i.operands[0], Vector) else (i.operands[0],)
    for n, destination in enumerate(destinations):
        offset = address.offset + n * size
        if not isinstance(destination, Register) or not 0 <= offset <= parameter.bytes - size:
            raise t.unknown(i, "parameter access")
        whole = not offset and size == parameter.bytes
        part = "" if whole else f" >> {8 * offset} & {mask(8 * size)}"
        yield f"{t.register(destination.name)} = P[{number}]{part}"
        if i.type[0] == "s":
            yield from extend_sign(t, destination.name, size * 8)


def is_in_space(t: Translation, i: Instruction) -> Iterator[str]:
    """Is a generic address one of shared or of global memory? There are no generic addresses of any other."""
    address = t.value(i, i.operands[1], 64)
    spaces = {
        "shared": f"bool({address} & SHARED_WINDOW)",
        "shared::cta": f"bool({address} & SHARED_WINDOW)",
        "global": f"not {address} & SHARED_WINDOW",
        "local": "False",
        "const": "False",
        "param": "False",
    }
    yield f"{t.destination(i)} = {spaces[t.one_of(i, spaces)]}"


def store(t: Translation, i: Instruction) -> Iterator[str]:
    if i.has("param"):
        yield from argument(t, i)
        return
    access = _Access.of(t, i, Code.STORE, i.operands[0])
    items = i.operands[1].items if isinstance(i.operands[1], Vector) else (i.operands[1],)
    values = [t.value(i, item, access.size * 8) for item in items]
    if len(values) != access.count * access.parts:
        raise t.unknown(i, "value")
    for which, located, part in access.each():
        packed = values[0] if access.count == 1 else f"({', '.join(values[which])})"
        request = f"yield ({access.op}, a, {packed})"
        writes = "; ".join(f"m[i+{n}] = {value}" if n else f"m[i] = {value}" for n, value in enumerate(values[which]))
        yield from located
        if access.near:
            yield writes
        elif access.asks:
            yield request
        else:
            yield f"if {part.elsewhere} or a >> 4 in WATCHED: {request}"
            note = f"; MC.order.stored_in_place(TH, {access.op}, a)" if t.non_coherent else ""
            yield f"else: {access.index}; {writes}{note}"


def read_modify_write(t: Translation, i: Instruction) -> Iterator[str]:
    returns = i.opcode == "atom"
    kind = t.one_of(i, RMW)
    if i.type not in RMW_TYPES and (kind, i.type) != ("cas", "b16") and not (kind == "add" and i.type in FLOAT_SUMS):
        raise t.unknown(i, f"read-modify-write .{kind} of type .{i.type}")
    short = kind == "add" and "16" in i.type
    t.allow(
        i, SPACES | SEMANTICS | SCOPES.keys() | VECTORS.keys() | {kind, i.type, "L2::cache_hint", *["noftz"] * short}
    )
    size = TYPE_BYTES[i.type]
    address, *operands = i.operands[1:] if returns else i.operands
    if i.has("L2::cache_hint"):
        operands.pop()
    if len(operands) != (2 if kind == "cas" else 1):
        raise t.unknown(i, "number of operands")
    if i.has(*VECTORS):
        yield from _vector_sum(t, i, address, operands[0])
        return
    b, c = [*(t.value(i, operand, size * 8) for operand in operands), "0"][:2]
    target = f"{t.destination(i)} = " if returns else ""
    yield f"a = {address_of(t, i, address)}"
    modify = modifier(kind, i.type, shared=is_shared(i))
    if is_shared(i) and t.inline_shared:
        yield from locate_near("S", size)
        yield f"old = m[i]; m[i] = {t.constant('RMW', modify)}(old, {b}, {c})"
        if returns:
            yield f"{target}old"
        return
    yield f"{target}yield ({_rmw_op(t, i, kind, modify)}, a, {b}, {c})"


def _rmw_op(t: Translation, i: Instruction, kind: str, modify: Callable[[int, int, int], int]) -> str:
    return t.op(
        i,
        Code.RMW,
        size=TYPE_BYTES[i.type],
        strong=True,
        acquire=i.has("acquire", "acq_rel"),
        release=i.has("release", "acq_rel"),
        scope=scope_of(i, "gpu"),
        returns=i.opcode == "atom",
        modify=modify,
        kind=kind,
    )


def _vector_sum(t: Translation, i: Instruction, address: Operand, given: Operand) -> Iterator[str]:
    """add of floats to the elements of a vector in global memory, each a read-modify-write of its own."""
    count, size = vector_length(i), TYPE_BYTES[i.type]
    into = i.operands[0] if i.opcode == "atom" else given
    vectors = isinstance(given, Vector) and isinstance(into, Vector) and len(given.items) == len(into.items) == count
    sums = i.type in FLOAT_SUMS and count * size <= WIDEST_ACCESS and i.has("add") and i.type != "f64"
    if not vectors or not sums or is_near(i) or not t.asks_often:
        raise t.unknown(i, f"instruction form {i.form} here")
    op = _rmw_op(t, i, "add", modifier("add", i.type))
    yield f"whole = {t.address(i, address)}"
    yield f"if whole & {count * size - 1}: misaligned(whole & 0xffffffff, {count * size}, 'global')"
    assert isinstance(given, Vector)
    assert isinstance(into, Vector)
    requests = [
        f"yield ({op}, whole+{n * size}, {t.value(i, item, size * 8)}, 0)" for n, item in enumerate(given.items)
    ]
    if i.opcode == "red":
        yield from requests
        return
    names = [f"old{n}" for n in range(count)]  # a register may be given and written
    yield from (f"{name} = {request}" for name, request in zip(names, requests, strict=True))
    for name, item in zip(names, into.items, strict=True):
        if isinstance(item, Register):
            yield f"{t.register(item.name)} = {name}"


def modifier(kind: str, type_: str, *, shared: bool = False) -> Callable[[int, int, int], int]:
    """The function `new(old, b, c)` of one read-modify-write operation and type, in shared or global memory."""
    width = TYPE_BYTES[type_] * 8
    expression = RMW[kind].replace("M", mask(width))
    if type_[0] == "s" and kind in ("min", "max"):
        sign = hex(1 << width - 1)
        expression = f"{kind}(old^{sign}, b^{sign})^{sign}"
    if type_ in FLOAT_SUMS:
        expression = FLOAT_SUMS[type_] if shared or type_ != "f32" else FLUSHED_SUM
    function: Callable[[int, int, int], int] = eval(f"lambda old, b, c: {expression}", dict(vars(floats)))
    return function
