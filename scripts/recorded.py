"""The words in which README.md, docs/ and results/ say which figure of a recording they quote (scripts/figures.py).

Every public function and constant here is one. Without a folder they speak of results/h200x2, the machine that the
pages tell of most. Each raises LookupError where nothing, or more than one entry, fits. Must not know how figures are
printed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "results"
TRANSPORTS = ("peer", "host", "self")
PLACES = ("peer", "host", "writer")
BOTH = "GPUs 0,1"
WITH_CPU = "GPU 0 + CPU"
BESIDE = "stores beside the counted word"
OVER_BOTH = "control: an atomic over both words loses stores"
SWITCH16 = "emulated-pcie5-switch16/"
NUMBER = re.compile(r"(?<![\w.,])\d+(?:,\d{3})*(?:\.\d+)?(?!\w)")
"""As people write it: 1,048,576 or 0.84."""

Row = dict[str, Any]


@cache
def document(recording: str) -> dict[str, Any]:
    """The result at results/<recording>.json."""
    found: dict[str, Any] = json.loads((RESULTS / f"{recording}.json").read_text(encoding="utf-8"))
    return found


def dirty(folder: str) -> int:
    """How many recordings of a machine were made from a checkout with changes that were not committed."""
    names = [f"{folder}/{path.stem}" for path in (RESULTS / folder).glob("*.json")]
    return sum(document(name)["tool"]["git"]["dirty"] for name in names)


def part(recording: str, transport: str, name: str | None = None) -> dict[str, Any]:
    """Of one transport, and of one probe where a command has several."""
    parts = document(recording)["probes"]
    found: dict[str, Any] = _only(p for p in parts if p["transport"] == transport and name in (None, p["name"]))
    return found


def rows(recording: str, transport: str, name: str | None = None, **values: Any) -> list[Row]:
    """Those with these values."""
    found = part(recording, transport, name)["rows"]
    return [row for row in found if all(row.get(key, ...) == value for key, value in values.items())]


def row(recording: str, transport: str, name: str | None = None, **values: Any) -> Row:
    found: Row = _only(rows(recording, transport, name, **values))
    return found


def verdict(recording: str, transport: str) -> list[float]:
    """The numbers in the line of one part."""
    return _numbers(part(recording, transport)["verdict"])


def undone(rmw: str) -> float:
    """Percent of the CPU's stores to host memory that an RMW of one H200 undid although it changes nothing."""
    return 100 * float(row("h200/atomic-loss", "host", form=f"no-op {rmw}")["lost_fraction"])


def wrong_without(recording: str, scenario: str, at: str) -> list[int]:
    """In how many runs, of how many, a scenario was wrong with the ordering there weakened that was needed."""
    orderings = part(recording, scenario)["details"]["orderings"]
    found = _only(one for one in orderings if one["at"] == at and one["is"] == "needed")
    return [found["wrong"], found["runs"]]


def tries(recording: str) -> int:
    """How often each scenario of a recording ran, which is the same for all."""
    return int(_only({row["tries"] for one in document(recording)["probes"] for row in one["rows"]}))


def check(recording: str, transport: str, name: str) -> list[float]:
    """The numbers in the line of one check."""
    return _numbers(_only(c for c in part(recording, transport)["checks"] if c["name"] == name)["text"])


def _numbers(text: str) -> list[float]:
    return [float(found.replace(",", "")) for found in NUMBER.findall(text)]


def _only(found: Iterable[Any]) -> Any:
    items = list(found)
    if len(items) != 1:
        raise LookupError(f"{len(items)} entries fit, not one")
    return items[0]


# -- barriers and signals, in µs ---------------------------------------------------------------------------------------


def barrier(transport: str, order: str, mode: str = "in-kernel", folder: str = "h200x2", ranks: int = 2) -> float:
    """Mean period."""
    found = row(f"{folder}/barrier-latency", transport, order=order, mode=mode, world=ranks)
    return float(found["mean_period_us"])


def switch16(ranks: int) -> list[float]:
    """Mean periods of so many of the 16 emulated GPUs: peer and host, publishing and relaxed."""
    orders = [(transport, order) for transport in ("peer", "host") for order in ("publishing", "relaxed")]
    return [barrier(*one, folder="emulated-pcie5-switch16", ranks=ranks) for one in orders]


def poll_cycles() -> list[float]:
    """Of the nearest and the farthest line of a GPU's own memory, as the barrier on peers found them."""
    cycles = row("h200x2/barrier-latency", "peer", order="publishing", mode="in-kernel")["slot_poll_cycles"]
    return [cycles["nearest"], cycles["farthest"]]


def one_way(transport: str, writer: int = 0, owner: int = 1) -> float:
    """Median of a cell of the matrix."""
    found = row("h200x2/signal-latency", transport, in_matrix=True, writer=writer, owner=owner)
    return float(found["one_way_us_p50"])


def both_ways(transport: str) -> list[float]:
    """The faster direction first."""
    return sorted((one_way(transport), one_way(transport, 1, 0)))


def varied(what: str) -> float:
    """Median on the first pair of peers, with one thing varied."""
    return float(row("h200x2/signal-latency", "peer", in_matrix=False, varied=what)["one_way_us_p50"])


# -- atomics -----------------------------------------------------------------------------------------------------------


