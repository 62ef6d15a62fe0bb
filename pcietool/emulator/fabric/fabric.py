"""The modelled machine: a fabric file (GPUs, links, costs, each with its source) and the links at run time.

A fabric file is TOML; every figure in it is {value, source}, where source says whether it was measured, published
or assumed. `Route` gives arrival times: posted writes in order per route, reads that push the writes before them.
Must not touch memory contents.
"""

from __future__ import annotations

import random
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from pcietool import data
from pcietool.contract.text_files import read_text, unseen
from pcietool.emulator.fabric.fault_spec import Fault, Strict
from pcietool.errors import ConfigError


def _seen(text: str) -> str:
    """TOML writes any character as an escape of its own."""
    if complaint := unseen(text):
        raise ValueError(f"has {complaint}")
    return text


Line = Annotated[str, Field(max_length=500), AfterValidator(_seen)]
"""What a terminal shows."""


class Figure(Strict):
    """One number of the model and where it comes from."""

    value: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
    source: Literal["measured", "published", "assumed"]
    note: Line = ""


ALL_ELEMENTS = Figure(value=16, source="assumed", note="a vector is one access")


class Divisor(Figure):
    """A figure that others are divided by."""

    value: Annotated[float, Field(ge=1e-3, le=1e12, allow_inf_nan=False)]


class GpuModel(Strict):
    """What all GPUs of the fabric have in common. Times in ns."""

    count: Annotated[int, Field(ge=1, le=64)]
    name: Line
    compute_capability: tuple[Annotated[int, Field(ge=0, le=99)], Annotated[int, Field(ge=0, le=9)]]
    sms: Annotated[int, Field(ge=1, le=4096)]
    memory_gib: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
    threads_per_sm: Annotated[int, Field(ge=32, le=65_536)] = 2048
    blocks_per_sm: Annotated[int, Field(ge=1, le=1024)] = 32
    shared_bytes_per_sm: Annotated[int, Field(ge=0, le=1 << 30)] = 228 * 1024
    clock_ghz: Divisor
    timer_step_ns: Divisor
    instruction_ns: Figure
    issue_ns: Figure
    l2_round_trip_ns: Figure
    l2_atomic_ns: Figure
    bulk_bytes_per_ns: Divisor
    """How fast one bulk copy moves bytes between shared memory and the L2."""
    vector_bytes_whole: Figure = ALL_ELEMENTS
    """Aligned vectors of up to so many bytes in own memory are seen as a whole. PTX promises it of no vector."""
    block_barrier_ns: Figure
    warp_barrier_ns: Figure
    fence_cta_ns: Figure
    fence_gpu_ns: Figure
    fence_sys_ns: Figure
    nanosleep_factor: Figure
    launch_ns: Figure
    stream_node_ns: Figure
    graph_node_ns: Figure


class LinkModel(Strict):
    """One class of link. One-way latencies and fence costs in ns."""

    kind: Literal["pcie", "nvlink"]
    native_atomics: bool
    write_latency_ns: Figure
    read_round_trip_ns: Figure
    acknowledge_ns: Figure
    """From issuing a store to the end of a system fence right behind it."""
    flush_ns: Figure
    """The least a system fence costs once this link was written since the fence before."""
    bandwidth_gb_s: Divisor
    packet_overhead_bytes: Figure
    payload_bytes: Divisor
    credit_ns: Figure
    """How much queueing the sender sees before it has to wait."""
    vector_bytes_whole: Figure = ALL_ELEMENTS
    """As of the GPU's own memory, for accesses across this link."""
    jitter: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.0
    """Each crossing takes its latency times 1 +- this, from the seed (assumed)."""


