"""Copies beside the rounds of a scenario on GPUs: they move, in every second run, and its time is not taken."""

from pcietool.check import World
from pcietool.check.running.engines import on_gpus
from pcietool.check.running.sources import Sources
from pcietool.check.running.traffic import BYTES, COPIES, Traffic
from pcietool.machines.emulated.machine import EmulatedMachine
from tests.check.checking import kernel, one


def test_each_gpu_copies_both_ways_for_as_long_as_its_link_takes() -> None:
    with EmulatedMachine.open("pcie5-switch4") as machine, Traffic(machine) as traffic:
        outcome = machine.run((), 1.0, copy_streams=traffic.streams)
        link = machine.spec.peer.bandwidth_gb_s.value
    assert len(outcome.copy_streams_ns) == 4
    assert all(ns >= COPIES * BYTES / link for ns in outcome.copy_streams_ns)


def test_every_second_run_has_them_and_no_time() -> None:
    def play(w: World) -> None:
        a = w.one("a", "u4")
        w.launch([a])
        w.expect(a, 7)

    scenario = one(kernel("*a = 7;", "u32* a"), play)
    described = scenario.described(scenario.sizes()[0])
    with EmulatedMachine.open("pcie5-switch4") as machine:
        sources = Sources(described, machine.devices[0].compute_capability)
        said, times = on_gpus(machine, described, sources, 5, 0.1)
        now, link = machine.engine.now, machine.spec.host.bandwidth_gb_s.value
    assert (said.tries, said.findings, len(times)) == (5, [], 3)
    assert now > 2 * COPIES * BYTES / link, "two of the runs took as long as the copies"
