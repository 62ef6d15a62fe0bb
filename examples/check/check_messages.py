"""Data from rank to rank without a barrier: packets, sentinels, a FIFO, a mailbox in host memory."""

from __future__ import annotations

import numpy as np

from pcietool.check import Kernel, World, scenario

FILE = "messages.cuh"
SMALL = {"block": 1, "words": 1}


def packets(w: World, words: int, **define: int) -> None:
    inbox, out = w.one("inbox", np.uint64, words, rank=1), w.one("out", np.uint32, words, rank=1)
    data = w.one("data", np.uint32, words, np.arange(words) + 5, rank=0)
    w.launch([inbox, data, words, 1], kernel=Kernel(FILE, "send_packets", define=define), ranks=[0])
    w.launch([inbox, out, words, 1], kernel=Kernel(FILE, "receive_packets"), ranks=[1])
    w.expect(out, np.arange(words) + 5)


@scenario(Kernel(FILE, "send_packets"), ranks=2, block=32, small=SMALL)
def packets_with_their_flag(w: World, words: int = 64) -> None:
    """Data and flag in one 8-byte store."""
    packets(w, words)


@scenario(Kernel(FILE, "send_packets"), ranks=2, block=32, small=SMALL)
def bug_packets_in_two_stores(w: World, words: int = 64) -> None:
    """The flag in a store of its own, which may be seen first."""
    packets(w, words, TWO_STORES=1)


def sentinels(w: World, words: int, calls: int, **define: int) -> None:
    kernel = Kernel(FILE, "exchange_by_sentinel", define=define)
    buffers = w.each("buffers", np.uint32, 3 * words, 0xFFFFFFFF)
    data, out = w.each("data", np.uint32, words, lambda r: np.arange(words) + 100 * r), w.each("out", np.uint32, words)
    for call in range(calls):
        w.launch(lambda r: [buffers[r], buffers[1 - r], data[r], out[r], words, call], kernel=kernel)
    w.expect(out, lambda r: np.arange(words) + 100 * (1 - r) + calls - 1)


@scenario(Kernel(FILE, "exchange_by_sentinel"), ranks=2, block=32, small={**SMALL, "calls": 3})
def sentinels_in_rotation(w: World, words: int = 32, calls: int = 5) -> None:
    """Three buffers; what is cleared is out of everybody's reach."""
    sentinels(w, words, calls)


@scenario(Kernel(FILE, "exchange_by_sentinel"), ranks=2, block=32, small={**SMALL, "calls": 3})
def bug_sentinel_cleared_too_soon(w: World, words: int = 32, calls: int = 5) -> None:
    """The next buffer is cleared, into which a faster rank has already written."""
    sentinels(w, words, calls, CLEARS_NEXT=1)


@scenario(Kernel(FILE, "exchange_by_sentinel"), ranks=2, block=32, small={**SMALL, "calls": 3})
def bug_sentinels_relaxed(w: World, words: int = 32, calls: int = 5) -> None:
    """Nothing orders the clearing of a buffer before what is written to it two calls later."""
    sentinels(w, words, calls, RELAXED=1)


def fifo(w: World, count: int, slots: int, **define: int) -> None:
    ring, tail = w.one("ring", np.uint32, slots, rank=1), w.one("tail", np.uint32, rank=1)
    head, out = w.one("head", np.uint32, rank=0), w.one("out", np.uint32, count, rank=1)
    w.launch([ring, tail, head, count], kernel=Kernel(FILE, f"fifo_push<{slots}>", define=define), ranks=[0])
    w.launch([ring, tail, head, out, count], kernel=Kernel(FILE, f"fifo_pop<{slots}>"), ranks=[1])
    w.expect(out, np.arange(count) + 100)


@scenario(Kernel(FILE, "fifo_push<2>"), ranks=2, block=1, small={"count": 3})
def fifo_with_head_and_tail(w: World, count: int = 12, slots: int = 2) -> None:
    """Flow control by two words that each have one writer."""
    fifo(w, count, slots)


@scenario(Kernel(FILE, "fifo_push<2>"), ranks=2, block=1, small={"count": 3})
def bug_fifo_tail_relaxed(w: World, count: int = 12, slots: int = 2) -> None:
    """The tail says there is a word before the word is there."""
    fifo(w, count, slots, RELAXED_TAIL=1)


@scenario(Kernel(FILE, "fifo_push<2>"), ranks=2, block=1, small={"count": 3})
def bug_fifo_never_full(w: World, count: int = 12, slots: int = 2) -> None:
    """The writer does not wait for the reader."""
    fifo(w, count, slots, NEVER_FULL=1)


def mailbox(w: World, **define: int) -> None:
    box, flag = w.pinned("mailbox", np.uint32), w.pinned("flag", np.uint32)
    out = w.one("out", np.uint32, rank=1)
    w.launch([box, flag, 7], kernel=Kernel(FILE, "mail_write", define=define), ranks=[0])
    w.launch([box, flag, out], kernel=Kernel(FILE, "mail_read"), ranks=[1])
    w.expect(out, 7)


@scenario(Kernel(FILE, "mail_write"), ranks=2, block=1)
def mailbox_in_host_memory(w: World) -> None:
    """A fence of system scope between data and flag."""
    mailbox(w)


@scenario(Kernel(FILE, "mail_write"), ranks=2, block=1)
def bug_mailbox_device_fence(w: World) -> None:
    """A fence that orders for one GPU, and the reader is another."""
    mailbox(w, DEVICE_FENCE=1)
