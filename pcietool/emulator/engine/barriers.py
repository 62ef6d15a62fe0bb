"""Threads that wait for each other in virtual time: barriers of a block and operations of a warp, and who is let go.

Must not know memory; what those that meet learn of it is up to the memory order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pcietool.emulator.engine.core import Core
from pcietool.emulator.engine.threads import BLOCKED, Block, BlockBarrier, Cluster, Thread, WarpKey
from pcietool.emulator.ops import Code, Op
from pcietool.emulator.order.views import join
from pcietool.emulator.warps import warp_results
from pcietool.errors import EmulationError

ALL_LANES = 0xFFFFFFFF
CLUSTER_BARRIERS = ("cluster arrive", "cluster wait")


class BarrierCore(Core):
    """The core with what brings threads together."""

    def resume_all(self, results: dict[Thread, Any], _: Any = None) -> None:
        """Resumes threads of one block that were let go together, each with its result. Most of them run straight to
        the same barrier or warp operation, where they then arrive together."""
        barrier: tuple[Op, int, int] | None = None
        arriving: list[Thread] = []
        warp_op: Op | None = None
        mask = 0
        given: dict[Thread, Any] = {}
        for thread, result in results.items():
            try:
                request = thread.send(result)
            except StopIteration:
                self.ended(thread)
                continue
            except (EmulationError, IndexError) as error:
                raise thread.error(error) from None
            if request is barrier:
                arriving.append(thread)
                continue
            op = request[0]
            if op is warp_op and request[1] == mask:
                given[thread] = request[2]
            elif warp_op is None and op.code == Code.WARP:
                warp_op, mask, given[thread] = request
            elif barrier is None and op.code == Code.BARRIER and op.kind == "sync":
                barrier = request
                arriving.append(thread)
            else:
                self.serve(thread, request)
        if warp_op is not None:
            self._arrive_warp(mask, given, warp_op)
        if barrier is not None:
            try:
                self._arrive(arriving, *barrier)
            except EmulationError as error:
                raise arriving[0].error(error) from None

    def barrier(self, thread: Thread, request: tuple[Any, ...]) -> Any:
        if request[0].kind in CLUSTER_BARRIERS:
            return self._cluster_barrier(thread, request[0])
        self._arrive([thread], *request)
        return self.go_on(thread) if request[0].kind == "arrive" else BLOCKED

    def warp(self, thread: Thread, request: tuple[Op, int, Any]) -> Any:
        op, mask, value = request
        self._arrive_warp(mask, {thread: value}, op)
        return BLOCKED

    def ended(self, thread: Thread) -> None:
        """Whoever waits for all threads that live waits for one less."""
        super().ended(thread)
        block = thread.block
        warp, lane = divmod(thread.tid, 32)
        block.warp_alive[warp] &= ~(1 << lane)
        block.alive -= 1
        for number, barrier in list(block.barriers.items()):
            if not barrier.expected and barrier.arrived >= block.alive:
                self._release(block, number)
        for key, gathered in list(block.warps.items()):
            if key[0] == warp and len(gathered) >= (key[1] & block.warp_alive[warp]).bit_count():
                self._release_warp(block, key)
        if block.cluster.size > 1:
            block.cluster.leave(thread)
            self._release_cluster(block.cluster)
        if not block.alive:
            block.on_end()

    def _arrive(self, threads: list[Thread], op: Op, number: int, count: int, *votes: bool) -> None:
        """Threads of one block reach a barrier at the same time; `count` 0 expects all threads that live. `votes` are
        what they give where the barrier counts predicates."""
        block = threads[0].block
        barrier = block.barriers.get(number)
        if barrier is None:
            if number > 15:
                raise EmulationError(f"barrier {number}: a block has barriers 0 to 15")
            if count % 32:
                raise EmulationError(f"barrier {number} for {count} threads: make it a multiple of 32, as PTX has it")
            barrier = block.barriers[number] = BlockBarrier(count, op)
        elif barrier.expected != count:
            raise EmulationError(
                f"two thread counts on barrier {number} of one block: {barrier.expected or 'all'} at"
                f" {barrier.op.where()} and {count or 'all'} at {op.where()}; give one of them a barrier of its own"
            )
        barrier.arrived += len(threads) + self._padding(barrier, threads)
        barrier.votes += votes
        if op.kind != "arrive":
            barrier.waiting += threads
        else:
            for thread in threads:
                thread.poll_loop = None
                barrier.latest = max(barrier.latest, thread.lag)
                barrier.given.append(self.order.give(thread))
        if barrier.arrived >= (count or block.alive):
            self._release(block, number)

    @staticmethod
    def _padding(barrier: BlockBarrier, threads: list[Thread]) -> int:
        """Hardware counts warps: where a count is given, the lanes that the block's last warp lacks come with the first
        of its lanes."""
        size = len(threads[0].block.threads)
        if not barrier.expected or barrier.padded or all(thread.tid >> 5 != size >> 5 for thread in threads):
            return 0
        barrier.padded = True
        return -size % 32

    def _release(self, block: Block, number: int) -> None:
        barrier = block.barriers.pop(number)
        self.order.meet(barrier.waiting, barrier.given)
        latest = max(barrier.latest, _catch_up(barrier.waiting))
        result = _result(barrier.op.kind, barrier.votes)
        time = self.now + latest + self.gpu.block_barrier_ns.value
        self.at(time, self.resume_all, dict.fromkeys(barrier.waiting, result))

    def _cluster_barrier(self, thread: Thread, op: Op) -> Any:
        """Of a whole cluster: arriving and waiting are two instructions."""
        cluster = thread.block.cluster
        thread.poll_loop = None
        if op.kind == CLUSTER_BARRIERS[0]:
            cluster.arrive(thread)
            cluster.given += [self.order.give(thread)] if op.release else []
            self._release_cluster(cluster)
            return self.go_on(thread)
        if thread in cluster.passed:
            cluster.passed.discard(thread)
            self.order.take(thread, [cluster.completed])
            return self.go_on(thread)
        if thread not in cluster.arrived:
            raise EmulationError("barrier.cluster.wait of a thread that has not arrived; arrive before")
        cluster.waiting.append(thread)
        return BLOCKED

    def _release_cluster(self, cluster: Cluster) -> None:
        """Ends the phase if all threads that live have arrived."""
        if not cluster.is_complete:
            return
        cluster.completed, cluster.given = join(cluster.given), []
        waiting, cluster.waiting = cluster.waiting, []
        cluster.passed, cluster.arrived = cluster.arrived.difference(waiting), set()
        for thread in waiting:
            self.order.take(thread, [cluster.completed])
        time = self.now + _catch_up(waiting) + self.gpu.block_barrier_ns.value
        for block in dict.fromkeys(thread.block for thread in waiting):
            self.at(time, self.resume_all, {thread: None for thread in waiting if thread.block is block})

    def _arrive_warp(self, mask: int, given: dict[Thread, Any], op: Op) -> None:
        """Lanes of one block reach a warp operation, each with what it gives; the last lane of the mask that lives lets
        all of its warp go."""
        first = next(iter(given))
        warp, block = first.tid >> 5, first.block
        if len(block.threads) > 32 and any(thread.tid >> 5 != warp for thread in given):
            for thread, value in given.items():
                self._arrive_warp(mask, {thread: value}, op)
            return
        for thread in given if mask != ALL_LANES else ():
            if not mask >> (thread.tid & 31) & 1:
                outside = EmulationError(f"lane {thread.tid & 31} is not in the mask {mask:#010x} of the operation")
                raise thread.error(outside)
        key = (warp, mask, op.kind)
        gathered = block.warps.setdefault(key, given)
        if gathered is not given:
            gathered.update(given)
        if len(gathered) >= (mask & block.warp_alive[warp]).bit_count():
            self._release_warp(block, key)

    def _release_warp(self, block: Block, key: WarpKey) -> None:
        gathered, kind = block.warps.pop(key), key[2]
        if kind == "sync":  # votes and shuffles order no memory
            self.order.meet(gathered)
        time = self.now + _catch_up(gathered) + self.gpu.warp_barrier_ns.value
        self.at(time, self.resume_all, warp_results(kind, gathered))


def _result(kind: str, votes: list[bool]) -> int | None:
    """What a barrier that counts predicates gives to all of its threads."""
    match kind:
        case "popc":
            return sum(votes)
        case "and":
            return all(votes)
        case "or":
            return any(votes)
    return None


def _catch_up(waiting: Iterable[Thread]) -> float:
    """How far ahead of the clock the last of these threads came. They are let go together: none is ahead of the others
    any more, nor in a wait loop."""
    latest = 0.0
    for thread in waiting:
        thread.poll_loop = None
        if thread.lag:
            latest = max(latest, thread.lag)
            thread.lag = 0.0
    return latest
