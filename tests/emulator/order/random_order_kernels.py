"""Straight-line litmus tests as kernels: what random memory order makes of them can be held against every execution."""

from __future__ import annotations

import random

import numpy as np

from pcietool.emulator.fabric.fabric import FabricSpec, load_fabric
from pcietool.litmus.text.program import Fence, LitmusTest, LitmusThread, Load, Rmw, Store
from pcietool.machines.base import Launch, on_device
from pcietool.machines.emulated.machine import EmulatedMachine
from tests.emulator.emulated_programs import ptx_program
from tests.emulator.litmus_kernels import lines_of
from tests.litmus.litmus_texts import of_whole_words

GPUS = 4
REGISTERS = 8
"""Of each thread, at most."""
STRIDE = 128
"""Bytes between locations."""
DECLARED = ".reg .pred %p; .reg .b32 %thread, %block, %void; .reg .b64 %loc<20>;"
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
    stored = [one.values[0] for one in code if isinstance(one, Store)]
    rmws = [one for one in code if isinstance(one, Rmw)]
    constant = all(value.register is None for value in (*stored, *(rmw.value for rmw in rmws)))
    return (
        constant
        and of_whole_words(test)
        and all(isinstance(one, Load | Store | Rmw | Fence) for one in code)
        and not any(rmw.expected for rmw in rmws)
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
                kernel = ptx_program(_kernel(threads, addresses, rng), "random", registers=DECLARED).kernel("k")
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
    lines = ["mov.u32 %thread, %tid.x; mov.u32 %block, %ctaid.x;"]
    lines += [f"mov.u64 %loc{number}, {address};" for number, address in enumerate(addresses)]
    for number, thread in threads.items():
        lines += [
            f"setp.eq.u32 %p1, %thread, {32 * number}; setp.eq.u32 %p2, %block, {thread.cta};",
            "and.pred %p3, %p1, %p2;",
            f"@%p3 bra P{number};",
        ]
    lines.append("ret;")
    for number, thread in threads.items():
        lines.append(f"P{number}:")
        lines += [f"mov.u32 %r{n}, {value};" for n, value in enumerate(thread.initial)]
        for one in thread.code:
            if rng.random() < 0.5:
                lines.append(f"nanosleep.u32 {rng.randrange(longest)};")
            lines += lines_of(number, one)
        lines += [f"st.global.u32 [%a+{4 * (REGISTERS * number + n)}], %r{n};" for n in range(len(thread.registers))]
        lines.append("ret;")
    return "\n".join(lines)