def count(transport: str, who: str, threads: str) -> Row:
    """Additions; `threads` of each GPU such as "64x256"."""
    return row("h200x2/atomic-loss", transport, requesters_text=who, concurrency=threads, form="atom.sys.add")


def percent_lost(transport: str, who: str, threads: str) -> float:
    return 100 * float(count(transport, who, threads)["lost_fraction"])


def most_percent_lost(transport: str, recording: str = "h200x2/atomic-loss") -> float:
    counts = [row for row in rows(recording, transport) if not row.get("storing")]
    return 100 * max(float(row["lost_fraction"]) for row in counts)


def lost(transport: str, **values: Any) -> int:
    """In all counts with these values together."""
    return sum(int(row["lost"]) for row in rows("h200x2/atomic-loss", transport, **values))


def counted(transport: str, who: str) -> int:
    """Atomics on one word by these requesters, in all counts together; slots are none."""
    found = rows("h200x2/atomic-loss", transport, requesters_text=who)
    return sum(int(row["expected"]) for row in found if row["form"] != "slots")


# -- chunks ------------------------------------------------------------------------------------------------------------


def share(transport: str, path: str, sms: int) -> float:
    """Percent of the same copy without signals that 64-row chunks reach."""
    return float(_chunk(transport, path, sms)["percent_of_sm_copy_median"])


def shares(transport: str, path: str) -> list[float]:
    """With 4, 8, 16, 32, 64 and all 132 SMs."""
    return [share(transport, path, sms) for sms in (4, 8, 16, 32, 64, 132)]


def gb_per_s(transport: str, path: str, sms: int) -> float:
    return float(_chunk(transport, path, sms)["gb_per_s"])


def engine(transport: str) -> list[float]:
    """Percent of one large copy, and GB/s."""
    return [float(_chunk(transport, "engine", 0)[key]) for key in ("percent_of_copy_engine", "gb_per_s")]


def _chunk(transport: str, path: str, sms: int) -> Row:
    return row("h200x2/watermark", transport, path=path, sms=sms, chunk_rows=64)


# -- against others ----------------------------------------------------------------------------------------------------

KIB = 1024


def against(contender: str, theirs: str, ours: str, mode: str, nbytes: int | None = None) -> list[float]:
    """Ours and theirs in µs, times faster, and its interval."""
    transport = "host" if "host" in contender else "peer"
    values = {"ours": ours, "theirs": theirs, "mode": mode, "bytes": nbytes}
    found = row("h200x2/compare-nccl", transport, f"compare-nccl: {contender}", **values)
    ratio = "times_faster_median"
    return [found[key] for key in ("ours_us_median", "theirs_us_median", ratio, f"{ratio}_low", f"{ratio}_high")]


def all_reduce(contender: str, mode: str, nbytes: int) -> list[float]:
    return against(contender, "all-reduce", "inline-flag all-reduce", mode, nbytes)


def crossovers(transport: str) -> set[int | None]:
    """From which sizes on theirs is faster, of all contenders and modes together."""
    return {row["crossover_bytes"] for row in rows("h200x2/compare-nccl", transport, "compare-nccl: crossover")}


def eager_range() -> list[float]:
    """The least and the most µs of our all-reduce, launched one by one, below 256 KiB."""
    ours = [
        row["ours_us_median"]
        for part in document("h200x2/compare-nccl")["probes"]
        for row in part["rows"]
        if row.get("ours") == "inline-flag all-reduce" and row["mode"] == "eager" and row["bytes"] < 256 * KIB
    ]
    return [min(ours), max(ours)]


# -- litmus tests and verify -------------------------------------------------------------------------------------------


def trials(place: str, folder: str = "h200x2") -> list[Row]:
    """The rows of all litmus tests that ran."""
    recording = {"h200": "litmus"}.get(folder, f"litmus-{place}")
    return [row for row in rows(f"{folder}/{recording}", place) if row.get("trials")]


def seen(place: str, test: str) -> int:
    """In how many trials it ended as it asks."""
    return int(_only(row for row in trials(place) if row["test"] == test)["seen"])


def percent_seen(place: str, test: str) -> float:
    return 100 * seen(place, test) / int(_only(row for row in trials(place) if row["test"] == test)["trials"])


def forbidden(place: str, folder: str = "h200x2") -> set[str]:
    """The tests that showed what PTX forbids."""
    return {row["test"] for row in trials(place, folder) if (row["note"] or "").startswith("forbidden")}


def only_rmws_on_host_memory() -> bool:
    """Whether no test showed what PTX forbids, but for read-modify-writes where they are not native."""
    return not forbidden("peer") | forbidden("writer") and all(test.startswith("rmw") for test in forbidden("host"))


def passes(*recordings: str) -> bool:
    parts = [part for name in recordings for part in document(f"h200x2/{name}")["probes"]]
    return all(part["status"] == "pass" for part in parts)


def mutants(order: str, outcome: str) -> set[tuple[str, str]]:
    """(mutant, transport) of those that are wrong in "any" order, or where memory is "weak", and ended so."""
    return {
        (row["mutant"], transport)
        for transport in TRANSPORTS
        for row in rows("h200x2/verify-mutants", transport, order=order, expected="killed", outcome=outcome)
    }