class FabricSpec(Strict):
    """One fabric file. `roots`: GPUs by root complex; pairs under different roots use the `cross` link. `fault`: the
    defect of a machine that has one."""

    schema_: Literal["pcietool.fabric/1"] = Field(alias="schema")
    name: Line
    description: Line
    gpu: GpuModel
    peer: LinkModel
    host: LinkModel
    cross: LinkModel | None = None
    roots: list[list[int]] | None = None
    host_agent_add_ns: Figure
    fault: Annotated[Fault, Field(discriminator="kind")] | None = None

    @model_validator(mode="after")
    def _roots_cover_all_gpus(self) -> FabricSpec:
        if self.roots is not None:
            if self.cross is None:
                raise ValueError("roots need a [cross] link for pairs under different roots")
            if sorted(gpu for root in self.roots for gpu in root) != list(range(self.gpu.count)):
                raise ValueError(f"roots must name each of the {self.gpu.count} GPUs once")
        return self

    @model_validator(mode="after")
    def _fault_is_of_these_gpus(self) -> FabricSpec:
        for gpu in self.fault.named() if self.fault else ():
            if gpu >= self.gpu.count:
                raise ValueError(f"the fault names GPU {gpu}, and there are GPUs 0 to {self.gpu.count - 1}")
        return self

    def crosses_roots(self, src: int, dst: int) -> bool:
        return self.roots is not None and not any(src in root and dst in root for root in self.roots)

    def link_between(self, src: int, dst: int) -> LinkModel:
        """The link an access from GPU `src` to memory of GPU `dst` takes. A fault may slow it down (`defects`)."""
        return self.cross if self.cross is not None and self.crosses_roots(src, dst) else self.peer

    def vector_bytes_whole(self, home: int) -> float:
        """Up to how many bytes an aligned vector in the memory of `home` (-1: the host) is whole for all."""
        if home < 0:
            return self.host.vector_bytes_whole.value
        links = [link.vector_bytes_whole.value for link in (self.peer, self.cross) if link is not None]
        return min(self.gpu.vector_bytes_whole.value, *links)

    def with_native_atomics(self) -> FabricSpec:
        """The same machine, but for native atomics on all of its links."""
        links = {"peer": self.peer, "host": self.host, "cross": self.cross}
        native = {name: link and link.model_copy(update={"native_atomics": True}) for name, link in links.items()}
        return self.model_copy(update=native)

    def sources(self) -> dict[str, list[str]]:
        """Names of the figures, by source: what a result prints beside modelled numbers."""
        found: dict[str, list[str]] = {"measured": [], "published": [], "assumed": []}
        for part, model in (("gpu", self.gpu), ("peer", self.peer), ("host", self.host), ("cross", self.cross)):
            if model is not None:
                for name in type(model).model_fields:
                    figure = getattr(model, name)
                    if isinstance(figure, Figure):
                        found[figure.source].append(f"{part}.{name}")
        found[self.host_agent_add_ns.source].append("host_agent_add_ns")
        return found


def packaged_fabrics() -> list[str]:
    """Names for `load_fabric`: healthy machines, then those with a fault, such as faulty/stuck-link."""
    root = data.configs_dir() / "fabrics"
    names = (path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.toml"))
    return sorted(names, key=lambda name: (name.count("/"), name))


def fabrics_with(gpus: int) -> str:
    """The end of a sentence on a fabric that has fewer: which healthy packaged ones have so many, or none does."""
    counts = {name: load_fabric(name).gpu.count for name in packaged_fabrics() if "/" not in name}
    fitting = [name for name in counts if counts[name] >= gpus]
    if not fitting:
        return f"; no packaged fabric has more than {max(counts.values())}"
    return f"; --fabric {' or '.join(sorted(fitting, key=lambda name: counts[name]))} has as many"


def load_fabric(name_or_path: str) -> FabricSpec:
    """A packaged fabric by name, or a TOML file by path. Raises ConfigError saying what is wrong and where.

    A file with a `base` takes every key that it does not have itself from that fabric, in its tables too.
    """
    path = _path_of(name_or_path)
    keys = _read(path)
    if "base" in keys:
        keys = _changed(_inherited(path, keys.pop("base")), keys)
    try:
        return FabricSpec.model_validate(keys)
    except ValidationError as error:
        first: Any = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "file"
        said = first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"fabric {path}: {where}: {said}; the packaged fabrics show every key") from None


def _inherited(path: Path, base: object) -> dict[str, Any]:
    """The keys of the fabric that the file at `path` names as its base."""
    if not isinstance(base, str):
        raise ConfigError(f"fabric {path}: base: must be the name of a fabric, or a file")
    try:
        keys = _read(_path_of(base))
    except ConfigError as error:
        raise ConfigError(f"fabric {path}: base: {error}") from None
    if "base" in keys:
        raise ConfigError(f"fabric {path}: base: {base} has a base itself; name that one")
    return keys


