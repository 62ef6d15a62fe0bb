"""Random small kernels: a few threads on one or two GPUs; loads, stores, atomics, fences and barriers of all kinds.

Written down by a seed, as PTX. Must not run them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from tests.emulator.emulated_programs import PTX_HEAD

WORDS = 2
WORD_BYTES = 8
RESULTS = 4
"""Of each thread, 64 bits each."""
SCOPES = ("cta", "gpu", "sys")
KINDS = ("add", "min", "max", "and", "or", "xor", "exch", "inc", "cas", "cas")


@dataclass(frozen=True)
class Place:
    gpu: int
    block: int
    lane: int


@dataclass(frozen=True)
class RandomKernel:
    """`home`: the GPU whose memory the words are in, None for the host. Threads run `ptx[gpu]`, in `blocks` of
    `lanes`."""

    seed: int
    fabric: str
    home: int | None
    places: tuple[Place, ...]
    ptx: dict[int, str]
    blocks: dict[int, int]
    lanes: dict[int, int]


def random_kernel(seed: int) -> RandomKernel:
    random = Random(seed)
    fabric = random.choice(("h200-nvlink2", "pcie5-switch4"))
    shape = random.choice(
        ([(0, 0, 0), (1, 0, 0)], [(0, 0, 0), (0, 1, 0)], [(0, 0, 0), (0, 0, 1)]) * 2
        + ([(0, 0, 0), (0, 1, 0), (1, 0, 0)], [(0, 0, 0), (0, 0, 1), (1, 0, 0)], [(0, 0, 0), (1, 0, 0), (1, 1, 0)])
    )
    places = tuple(Place(*one) for one in shape)
    codes = {place: _Code(random, most=4 if len(places) == 2 else 3) for place in places}
    _meet(random, codes)
    gpus = sorted({place.gpu for place in places})
    mine = {gpu: [place for place in places if place.gpu == gpu] for gpu in gpus}
    return RandomKernel(
        seed,
        fabric,
        random.choice((0, 1, None)),
        places,
        {gpu: _ptx(mine[gpu], codes, places) for gpu in gpus},
        {gpu: 1 + max(place.block for place in mine[gpu]) for gpu in gpus},
        {gpu: 1 + max(place.lane for place in mine[gpu]) for gpu in gpus},
    )


class _Code:
    """The instructions of one thread. Results go to %rd<n>."""

    def __init__(self, random: Random, most: int) -> None:
        self._random = random
        self._results = 0
        self.lines = [line for _ in range(random.randint(2, most)) for line in self._instruction()]

    def _instruction(self) -> Sequence[str]:
        return self._random.choice((self._load, self._load, self._store, self._store, self._rmw, self._fence))()

    def _register(self) -> int:
        self._results += 1
        return self._results - 1

    def _access(self, orders: tuple[str, ...]) -> tuple[str, int, str]:
        """(semantics, bytes, address) of a load or store."""
        random = self._random
        order = random.choice((*orders, "weak"))
        semantics = "weak" if order == "weak" else f"{order}.{random.choice(SCOPES)}"
        size = random.choice((1, 2, 4, 4, 4, 4, 8))
        offset = random.randrange(WORDS) * WORD_BYTES + random.choice((0, 0, 4)) // size * size
        return semantics, size, f"[%mem+{offset}]"

    def _load(self) -> Sequence[str]:
        semantics, size, address = self._access(("relaxed", "acquire"))
        n = self._register()
        if size == 8 and self._random.random() < 0.5:
            return [
                f"ld.{semantics}.global.v2.u32 {{%r0, %r1}}, {address};",
                f"cvt.u64.u32 %rd{n}, %r0;",
                "cvt.u64.u32 %rd9, %r1;",
                "shl.b64 %rd9, %rd9, 32;",
                f"or.b64 %rd{n}, %rd{n}, %rd9;",
            ]
        if size == 4:
            return [f"ld.{semantics}.global.u32 %r0, {address};", f"cvt.u64.u32 %rd{n}, %r0;"]
        return [f"ld.{semantics}.global.u{8 * size} %rd{n}, {address};"]

    def _store(self) -> Sequence[str]:
        semantics, size, address = self._access(("relaxed", "release"))
        value = self._random.randint(1, 7)
        if size == 8:
            if self._random.random() < 0.5:
                return [f"mov.u32 %r0, {value};", f"st.{semantics}.global.v2.u32 {address}, {{%r0, %r0}};"]
            return [f"mov.u64 %rd9, {value << 32 | value};", f"st.{semantics}.global.u64 {address}, %rd9;"]
        if size == 4:
            return [f"mov.u32 %r0, {value};", f"st.{semantics}.global.u32 {address}, %r0;"]
        return [f"mov.u64 %rd9, {value};", f"st.{semantics}.global.u{8 * size} {address}, %rd9;"]

    def _rmw(self) -> Sequence[str]:
        random = self._random
        kind = random.choice(KINDS)
        semantics = f"{random.choice(('relaxed', 'acquire', 'release', 'acq_rel'))}.{random.choice(SCOPES)}"
        wide = kind != "inc" and random.random() < 0.15
        offset = random.randrange(WORDS) * WORD_BYTES + (0 if wide else random.choice((0, 0, 4)))
        bits = 64 if wide else 32
        type_ = f"b{bits}" if kind in ("and", "or", "xor", "exch", "cas") else f"u{bits}"
        operands = f"{random.randint(0, 3)}"
        if kind == "cas":
            operands = f"{random.choice((0, 0, 1, 2))}, {random.randint(1, 7)}"
        n = self._register()
        target = f"%rd{n}" if wide else "%r0"
        line = f"atom.{semantics}.global.{kind}.{type_} {target}, [%mem+{offset}], {operands};"
        return [line] if wide else [line, f"cvt.u64.u32 %rd{n}, %r0;"]

    def _fence(self) -> Sequence[str]:
        return [f"fence.{self._random.choice(('acq_rel', 'sc', 'acquire', 'release'))}.{self._random.choice(SCOPES)};"]


def _meet(random: Random, codes: dict[Place, _Code]) -> None:
    """Lanes of one block may meet at a barrier."""
    if not any(place.lane for place in codes) or random.random() < 0.5:
        return
    for place, code in codes.items():
        if (place.gpu, place.block) == (0, 0):
            code.lines.append("bar.sync 0;")
            code.lines += code._load()


def _ptx(mine: Sequence[Place], codes: dict[Place, _Code], places: Sequence[Place]) -> str:
    return "\n".join(_lines(mine, codes, places))


def _lines(mine: Sequence[Place], codes: dict[Place, _Code], places: Sequence[Place]) -> Iterator[str]:
    yield PTX_HEAD + ".visible .entry k(.param .u64 watch, .param .u64 p1, .param .u64 p2)"
    yield "{ .reg .pred %p; .reg .b32 %t, %b, %r<4>; .reg .b64 %mem, %out, %rd<10>;"
    yield "ld.param.u64 %mem, [p1]; ld.param.u64 %out, [p2];"
    yield "mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; shl.b32 %b, %b, 1; add.u32 %t, %t, %b;"
    yield "".join(f"mov.u64 %rd{n}, 0;" for n in range(RESULTS))
    for place in mine:
        yield f"setp.eq.u32 %p, %t, {2 * place.block + place.lane}; @%p bra T{places.index(place)};"
    yield "ret;"
    for place in mine:
        number = places.index(place)
        yield f"T{number}:"
        yield from codes[place].lines
        for n in range(RESULTS):
            yield f"st.global.u64 [%out+{8 * (RESULTS * number + n)}], %rd{n};"
        yield "ret;"
    yield "}"
