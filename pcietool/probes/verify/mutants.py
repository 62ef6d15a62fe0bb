"""The mutants: the same kernels with one link broken, and equivalents in which none is, though it may look so.

A table only; must not run anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pcietool.probes.verify.config import EntryName
from pcietool.protocol.distributions import Distribution
from pcietool.protocol.switches import switched

MemoryOrder = Literal["any", "weak"]
"""Where it must show: in any order of memory, with one rank late; or where memory is as weak as PTX allows."""
Needs = Literal["two GPUs", "two requesters", "native", "bulk"]


@dataclass(frozen=True)
class Mutant:
    """One switch (or two, where one alone would be redundant) of one entry."""

    name: str
    entry: EntryName
    order: MemoryOrder
    defines: Mapping[str, int]
    survives: bool = False
    """An equivalent: whoever finds something in it raises a false alarm."""
    distribution: Distribution | None = None
    needs: Needs | None = None
    """Without which it is no mutant, or does not exist."""


def _any(name: str, entry: EntryName, distribution: Distribution | None = None, **choices: str | int) -> Mutant:
    return Mutant(name, entry, "any", switched(**choices), distribution=distribution)


def _weak(name: str, entry: EntryName, needs: Needs | None = None, **choices: str | int) -> Mutant:
    return Mutant(name, entry, "weak", switched(**choices), needs=needs)


def _equivalent(name: str, entry: EntryName, needs: Needs | None = None, **choices: str | int) -> Mutant:
    return Mutant(name, entry, "weak", switched(**choices), survives=True, needs=needs)


ANY_ORDER = (
    _any("flag cleared by its waiter", "barrier", SEQUENCE="CLEARED_BY_WAITER"),
    _any("slots reset between rounds", "barrier", SEQUENCE="RESET_BETWEEN_ROUNDS"),
    _any("wait on an unwritten own slot", "barrier", OWN_SLOT=1),
    _any("plain < at the wrap", "signal", COMPARE="PLAIN"),
    _any("plain unsigned < at the wrap", "signal", COMPARE="UNSIGNED"),
    _any("publish before commit", "dispatch", PUBLISH_FIRST=1),
    _any("publish before commit", "combine", PUBLISH_FIRST=1),
    _any("two writers on a slot", "dispatch", ONE_SLOT_FOR_ALL=1),
    _any("watermark one chunk early", "dispatch", "chunk-edges", CHUNK_BEFORE=1),
    _any("overwrite before the consumer's ack", "dispatch", NO_ACK_WAIT=1),
    _any("overwrite before the consumer's ack", "combine", NO_ACK_WAIT=1),
    _any("expected count + 1", "dispatch", EXPECTED_EXTRA=1),
    _any("expected count + 1", "combine", EXPECTED_EXTRA=1),
    _any("seed + 1", "gate", SEED_EXTRA=1),
    _any("seed - 1", "gate", SEED_EXTRA=-1),
)
WEAK_ORDER = (
    _weak("relaxed flag without a fence", "signal", SIGNAL="RELAXED_SYS"),
    _weak("st.release.gpu flag", "signal", "two GPUs", SIGNAL="RELEASE_GPU"),
    _weak("fence.acq_rel.gpu, relaxed flag", "signal", "two GPUs", SIGNAL="FENCE_GPU_RELAXED_SYS"),
    _weak("weak flag", "signal", SIGNAL="WEAK"),
    _weak("weak flag behind a fence", "signal", SIGNAL="FENCE_SYS_WEAK"),
    _weak("data and flag in one v4 store", "signal", SIGNAL="WITH_DATA"),
    _weak("relaxed wait without a fence", "signal", WAIT="RELAXED_SYS"),
    _weak("relaxed wait, fence.acq_rel.gpu", "signal", "two GPUs", WAIT="RELAXED_SYS_FENCE_GPU"),
    _weak("ld.acquire.gpu wait", "signal", "two GPUs", WAIT="ACQUIRE_GPU"),
    _weak("atom.relaxed without a fence before", "combine", ELECTION="RELAXED", SIGNAL="FENCE_SYS_RELEASE_SYS"),
    _weak("atom.acquire only", "combine", ELECTION="ACQUIRE", SIGNAL="FENCE_SYS_RELEASE_SYS"),
    _weak("atom.release without a fence after", "combine", ELECTION="RELEASE"),
    _weak("no block sync before the count", "dispatch", BLOCK_SYNC="NOT_BEFORE_COUNT"),
    _weak("acquire without the block sync", "dispatch", BLOCK_SYNC="NOT_AFTER_WAIT"),
    _weak("no block sync before the signal", "barrier", BLOCK_SYNC="NOT_BEFORE_COUNT"),
    _weak("wait_group.read before the count", "dispatch", "bulk", BULK=1, BULK_WAIT="READ"),
    _weak("no proxy fence before the bulk store", "dispatch", "bulk", BULK=1, NO_PROXY_FENCE=1),
    _weak("red.relaxed.gpu at the gate", "gate", COUNT="RELAXED_GPU"),
)
REMOTE_COUNTER = (
    Mutant(
        "remote RMW counter",
        "barrier",
        "any",
        switched(ARRIVED_BY="REMOTE_COUNTER"),
        needs="two requesters",
    ),
)
EQUIVALENTS = (
    _equivalent("signal as it is", "signal"),
    _equivalent("barrier as it is", "barrier"),
    _equivalent("no fence before st.release.sys", "dispatch"),
    _equivalent("no fence before st.release.sys", "combine"),
    _equivalent("gate as it is", "gate"),
    _equivalent("end-to-end as it is", "end-to-end"),
    _equivalent("bulk stores as they are", "dispatch", "bulk", BULK=1),
    _equivalent("a fence before st.release.sys, as in the article", "combine", SIGNAL="FENCE_SYS_RELEASE_SYS"),
    _equivalent("st.relaxed.sys behind fence.acq_rel.sys", "signal", SIGNAL="FENCE_SYS_RELAXED_SYS"),
    _equivalent("atom.release with the fence kept", "combine", ELECTION="RELEASE", SIGNAL="FENCE_SYS_RELEASE_SYS"),
    _equivalent(
        "fence.acq_rel.gpu, atom.relaxed, fence.acq_rel.sys",
        "combine",
        ELECTION="FENCE_GPU_RELAXED",
        SIGNAL="FENCE_SYS_RELEASE_SYS",
    ),
    _equivalent("remote RMW on a native link", "barrier", "native", ARRIVED_BY="REMOTE_COUNTER"),
)
MUTANTS = (*ANY_ORDER, *WEAK_ORDER, *REMOTE_COUNTER, *EQUIVALENTS)
