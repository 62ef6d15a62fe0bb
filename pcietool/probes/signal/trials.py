"""The ways to signal that signal-latency compares, and the rows they give.

One thing varies at a time. Must not judge the figures (`checks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np

from pcietool.contract.results import Observer, ProbeResult, Row
from pcietool.probes.common.world import World
from pcietool.probes.signal.config import Load, Pairing, Poll, SignalConfig, Wait
from pcietool.probes.signal.effort import Effort
from pcietool.probes.signal.ping_pong import PingPong, PingPongMemory, Variant, loaded
from pcietool.probes.signal.roles import LaunchRecord, Pair
from pcietool.stats import Interval, median_interval, paired_ratio, summarise
from pcietool.units import size

WAIT_TEXTS: dict[Wait, str] = {
    "acquire": "acquire",
    "relaxed-fence": "fence instead of acquire",
    "acquire-polls": "every poll acquires",
}


@dataclass(frozen=True)
class Trial:
    """One way to signal; `varied` says in a few words what is special about it."""

    varied: str
    pairs: tuple[Pair, ...]
    pairing: Pairing = "isolated"
    poll: Poll = "local"
    wait: Wait = "acquire"
    nanosleep_ns: int = 0
    load: Load = "none"
    payload_bytes: int = 0

    def ping_pong(self, memory: PingPongMemory, rounds: int) -> PingPong:
        variant = Variant(self.wait, self.nanosleep_ns, payload=self.payload_bytes > 0)
        roles = [role for pair in self.pairs for role in memory.pair(pair, self.poll)]
        return PingPong(memory, variant, [*roles, *loaded(memory, self.pairs, self.load)], rounds, self.payload_bytes)

    def row(self, world: World) -> Row:
        """What was done; figures come beside it."""
        single = self.pairs[0] if len(self.pairs) == 1 else None
        return {
            "varied": self.varied,
            "writer": single and single.writer,
            "owner": single and single.owner,
            "pairs": len(self.pairs),
            "pairs_text": str(single) if single else f"{len(self.pairs)} pairs",
            "pairing": self.pairing,
            "poll": "host memory" if world.transport == "host" else self.poll,
            "wait": self.wait,
            "nanosleep_ns": self.nanosleep_ns,
            "payload_bytes": self.payload_bytes,
            "load": self.load,
            "in_matrix": False,
        }


def base_trial(config: SignalConfig, world: World) -> Trial:
    """What every pair is measured by and everything else is compared with."""
    wait, nanosleep_ns = config.waits[0], config.nanosleeps_ns[0]
    poll = config.polls[0] if world.transport == "peer" else "local"
    parts = [WAIT_TEXTS[wait]]
    if nanosleep_ns:
        parts.append(f"nanosleep {nanosleep_ns}")
    if poll == "remote":
        parts.append("polls cross the link")
    return Trial(", ".join(parts), (Pair(0, 1),), poll=poll, wait=wait, nanosleep_ns=nanosleep_ns)


def every_pair(base: Trial, world: World) -> list[Trial]:
    return [replace(base, pairs=(pair,)) for pair in ordered_pairs(world)]


def ordered_pairs(world: World) -> tuple[Pair, ...]:
    return tuple(Pair(*ranks) for ranks in permutations(range(world.size), 2))


def variations(base: Trial, config: SignalConfig, effort: Effort, world: World) -> list[Trial]:
    """The base on its pair, and then each thing that can be different, alone."""
    trials = [base]
    trials += [replace(base, wait=wait, varied=WAIT_TEXTS[wait]) for wait in config.waits[1:]]
    trials += [replace(base, nanosleep_ns=ns, varied=f"nanosleep {ns}") for ns in config.nanosleeps_ns[1:]]
    if world.transport == "peer":
        trials += [replace(base, poll=poll, varied=f"{poll} polls") for poll in config.polls[1:]]
    local = replace(base, poll="local")
    trials += [
        replace(local, payload_bytes=nbytes, varied=f"payload {size(nbytes)}") for nbytes in effort.payloads(config)
    ]
    return trials + _together(base, config, world)


def _together(base: Trial, config: SignalConfig, world: World) -> list[Trial]:
    disjoint = tuple(Pair(rank, rank + 1) for rank in range(0, world.size - 1, 2))
    together: list[Trial] = []
    if "disjoint" in config.pairings and len(disjoint) > 1:
        together.append(replace(base, pairs=disjoint, pairing="disjoint", varied="disjoint pairs"))
    if "all" in config.pairings:
        together.append(replace(base, pairs=ordered_pairs(world), pairing="all", varied="all pairs"))
    return together


def under_load(base: Trial, config: SignalConfig, world: World) -> list[Trial]:
    """The same pairings while bulk data crosses the links between the pairs that take turns."""
    isolated = [replace(base, varied="")] if "isolated" in config.pairings else []
    return [
        replace(trial, load=load, varied=f"{trial.varied}, under {LOAD_TEXTS[load]}".removeprefix(", "))
        for load in config.loads
        for trial in (*isolated, *_together(base, config, world))
    ]


LOAD_TEXTS: dict[Load, str] = {"none": "no load", "push": "push", "pull": "pull", "both": "push and pull"}


class TrialRunner:
    """Runs trials in one memory and adds their rows to a result. Raises Hung."""

    def __init__(self, memory: PingPongMemory, effort: Effort, result: ProbeResult, observer: Observer) -> None:
        self.memory = memory
        self.effort = effort
        self.result = result
        self.observer = observer
        self.wrong: list[str] = []
        """What blocks found wrong in their payloads."""

    def compare(self, trials: Sequence[Trial]) -> list[Row]:
        """One row a trial. They take turns launch by launch, so that drift hits all alike; the first is the one that
        the ratios of the others refer to."""
        effort, world = self.effort, self.memory.world
        during = [f"{trial.varied}, {trial.row(world)['pairs_text']}" for trial in trials]
        ping_pongs = [trial.ping_pong(self.memory, effort.warmup + effort.rounds) for trial in trials]
        rows: list[Row] = []
        base: np.ndarray | None = None
        for trial, records in zip(trials, self._by_turns(ping_pongs, during), strict=True):
            periods = [record.periods_ns() for record in records]
            samples = np.array([[each[pair][effort.warmup :] / 2e3 for pair in trial.pairs] for each in periods])
            base = samples if base is None else base
            rates = [rate for record in records if (rate := record.moved_gb_per_s()) is not None]
            row = trial.row(world) | self._figures(samples, base)
            row["moved_gb_per_s"] = float(np.median(rates)) if rates else None
            rows.append(row if rates else row | {"moved_gb_per_s_reason": "no block moves bulk data meanwhile"})
            key = f"{len(self.result.samples):03}/{trial.varied}/{row['pairs_text']}/one_way_us"
            self.result.samples[key.replace(" ", "_")] = samples
        return rows

    def _by_turns(self, ping_pongs: Sequence[PingPong], during: Sequence[str]) -> list[list[LaunchRecord]]:
        """What each left in each launch; frees them."""
        records: list[list[LaunchRecord]] = [[] for _ in ping_pongs]
        for launch in range(self.effort.launches):
            for n, (ping_pong, what, mine) in enumerate(zip(ping_pongs, during, records, strict=True), start=1):
                far = f"{n} of {len(during)}, launch {launch + 1} of {self.effort.launches}"
                self.observer.progress(f"{self.memory.world.transport}: {what}, {far}")
                mine.append(ping_pong.run(what))
                self.wrong += mine[-1].wrong()
        for ping_pong in ping_pongs:
            ping_pong.free()
        return records

    def _figures(self, samples: np.ndarray, base: np.ndarray) -> Row:
        """`samples`: one way in us, [launches, pairs, rounds]; `base` those that it is compared with."""
        medians, base_medians = (np.median(each, axis=(1, 2)) for each in (samples, base))
        figures = summarise(samples, "one_way_us")
        return {
            "rounds": self.effort.rounds,
            "warmup": self.effort.warmup,
            "launches": self.effort.launches,
            **figures,
            **median_interval(medians).row("one_way_us_of_launches"),
            "round_trip_us_p50": 2 * figures["one_way_us_p50"],
            "slowest_pair_one_way_us_p50": float(np.median(samples, axis=(0, 2)).max()),
            "times_base": paired_ratio(medians, base_medians).median,
        }

    def remote_pollers(self, pair: Pair, during: str = "remote polls beside a push") -> list[Row]:
        """What the link still carries for a push by the writer while blocks of the owner poll the writer's memory."""
        counts = self.effort.pollers
        roles = [self.memory.polled_push(pair, pollers) for pollers in counts]
        ping_pongs = [PingPong(self.memory, Variant(), each, rounds=0) for each in roles]
        launches = self._by_turns(ping_pongs, [during] * len(counts))
        rates = [[record.moved_gb_per_s() or 0.0 for record in records] for records in launches]
        polls = [[record.polls_per_us() for record in records] for records in launches]
        return [
            self._poller_row(pair, pollers, rate, poll, paired_ratio(rate, rates[0]))
            for pollers, rate, poll in zip(counts, rates, polls, strict=True)
        ]

    def _poller_row(
        self, pair: Pair, pollers: int, rates: Sequence[float], polls: Sequence[float], ratio: Interval
    ) -> Row:
        many = f"{pollers or 'no'} remote poller{'' if pollers == 1 else 's'}"
        row: dict[str, Any] = {
            "varied": f"push, {many}",
            "writer": pair.writer,
            "owner": pair.owner,
            "pairs": 1,
            "pairs_text": str(pair),
            "poll": "remote",
            "load": "push",
            "in_matrix": False,
            "pollers": pollers,
            "launches": len(rates),
            "moved_gb_per_s": float(np.median(rates)),
            "polls_per_us": float(np.median(polls)),
        }
        return row | ratio.row("moved_gb_per_s_to_alone")
