"""The control flow graph of a parsed PTX function: where blocks lead, its loops and cycles, and blocks as cases.

Must know no instructions but those that end a block.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Set
from dataclasses import dataclass
from itertools import permutations

from pcietool.emulator.translate import isa
from pcietool.ptx.model import Function, Instruction, Label

Block = int
Case = int
Span = tuple[Case, Case]
"""First and last case of a loop."""


def target(function: Function, branch: Instruction) -> Block:
    """The block a `bra` goes to."""
    label = branch.operands[0]
    assert isinstance(label, Label)
    return function.labels[label.name]


def jump_at_end(function: Function, block: Block) -> Instruction | None:
    """The branch or return that ends a block, if there is one (a function's last block may be empty)."""
    last = function.blocks[block].instructions[-1:]
    return last[0] if last and isa.row(last[0]).jumps else None


def successors(function: Function, block: Block) -> tuple[Block, ...]:
    """Where control can go from the end of a block."""
    jump = jump_at_end(function, block)
    jumps = (target(function, jump),) if jump and jump.opcode == "bra" else ()
    follows = (block + 1,) if block + 1 < len(function.blocks) else ()
    return (*jumps, *follows) if jump is None or jump.guard else jumps


def natural_loops(function: Function) -> list[frozenset[Block]]:
    """The loops of the control flow graph, largest first; loops that share a header are one."""
    count = len(function.blocks)
    edges = {block: successors(function, block) for block in range(count)}
    predecessors: dict[Block, list[Block]] = {block: [] for block in range(count)}
    for block, targets in edges.items():
        for follower in targets:
            predecessors[follower].append(block)
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


def cycles_avoiding(function: Function, avoided: Set[Block]) -> dict[Block, set[Block]]:
    """All blocks on cycles without `avoided` ones, by the block whose jump back closes the cycle."""
    edges = {
        block: [follower for follower in successors(function, block) if follower not in avoided]
        for block in range(len(function.blocks))
        if block not in avoided
    }
    reverse: dict[Block, list[Block]] = {
        block: [before for before in edges if block in edges[before]] for block in edges
    }
    cycles = {}
    for block, followers in edges.items():
        for head in followers:
            if head <= block and block in (ahead := _reachable(head, edges)):
                cycles[block] = ahead & _reachable(block, reverse)
    return cycles


def _reachable(start: Block, edges: Mapping[Block, list[Block]]) -> set[Block]:
    found = {start}
    stack = [start]
    while stack:
        new = set(edges[stack.pop()]) - found
        found |= new
        stack += new
    return found


@dataclass(frozen=True)
class Cases:
    """Blocks gathered into cases: a case begins where a jump can enter, its other blocks only continue it.

    `heads[case]` is a case's first block. `spans` are the loops in cases, any two of them nested or apart, outer
    before inner.
    """

    heads: tuple[Block, ...]
    spans: tuple[Span, ...]
    blocks: int

    @classmethod
    def of(cls, function: Function) -> Cases:
        entered = {0}
        count = len(function.blocks)
        for block in range(count):
            jump = jump_at_end(function, block)
            if jump and jump.opcode == "bra":
                entered.add(target(function, jump))
            if jump and jump.guard is None:
                entered.add(block + 1)
        heads = tuple(sorted(entered - {count}))
        case_of = [bisect_right(heads, block) - 1 for block in range(count)]
        spans = {(case_of[min(loop)], case_of[max(loop)]) for loop in natural_loops(function)}
        return cls(heads, _nested(spans), count)

    def __len__(self) -> int:
        return len(self.heads)

    def number(self, head: Block) -> Case:
        """The case that begins with a block; the number of cases for the function's end."""
        return bisect_right(self.heads, head - 1)

    def body(self, case: Case) -> range:
        """The blocks of a case."""
        return range(self.heads[case], self.heads[case + 1] if case + 1 < len(self.heads) else self.blocks)


def within(inner: Span, outer: Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _nested(spans: set[Span]) -> tuple[Span, ...]:
    """Spans with those that overlap partly made one."""
    while overlapping := next((p for p in permutations(spans, 2) if p[0][0] < p[1][0] <= p[0][1] < p[1][1]), None):
        (first, _), (_, last) = overlapping
        spans = spans - set(overlapping) | {(first, last)}
    return tuple(sorted(spans, key=lambda span: (span[0], -span[1])))
