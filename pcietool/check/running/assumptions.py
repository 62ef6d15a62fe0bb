"""What a verdict rests on: properties of the modelled machine that decide what may happen, each with where it is from.

Must not run anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pcietool.emulator.fabric.fabric import FabricSpec
from pcietool.machines.emulated.machine import EmulatedMachine


@dataclass(frozen=True)
class Assumption:
    """`source`: measured, published, assumed, PTX, or the option that asked for it."""

    about: str
    value: str
    source: str


def assumptions(machine: EmulatedMachine, tear: bool) -> list[Assumption]:
    return list(_of(machine.spec, tear))


def _of(spec: FabricSpec, tear: bool) -> Iterator[Assumption]:
    yield Assumption("memory order", "the PTX memory model, as weak as it allows", "PTX")
    of_fabric = f"fabric {spec.name}"
    native = {True: "atomic", False: "a read, then a write: increments can be lost"}
    yield Assumption("atomics of a rank on its own memory", "atomic", "PTX")
    links = {"peer": spec.peer, "host": spec.host, "cross": spec.cross}
    for name, link in links.items():
        if link is not None:
            where = {"peer": "another rank's memory", "host": "host memory", "cross": "memory under another root"}[name]
            yield Assumption(f"atomics on {where} ({link.kind})", native[link.native_atomics], of_fabric)
    if tear:
        yield Assumption("vectors", "each element for itself", "--tear")
        return
    for name, part in (("own", spec.gpu), *links.items()):
        if part is not None:
            figure = part.vector_bytes_whole
            value = f"whole up to {figure.value:g} bytes" if figure.value > 8 else "each element for itself"
            yield Assumption(f"vectors in {name} memory", value, f"{figure.source}, {of_fabric}")
