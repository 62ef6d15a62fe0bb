"""Short ways to write litmus tests down, and to ask about them."""

from __future__ import annotations

from pcietool.litmus.explore import Exploration, explore
from pcietool.litmus.text.parse import parse_litmus
from pcietool.litmus.text.program import Access, LitmusTest
from pcietool.litmus.verdict import Answer, answer

GPUS = "P0@cta 0,gpu 0 | P1@cta 0,gpu 1"
BLOCKS = "P0@cta 0,gpu 0 | P1@cta 1,gpu 0"
ALONE = "P0@cta 0,gpu 0"


def litmus_test(
    body: str, condition: str = "exists (x = 0)", initial: str = "x=0; y=0;", places: str = GPUS
) -> LitmusTest:
    """`body`: rows as in a file."""
    return parse_litmus(f"PTX test\n{{ {initial} }}\n{places} ;\n{body}\n{condition}\n")


def columns(*threads: str) -> str:
    """Rows, from one text a thread with its instructions in lines."""
    cells = [thread.strip().splitlines() for thread in threads]
    longest = max(map(len, cells))
    return "\n".join(
        " | ".join(column[row] if row < len(column) else "" for column in cells) + " ;" for row in range(longest)
    )


def explored(
    body: str, condition: str = "exists (x = 0)", initial: str = "x=0; y=0;", places: str = GPUS
) -> Exploration:
    return explore(litmus_test(body, condition, initial, places))


def answered(body: str, condition: str = "exists (x = 0)", initial: str = "x=0; y=0;", places: str = GPUS) -> Answer:
    return answer(explored(body, condition, initial, places))


def of_whole_words(test: LitmusTest) -> bool:
    """Whether each location is one word for all, and coherent."""
    accesses = [one for thread in test.threads for one in thread.code if isinstance(one, Access)]
    return all(
        (one.part.offset, one.part.size, one.part.scalars) == (0, 4, 1) and getattr(one, "coherent", True)
        for one in accesses
    )
