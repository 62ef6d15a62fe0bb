"""The smallest scenarios: one word that a kernel writes."""

import numpy as np

from pcietool.check import Kernel, World, scenario

SEVEN = Kernel("seven.cu", "seven", text='extern "C" __global__ void seven(unsigned* word) { *word = 7; }')


@scenario(SEVEN, ranks=1, block=1)
def seven(w: World) -> None:
    """A word becomes 7."""
    word = w.one("word", np.uint32)
    w.launch([word])
    w.expect(word, 7)


@scenario(SEVEN, ranks=1, block=1)
def eight(w: World) -> None:
    """It does not become 8."""
    word = w.one("word", np.uint32)
    w.launch([word])
    w.expect(word, 8)
