"""Finds wait loops in parsed PTX: loops that do nothing but look until a loaded value lets them go.

The engine parks a thread in such a loop instead of emulating every poll. Must stay conservative: a loop that
stores, synchronises or counts for its own sake is not a wait loop, and is then emulated poll by poll.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pcietool.ptx.model import Address, Function, Instruction, Label, Operand, Pair, Register, Vector

HARMLESS = frozenset(
    "mov cvta add sub mul mad div rem neg abs min max and or xor not shl shr shf bfe bfi prmt popc clz brev setp selp"
    " cvt ld nanosleep bra membar fence".split()
)
Block = int


def successors(function: Function, block: Block) -> tuple[Block, ...]:
    """Where control can go from the end of a block."""
    last = function.blocks[block].instructions[-1]
    follows = (block + 1,) if block + 1 < len(function.blocks) else ()
    if last.opcode in ("ret", "exit", "trap"):
        return follows if last.guard else ()
    if last.opcode == "bra":
        target = last.operands[0]
        assert isinstance(target, Label)
        jump = (function.labels[target.name],)
        return (*jump, *follows) if last.guard else jump
    return follows


def natural_loops(function: Function) -> list[frozenset[Block]]:
    """The loops of the control flow graph, largest first; loops that share a header are one."""
    count = len(function.blocks)
    edges = {block: successors(function, block) for block in range(count)}
    predecessors: dict[Block, list[Block]] = {block: [] for block in range(count)}
    for block, targets in edges.items():
        for target in targets:
            predecessors[target].append(block)
    dominators = _dominators(count, predecessors)
    bodies: dict[Block, set[Block]] = {}
    for block, targets in edges.items():
        for header in targets:
            if header in dominators[block]:
                bodies.setdefault(header, {header}).update(_reaching(block, header, predecessors))
    return sorted((frozenset(body) for body in bodies.values()), key=len, reverse=True)


def _dominators(count: int, predecessors: Mapping[Block, list[Block]]) -> list[set[Block]]:
    everything = set(range(count))
    dominators = [{0}] + [set(everything) for _ in range(1, count)]
    changed = True
    while changed:
        changed = False
        for block in range(1, count):
            incoming = [dominators[p] for p in predecessors[block]]
            new = (set.intersection(*incoming) if incoming else set()) | {block}
            if new != dominators[block]:
                dominators[block], changed = new, True
    return dominators


def _reaching(block: Block, header: Block, predecessors: Mapping[Block, list[Block]]) -> set[Block]:
    """All blocks that reach `block` without passing `header`, which is not among them."""
    body = {block} - {header}
    stack = list(body)
    while stack:
        for before in predecessors[stack.pop()]:
            if before != header and before not in body:
                body.add(before)
                stack.append(before)
    return body


def registers_in(operand: Operand) -> Iterator[str]:
    """Names of all registers an operand reads (or, as a destination, writes)."""
    match operand:
        case Register(name):
            yield name
        case Address(base=Register(name)):
            yield name
        case Vector(items):
            yield from (item.name for item in items if isinstance(item, Register))
        case Pair(first, second):
            yield from (first.name, second.name)


def _tainted(instructions: Iterable[Instruction], load: Instruction) -> set[str]:
    """Registers whose value depends on what `load` returned, within these instructions."""
    body = list(instructions)
    tainted = set(registers_in(load.operands[0]))
    grown = True
    while grown:
        before = len(tainted)
        for instruction in body:
            if not instruction.operands or instruction is load:
                continue
            sources = {name for operand in instruction.operands[1:] for name in registers_in(operand)}
            if instruction.guard:
                sources.add(instruction.guard.register.name)
            if sources & tainted:
                tainted.update(registers_in(instruction.operands[0]))
        grown = len(tainted) > before
    return tainted


def _leaves_by(function: Function, loop: frozenset[Block], load: Instruction) -> bool:
    """Can what `load` returned end the loop?"""
    tainted = _tainted((i for block in loop for i in function.blocks[block].instructions), load)
    return any(
        last.guard is not None and last.guard.register.name in tainted
        for block in loop
        for last in (function.blocks[block].instructions[-1],)
        if not loop.issuperset(successors(function, block))
    )


def wait_loops(function: Function) -> dict[int, int]:
    """Loop number by id() of each load instruction that polls in a wait loop.

    The loop is the largest one around the load that has no side effects and that the loaded value can end.
    """
    loops = [
        loop
        for loop in natural_loops(function)
        if all(i.opcode in HARMLESS for block in loop for i in function.blocks[block].instructions)
    ]
    polls: dict[int, int] = {}
    for number, loop in enumerate(loops):
        for block in loop:
            for instruction in function.blocks[block].instructions:
                is_poll = instruction.opcode == "ld" and instruction.has("relaxed", "acquire", "volatile")
                if is_poll and id(instruction) not in polls and _leaves_by(function, loop, instruction):
                    polls[id(instruction)] = number
    return polls
