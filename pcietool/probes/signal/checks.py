"""What signal-latency is sure of: that values and data were right, that wrong ones are caught, that times can be true.

Must not measure latencies (`trials`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pcietool.contract.results import Row
from pcietool.machines.base import Machine
from pcietool.probes.common.checks import check, control
from pcietool.probes.common.injections import amount
from pcietool.probes.common.world import World
from pcietool.probes.signal.ping_pong import PingPong, PingPongMemory, Variant
from pcietool.probes.signal.roles import Injection, Kind, Pair
from pcietool.units import micros

ROUNDS = 6
"""Of a self-test; injections begin in round 4."""
PAYLOAD_BYTES = 64
PLAUSIBLE_PCIE_US = (0.4, 10.0)
"""One way over PCIe; anything outside is an error of measurement, or the cost of a launch."""
INJECTIONS = {
    "dead-rank": Injection.DIE,
    "drop-signal": Injection.DROP,
    "corrupt-payload": Injection.CORRUPT,
    "early-signal": Injection.EARLY,
    "stall": Injection.DELAY,
}
CHECKED = Variant(payload=True, checked=True, inject=True)


def self_tests(memory: PingPongMemory, pairs: Sequence[Pair]) -> list[Row]:
    """All pairs at once with every polled value checked, and the same with something wrong, which must be noticed."""
    wrong = _wrong(memory, pairs, Injection.NONE)
    fine = f"{len(pairs)} pairs, {ROUNDS} rounds: no slot went back, every word right"
    checks = [check("values and payloads", not wrong, "; ".join(wrong[:3]) or fine)]
    for name, injection in (("a wrong word", Injection.CORRUPT), ("a slot that goes back", Injection.BACK)):
        caught = _wrong(memory, pairs[:1], injection)
        checks.append(control(f"{name} is caught", next(iter(caught), None), "nobody noticed"))
    return checks


def _wrong(memory: PingPongMemory, pairs: Sequence[Pair], injection: Injection) -> list[str]:
    return _run(memory, pairs, CHECKED, injection, PAYLOAD_BYTES, during="self-test")


def _run(
    memory: PingPongMemory,
    pairs: Sequence[Pair],
    variant: Variant,
    injection: Injection,
    payload: int,
    during: str,
    delay_ns: int = 0,
) -> list[str]:
    """Runs with the one who answers in the last pair misbehaving; what blocks found wrong."""
    roles = [role for pair in pairs for role in memory.pair(pair, "local")]
    roles[-1] = replace(roles[-1], injection=injection, delay_ns=delay_ns)
    assert roles[-1].kind is Kind.ANSWERS
    ping_pong = PingPong(memory, variant, roles, ROUNDS, payload)
    wrong = ping_pong.run(during).wrong()
    ping_pong.free()
    return wrong


def inject(memory: PingPongMemory, name: str, pair: Pair) -> list[str]:
    """The failure that the user asked for. Raises Hung for those that end in a hang; else what was found wrong."""
    kind, _, _ = name.partition("=")
    payload = kind in ("corrupt-payload", "early-signal")
    variant, nbytes = Variant(payload=payload, inject=True), memory.most_payload if payload else 0
    return _run(memory, [pair], variant, INJECTIONS[kind], nbytes, f"--inject {name}", amount(name) * 1000)


def payload_check(wrong: Sequence[str], rows: Sequence[Row]) -> Row:
    """Of the payloads that travelled while the time was taken."""
    sizes = sum(bool(row.get("payload_bytes")) for row in rows)
    more = f"; and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    fine = f"every word right in {sizes} sizes"
    return check("payloads", not wrong, f"{wrong[0]}{more}" if wrong else fine)


def plausibility(machine: Machine, world: World, matrix: Sequence[Sequence[float | None]], floor: float) -> list[Row]:
    """Can the medians be true? `floor`: one way between two blocks of one GPU, by the same kernel."""
    medians = [cell for row in matrix for cell in row if cell is not None]
    least, most = min(medians), max(medians)
    checks: list[Row] = []
    if world.transport != "self":
        text = f"{micros(least)} µs at least, {micros(floor)} µs between two blocks of one GPU"
        beyond = text if least >= floor else f"{text}: faster than without a link is an error of measurement"
        checks.append(check("slower than inside one GPU", least >= floor, beyond, severity="warn"))
    if crosses_pcie(machine, world):
        low, high = PLAUSIBLE_PCIE_US
        believable = low <= least and most <= high
        text = f"{micros(least)} to {micros(most)} µs one way, believable from {low:g} to {high:g} µs"
        doubt = "an error of measurement" if least < low else "a slow link (width, speed, retries)"
        error = "" if believable else f": {doubt}, or the cost of a launch"
        checks.append(check("plausible for PCIe", believable, text + error, severity="warn"))
    return checks


def crosses_pcie(machine: Machine, world: World) -> bool:
    if world.transport == "peer":
        return all(machine.link(*pair).kind == "pcie" for pair in ((0, 1), (1, 0)))
    return world.transport == "host"