def _changed(keys: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The keys of a base with those of a file in their place; a figure is replaced as a whole, with its source."""
    merged = keys | changes
    for name, old in keys.items():
        if isinstance(old, dict) and "value" not in old and isinstance(merged[name], dict):
            merged[name] = old | merged[name]
    return merged


def _path_of(name_or_path: str) -> Path:
    if name_or_path in packaged_fabrics():
        return data.configs_dir() / "fabrics" / f"{name_or_path}.toml"
    path = Path(name_or_path)
    try:
        exists = path.exists() and not path.is_dir()
    except OSError as error:
        raise ConfigError(f"fabric {path}: {error.strerror}") from None
    if not exists:
        raise ConfigError(f"unknown fabric '{name_or_path}': neither a file nor one of {', '.join(packaged_fabrics())}")
    return path


def _read(path: Path) -> dict[str, Any]:
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except ValueError as error:  # of an integer with thousands of digits too
        raise ConfigError(f"fabric {path}: not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigError(
            f"fabric {path}: its arrays or tables are nested too deeply; a fabric needs 3 levels"
        ) from None


class Port:
    """A place where bytes queue: one direction of one GPU's link, or of the host's."""

    __slots__ = ("free_at",)

    def __init__(self) -> None:
        self.free_at = 0.0


class Route:
    """All traffic in one direction between two places. Arrivals never overtake each other."""

    def __init__(self, link: LinkModel, ports: tuple[Port, ...], rng: random.Random) -> None:
        self.link = link
        self.ports = ports
        self.random = rng.random
        self.jitter = link.jitter
        self.latency = link.write_latency_ns.value
        self.read_latency = link.read_round_trip_ns.value / 2
        self.ns_per_byte = 1 / link.bandwidth_gb_s.value
        self.overhead_share = link.packet_overhead_bytes.value / link.payload_bytes.value
        self.packet_overhead = link.packet_overhead_bytes.value
        self.acknowledge_extra = max(0.0, link.acknowledge_ns.value - self.latency)
        self.credit = link.credit_ns.value
        self.flush = link.flush_ns.value
        self.last_arrival = 0.0

    def _arrive(self, now: float, nbytes: float, latency: float) -> float:
        """When the last byte arrives, after whatever queued before it. Called for each packet, hence all in one."""
        wire = nbytes * self.ns_per_byte
        left = now
        for port in self.ports:
            if port.free_at > left:
                left = port.free_at
            left = port.free_at = left + wire
        if self.jitter:
            latency *= 1 + self.jitter * (2 * self.random() - 1)
        arrival = left + latency
        if arrival < self.last_arrival:
            return self.last_arrival
        self.last_arrival = arrival
        return arrival

    def write(self, now: float, nbytes: int, *, coalesced: bool) -> float:
        """A posted write issued at `now`: when it lands. Weak stores of a warp share packets, strong ones do not."""
        overhead = nbytes * self.overhead_share if coalesced else self.packet_overhead
        return self._arrive(now, nbytes + overhead, self.latency)

    def request(self, now: float) -> float:
        """A read or atomic request: when it is served, behind every write before it."""
        return self._arrive(now, self.packet_overhead, self.read_latency)

    def reply(self, now: float, nbytes: int) -> float:
        """The answer to a read, on the way back."""
        return self._arrive(now, nbytes + self.packet_overhead, self.read_latency)

    def stall(self, now: float) -> float:
        """How long a sender must wait before the route takes another write."""
        backlog = self.ports[0].free_at - now - self.credit
        return backlog if backlog > 0 else 0.0


class Fabric:
    """The routes of one run, between GPUs (0..) and the host (-1)."""

    def __init__(self, spec: FabricSpec, seed: int) -> None:
        self.spec = spec
        self.rng = random.Random(seed)
        places = [*range(spec.gpu.count), -1]
        leaves = {place: Port() for place in places}
        enters = {place: Port() for place in places}
        between_roots: dict[tuple[int, int], Port] = {}
        root_of = {gpu: number for number, root in enumerate(spec.roots or []) for gpu in root}
        self.routes: dict[tuple[int, int], Route] = {}
        for src in places:
            for dst in places:
                if src == dst:
                    continue
                host = -1 in (src, dst)
                link = spec.host if host else spec.link_between(src, dst)
                ports = [leaves[src], enters[dst]]
                if not host and spec.crosses_roots(src, dst):
                    ports.insert(1, between_roots.setdefault((root_of[src], root_of[dst]), Port()))
                self.routes[src, dst] = Route(link, tuple(ports), self.rng)

    def is_native(self, device: int, home: int) -> bool:
        """Are read-modify-writes by `device` on memory at `home` performed there in one step?"""
        return device == home or self.routes[device, home].link.native_atomics
