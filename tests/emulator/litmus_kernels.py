"""Straight-line litmus tests as kernels: what random memory order makes of them can be held against every execution."""

from __future__ import annotations

import random
import re

import numpy as np
from emulated_programs import ptx_program

from pcietool.emulator.fabric import FabricSpec, load_fabric
from pcietool.litmus.program import Fence, LitmusTest, LitmusThread, Load, Rmw, Store
from pcietool.machines.base import Launch, on_device
from pcietool.machines.emulated import EmulatedMachine

GPUS = 4
REGISTERS = 8
"""Of each thread, at most."""
STRIDE = 128
"""Bytes between locations."""
PAUSES_NS = (1, 300, 3000)
"""One of them is the longest pause between two instructions of a run."""


def native_fabric() -> FabricSpec:
    """Four GPUs whose read-modify-writes are whole everywhere."""
    spec = load_fabric("pcie5-switch4")
    return spec.model_copy(update={"peer": spec.peer.model_copy(update={"native_atomics": True})})


FABRIC = native_fabric()


def is_straight(test: LitmusTest) -> bool:
    """Accesses and fences alone, and no stores of computed values."""
    code = [one for thread in test.threads for one in thread.code]
    return all(isinstance(one, Load | Store | Rmw | Fence) for one in code) and all(
        one.value.register is None and (isinstance(one, Store) or one.expected is None)
        for one in code
        if isinstance(one, Store | Rmw)
    )


def run_once(test: LitmusTest, seed: int) -> tuple[int, ...]:
    """The values that one run leaves, in the order of the question's items."""
    rng = random.Random(seed)
    with EmulatedMachine(FABRIC, range(GPUS), seed, "random") as machine:
        homes = [rng.randrange(GPUS) for _ in test.locations]
        memory = [
            machine.alloc(on_device(home), STRIDE, name) for home, name in zip(homes, test.locations, strict=True)
        ]
        for buffer, value in zip(memory, test.memory, strict=True):
            buffer.write(np.array([value], np.uint32))
        left = machine.alloc(on_device(0), 4 * REGISTERS * len(test.threads), "registers")
        addresses = [buffer.address for buffer in memory]
        launches = []
        for gpu in range(GPUS):
            threads = {n: thread for n, thread in enumerate(test.threads) if thread.gpu == gpu}
            if threads:
                blocks = 1 + max(thread.cta for thread in threads.values())
                text = _kernel(threads, addresses, rng)
                kernel = ptx_program(text, "random", registers=".reg .b32 %v<64>;").kernel("k")
                launches.append(Launch(gpu, kernel, blocks, 32 * len(test.threads), (left, left)))
        assert machine.run(launches, 0.01).finished
        registers = left.read(np.uint32).reshape(-1, REGISTERS)
        return tuple(
            int(
                memory[item.number].read(np.uint32, 1)[0]
                if item.thread is None
                else registers[item.thread, item.number]
            )
            for item in test.question.items
        )


def _kernel(threads: dict[int, LitmusThread], addresses: list[int], rng: random.Random) -> str:
    """Each litmus thread is the first lane of the warp with its number."""
    longest = rng.choice(PAUSES_NS)
    lines = ["mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;"]
    for number, thread in threads.items():
        lines += [
            f"setp.eq.u32 %p1, %r1, {32 * number}; setp.eq.u32 %p2, %r2, {thread.cta}; and.pred %p3, %p1, %p2;",
            f"@%p3 bra P{number};",
        ]
    lines.append("ret;")
    for number, thread in threads.items():
        lines.append(f"P{number}:")
        lines += [f"mov.u32 %v{n}, {value};" for n, value in enumerate(thread.initial)]
        for one in thread.code:
            if rng.random() < 0.5:
                lines.append(f"nanosleep.u32 {rng.randrange(longest)};")
            lines.append(_instruction(one, thread, addresses))
        lines += [f"st.global.u32 [%a+{4 * (REGISTERS * number + n)}], %v{n};" for n in range(len(thread.registers))]
        lines.append("ret;")
    return "\n".join(lines)


def _instruction(one: Load | Store | Rmw | Fence, thread: LitmusThread, addresses: list[int]) -> str:
    opcode, *modifiers = one.text.split()[0].split(".")
    if isinstance(one, Fence):
        return f"{'.'.join((opcode, *modifiers))};"
    kind = "" if not isinstance(one, Rmw) else modifiers.pop()
    if kind.isdigit() or re.fullmatch(r"[usb](32|64)", kind):
        kind = modifiers.pop()
    form = ".".join(part for part in (opcode, *modifiers, "global", kind, "b32" if kind == "exch" else "u32") if part)
    address = f"[%rd{one.location + 1}]"
    locate = f"mov.u64 %rd{one.location + 1}, {addresses[one.location]};"
    if isinstance(one, Load):
        return f"{locate} {form} %v{one.register}, {address};"
    if isinstance(one, Store):
        return f"{locate} {form} {address}, {one.value.constant};"
    into = "" if one.register is None else f"%v{one.register}, "
    return f"{locate} {form} {into}{address}, {one.value.constant};"
