"""Where a word that is counted on lies, who can count on it, and what the driver promises about the way there.

Must not run anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pcietool.machines.base import Machine, Place
from pcietool.machines.devices import NativeAtomics
from pcietool.probes.atomics.counting import SLOTS, Form, Requesters
from pcietool.probes.atomics.marks import MARKING
from pcietool.probes.common.options import Transport

DRIVER_NAMES: Mapping[str, str] = {
    "add": "add", "inc": "increment", "dec": "decrement", "cas": "cas", "exch": "exchange",
    "min": "min", "max": "max", "and": "and", "or": "or", "xor": "xor",
}  # fmt: skip
"""Operations as the driver's table of native ones calls them."""

PROMISES = ("none", "unknown", "partial", "full", "local")
"""Weakest first."""

ONE_WRITE_EACH = ("add", "inc", "dec")
"""Each changes the word once and by 1, so that of N that read the same value, one survives."""


@dataclass(frozen=True)
class Home:
    """A word's home and what the driver says about the way there from every GPU."""

    machine: Machine
    place: Place

    @property
    def name(self) -> str:
        return "host memory" if self.place.is_host else f"memory of GPU {self.place.device}"

    def ways(self, requesters: Requesters) -> Iterator[tuple[NativeAtomics, Mapping[str, str]]]:
        """(native atomics, table of operations) of each GPU that does not own the word."""
        for gpu in requesters.gpus:
            if self.place.device is None:
                host = self.machine.host_link(gpu)
                yield host.native_atomics, host.atomic_ops
            elif gpu != self.place.device:
                link = self.machine.link(gpu, self.place.device)
                yield link.native_atomics, link.atomic_ops

    def driver_says(self, requesters: Requesters) -> str:
        """Of the weakest way; "local" where the word's owner is alone."""
        return min((native for native, _ in self.ways(requesters)), key=PROMISES.index, default="local")

    def weakest(self, gpus: Sequence[int]) -> int:
        """The first of these GPUs over whose way the driver promises least."""
        return min(gpus, key=lambda gpu: PROMISES.index(self.driver_says(Requesters((gpu,)))))

    def is_native(self, requesters: Requesters, form: Form) -> bool:
        """Does the driver promise that this operation is atomic on every way?"""
        return self.promises(requesters, DRIVER_NAMES.get(form.operation, ""))

    def promises(self, requesters: Requesters, operation: str) -> bool:
        """The same for an operation as the driver's table calls it. Where the driver promises only a part, its table
        decides; what it does not know counts as no promise."""
        return all(
            native == "full" or (native in ("partial", "unknown") and "32" in table.get(operation, ""))
            for native, table in self.ways(requesters)
        )

    def predicted(self, requesters: Requesters, form: Form) -> tuple[float | None, str | None]:
        """(lost fraction, None), or (None, why there is no prediction)."""
        if form.kind == "no-op" and not self.is_native(requesters, form):
            return None, "no prediction for RMWs that change nothing: how often one meets a store decides"
        if form == SLOTS or requesters.count == 1 or self.is_native(requesters, form):
            return 0.0, None
        if requesters.cpu or self.place.device in requesters.gpus:
            return None, "no 1-1/N where the word's owner or the CPU counts too: it does so in place, at its own speed"
        if form.operation in MARKING:
            return None, f"no 1-1/N for {form.operation}: its rounds are short, and requesters not yet steady"
        if form.operation not in ONE_WRITE_EACH:
            return None, f"no 1-1/N for {form.operation}: it does not lose in proportion to what it writes"
        return 1 - 1 / requesters.count, None

    def requesters(self, transport: Transport) -> list[Requesters]:
        """The owner alone, each other GPU alone, all others, all, and a GPU with the CPU, as far as they differ."""
        gpus = range(len(self.machine.devices) if transport != "self" else 1)
        others = [gpu for gpu in gpus if gpu != self.place.device]
        alone = [gpu for gpu in gpus if gpu == self.place.device] + others
        sets = [Requesters((gpu,)) for gpu in alone] + [Requesters(tuple(group)) for group in (others, gpus) if group]
        if self.place.is_host:
            sets.append(Requesters((0,), cpu=True))
        return list(dict.fromkeys(sets))
