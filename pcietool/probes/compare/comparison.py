"""One contender against ours: its processes are started, both sides take turns, and ratios come out.

Must not know how the contender works, nor fail because it does: whatever happens becomes the result of this part.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from pcietool.contenders.catalog import Contender
from pcietool.contenders.nccl_log import CHOICES, CONNECTIONS, debug_settings
from pcietool.contenders.player import Measurement
from pcietool.contenders.team import Forfeit, Team, gpus_answer
from pcietool.contract.results import Observer, ProbeResult, Row, Status
from pcietool.probes.common.hangs import Hung, stopped
from pcietool.probes.common.world import World
from pcietool.probes.compare.config import CompareConfig
from pcietool.probes.compare.effort import Effort
from pcietool.probes.compare.ours import OurAllReduce, OurBarrier, Ours, WrongSumsError
from pcietool.stats import median_interval, paired_ratio

METHOD = (
    "by turns in one run: ours, theirs, ours, theirs ...; of each turn the median of {replays}; times faster = theirs /"
    " ours, median over {pairs} pairs with its interval; in-kernel: globaltimer around {rounds} rounds, slowest rank;"
    " graph and eager: GPU events around {nodes}, shortest GPU; both sides launch from Python"
)
_ORDERS_FOR = {"LSA relaxed": ("relaxed",), "barrier_all_block": ("publishing",)}
"""Our orders that promise as much, or less: everything else meets both."""


class Comparison:
    """`environment`: this process's variables, of which the user's settings for contenders are shown and kept."""

    def __init__(
        self,
        contender: Contender,
        world: World,
        config: CompareConfig,
        effort: Effort,
        observer: Observer,
        environment: Mapping[str, str],
    ) -> None:
        self._contender = contender
        self._world = world
        self._config = config
        self._effort = effort
        self._observer = observer
        self._environment = environment
        self._sizes = config.all_sizes(world.machine.backend)
        self._turns = 0
        self._facts: dict[str, Any] = {}
        method = METHOD.format(replays=effort.replays, pairs=effort.pairs, rounds=effort.rounds, nodes=effort.nodes)
        self._result = ProbeResult(f"compare-nccl: {contender.name}", Status.PASS, "", world.transport, method)

    def run(self) -> ProbeResult:
        """Never raises what the contender does."""
        result = self._result
        self._observer.begin(result)
        try:
            self._play()
        except Forfeit as forfeit:
            self._record(forfeit)
        except WrongSumsError as wrong:
            result.status, result.reason = Status.FAIL, str(wrong)
        except Hung as hung:
            return stopped(result, hung)
        result.verdict = self._verdict()
        return result

    def _play(self) -> None:
        forbidden = self._contender.contradicted(self._environment)
        if forbidden:
            raise Forfeit("waived", forbidden)
        if not any(True for _ in self._measurements()):
            reasons = dict.fromkeys(filter(None, map(self._contender.cannot, self._config.modes)))
            raise Forfeit("waived", "; ".join(reasons) or f"it has nothing to run in {', '.join(self._config.modes)}")
        choices = {} if self._contender.barriers else self._survey()
        with tempfile.TemporaryDirectory() as folder, self._team(Path(folder), CONNECTIONS) as team:
            self._start(team)
            for measurement in self._measurements():
                for ours in self._opponents(measurement):
                    try:
                        self._compare(team, measurement, ours, choices)
                    finally:
                        ours.free()
            self._facts |= team.report(self._config.run_timeout_s)[0]
            with suppress(Forfeit):  # it has given all it had to; the end of the context kills it
                team.close()
        for row in self._result.rows:
            row |= {"library": self._facts["library"], "transports_ran": self._facts.get("transports")}
        self._result.checks.append({"name": "took part", "passed": True, "text": self._facts_text()})

    # -- its processes --------------------------------------------------------------------------------------------

    def _team(self, folder: Path, subsystems: str) -> Team:
        devices = self._world.machine.devices
        environment = {
            "CUDA_VISIBLE_DEVICES": ",".join(device.uuid for device in devices),
            "CUDA_MODULE_LOADING": "LAZY",  # ours are loaded eagerly; with torch that takes minutes
            **debug_settings(folder, subsystems, self._environment),
            **self._contender.environment,
        }
        options = {
            "folder": str(folder),
            "symmetric": self._contender.symmetric,
            "max_bytes": max(self._sizes),
            "nodes": self._effort.nodes,
        }
        return Team(self._contender.player, self._contender.seats(len(devices)), environment, options)

    def _start(self, team: Team) -> None:
        self._progress("start")
        facts = team.prepare(self._config.init_timeout_s)
        token = facts.pop("token", None)
        self._facts |= facts
        self._progress("init")
        team.init(token, self._config.init_timeout_s)

    def _survey(self) -> dict[str, str]:
        """Which algorithm it chooses for each size: asked in a run of its own, since the answer costs a line a call."""
        with tempfile.TemporaryDirectory() as folder, self._team(Path(folder), CHOICES) as team:
            self._start(team)
            for nbytes in self._sizes:
                team.run(
                    Measurement("all-reduce", "eager", nbytes, self._effort.nodes), 1, 0, self._config.run_timeout_s
                )
            choices: dict[str, str] = team.report(self._config.run_timeout_s)[0].get("choices", {})
            with suppress(Forfeit):
                team.close()
        return choices

    # -- turns ----------------------------------------------------------------------------------------------------

    def _measurements(self) -> Iterator[Measurement]:
        for barrier in self._contender.barriers:
            if barrier.mode in self._config.modes:
                yield replace(barrier, nodes=self._effort.nodes, rounds=self._effort.rounds)
        if not self._contender.barriers:
            for mode in self._config.modes:
                if mode != "in-kernel" and not self._contender.cannot(mode):
                    yield from (Measurement("all-reduce", mode, nbytes, self._effort.nodes) for nbytes in self._sizes)

    def _opponents(self, measurement: Measurement) -> Iterator[Ours]:
        """Ours that does the same; the smallest all-reduce also stands for a barrier, which NCCL's launches lack."""
        mode, effort = measurement.mode, self._effort
        if measurement.nbytes:
            yield OurAllReduce(self._world, measurement.nbytes, mode, effort)  # type: ignore[arg-type]
        if not measurement.nbytes or measurement.nbytes == self._sizes[0]:
            for order in _ORDERS_FOR.get(measurement.what, ("publishing", "relaxed")):
                yield OurBarrier(self._world, order, mode, effort)  # type: ignore[arg-type]

    def _compare(self, team: Team, measurement: Measurement, ours: Ours, choices: Mapping[str, str]) -> None:
        size = f" of {measurement.nbytes} bytes" if measurement.nbytes else ""
        self._progress(f"{ours.label} and {measurement.what}{size}, {measurement.mode}")
        pairs = [(self._our_turn(ours), self._their_turn(team, measurement)) for _ in range(self._effort.pairs)]
        our_turns, their_turns = ([pair[side] for pair in pairs] for side in (0, 1))
        is_all_reduce = isinstance(ours, OurAllReduce)
        self._result.rows.append(
            {
                "contender": self._contender.name,
                "ours": ours.label,
                "theirs": measurement.what,
                "mode": measurement.mode,
                "bytes": measurement.nbytes if is_all_reduce else None,
                "processes": len(self._contender.seats(self._world.size)),
                "algorithm": choices.get(str(measurement.nbytes)),
                "ours_us_median": median_interval(our_turns).median,
                "theirs_us_median": median_interval(their_turns).median,
                **paired_ratio(their_turns, our_turns).row("times_faster"),
                "pairs": len(pairs),
            }
        )
        number = f"{self._contender.name}/{ours.label}/{measurement.what}/{measurement.mode}/{measurement.nbytes}"
        self._result.samples |= {f"{number}/ours_us": our_turns, f"{number}/theirs_us": their_turns}

    def _our_turn(self, ours: Ours) -> float:
        return ours.turn(self._new_iterations())

    def _their_turn(self, team: Team, measurement: Measurement) -> float:
        """One repetition in a kernel, as ours; else the median of all but the first."""
        in_kernel = measurement.mode == "in-kernel"
        repetitions = 1 if in_kernel else self._effort.replays + 1
        samples = team.run(measurement, repetitions, self._new_iterations(), self._config.run_timeout_s)
        combine = max if in_kernel else min
        each: list[float] = [combine(repetition) for repetition in zip(*samples, strict=True)]
        return median(each if in_kernel else each[1:])

    def _new_iterations(self) -> int:
        """The first of as many payloads as a turn needs, none of which was there before."""
        self._turns += 1
        return self._turns * (self._effort.replays + 1)

    # -- what is said ---------------------------------------------------------------------------------------------

    def _progress(self, text: str) -> None:
        self._observer.progress(f"{self._world.transport}, {self._contender.name}: {text}")

    def _record(self, forfeit: Forfeit) -> None:
        result = self._result
        result.status, result.reason = Status(forfeit.status), str(forfeit)
        if result.status in (Status.HANG, Status.ERROR):
            devices = self._world.machine.devices
            visible = {**self._environment, "CUDA_VISIBLE_DEVICES": ",".join(device.uuid for device in devices)}
            self._progress("do the GPUs still answer?")
            state, well = gpus_answer(len(devices), visible)
            result.reason += f"; afterwards {state}"
            result.hang = None
            if result.status is Status.HANG:
                result.hang = {
                    "limit": "deadline of the contender",
                    "records": [],
                    "dropped_records": 0,
                    "proof": [],
                    "gpus_lost": not well,
                }

    def _verdict(self) -> str:
        title = self._contender.title
        shown = [row for row in self._result.rows if row["ours"] != "relaxed barrier"] or self._result.rows
        firsts = {row["mode"]: row for row in reversed(shown)}
        texts = [
            f"{row['ours']} {faster(row)} than {row['theirs']}"
            + (f" at {row['bytes']} B" if row["bytes"] else "")
            + f" {mode}"
            for mode, row in reversed(firsts.items())
        ]
        return f"{title}: {'; '.join(texts) or 'not compared'}"

    def _facts_text(self) -> str:
        facts = self._facts
        found = facts.get("transports")
        ran = ", ".join(found) if found else facts.get("log_reason") or "not told"
        settings = {**facts.get("environment", {}), **self._contender.environment}
        shown = {name: value for name, value in settings.items() if not name.startswith("NCCL_DEBUG")}
        variables = " ".join(f"{name}={value}" for name, value in shown.items())
        return f"{facts['library']} ({facts['path']}), transport {ran}" + (f", {variables}" if variables else "")


def faster(row: Row) -> str:
    """ "3.10 x faster [3.05, 3.20]"; "1.25 x slower" if ours takes longer."""
    times, low, high = (row[f"times_faster_median{end}"] for end in ("", "_low", "_high"))
    if times >= 1:
        return f"{times:.2f} x faster" + (f" [{low:.2f}, {high:.2f}]" if low is not None else "")
    return f"{1 / times:.2f} x slower" + (f" [{1 / high:.2f}, {1 / low:.2f}]" if low is not None else "")
