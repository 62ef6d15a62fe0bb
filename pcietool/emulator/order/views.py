"""What a thread must have seen: views, how they join, and what each agent knows (docs/memory-model.md).

An agent is whoever reads and writes memory: a thread, its bulk copies, the host. Every access carries its agent's
epoch, a number that grows whenever the agent hands its view on; so a view needs one number an agent to say which
accesses come before it. Must not know messages, values or time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pcietool.emulator.memory import Writer
from pcietool.ptx.model import Instruction

Sources = Mapping[tuple[int, "Agent"], "View"]
"""By scope and agent: who synchronises with that agent in that scope has seen this view."""


@dataclass(slots=True, eq=False)
class Agent:
    """Who accesses memory. `writer` is (device, block, thread), each -1 where there is none; `epoch` is that of its
    next access. Threads of successive grids with the same place are one agent."""

    number: int
    name: str
    writer: Writer
    epoch: int = 1
    copies: bool = False
    """Is it a thread's bulk copies?"""
    fetches: bool = False
    """Is it a thread's cp.async?"""

    def contains(self, other: Agent, scope: int) -> bool:
        """Is the other inside this agent's scope? `scope`: one of ops.SCOPES."""
        return scope == 2 or self.writer[: 2 - scope] == other.writer[: 2 - scope]


@dataclass(slots=True, eq=False)
class View:
    """What was known at one moment. Never changed: whoever learns more gets another view.

    `clock`: by agent number, the last epoch whose accesses all come before. `seen`: by piece of memory, the rank of the
    latest message that was observed there. `proxied`: what the async proxy knows of it where it accesses global
    memory, and `shared_proxied` where it accesses shared memory.
    """

    clock: dict[int, int]
    seen: dict[int, int]
    proxied: View | None = None
    shared_proxied: View | None = None

    def fenced(self, fence: Instruction | None = None) -> View:
        """The same, all of it known to the async proxy, or as much as this proxy fence tells it."""
        all_of_it = View(self.clock, self.seen)
        leaves_out = fence.has if fence is not None else lambda *names: False
        if leaves_out("mbarrier_init"):
            return self
        return View(
            self.clock,
            self.seen,
            self.proxied if leaves_out("shared::cta") else all_of_it,
            self.shared_proxied if leaves_out("global") else all_of_it,
        )


NOTHING = View({}, {})


def join(views: Iterable[View]) -> View:
    """Everything that any of these knows."""
    distinct = list({id(view): view for view in views if view is not NOTHING}.values())
    if len(distinct) < 2:
        return distinct[0] if distinct else NOTHING
    proxied = [view.proxied for view in distinct if view.proxied is not None]
    shared = [view.shared_proxied for view in distinct if view.shared_proxied is not None]
    return View(
        _latest([view.clock for view in distinct]),
        _latest([view.seen for view in distinct]),
        join(proxied) if proxied else None,
        join(shared) if shared else None,
    )


def _latest(maps: list[dict[int, int]]) -> dict[int, int]:
    maps.sort(key=len)
    latest = dict(maps.pop())
    for one in maps:
        for key, number in one.items():
            if latest.get(key, -1) < number:
                latest[key] = number
    return latest


@dataclass(slots=True, eq=False)
class Observer:
    """What one agent knows.

    `view` and, not yet part of it, `newly_seen`; `fenced`: its view at its last fence of each scope; `pending`: sources
    that it has read and may still acquire, by piece; `released`: its own sources on each piece.
    """

    agent: Agent
    view: View
    newly_seen: dict[int, int] = field(default_factory=dict)
    fenced: dict[int, View] = field(default_factory=dict)
    pending: dict[int, dict[tuple[int, Agent], View]] = field(default_factory=dict)
    released: dict[int, Sources] = field(default_factory=dict)

    def knows(self, agent: Agent, epoch: int) -> bool:
        """Does everything that this agent does from now on come after that access?"""
        return agent is self.agent or self.view.clock.get(agent.number, 0) >= epoch

    def rank_seen(self, piece: int) -> int:
        """Of the latest message observed there, or -1."""
        return max(self.newly_seen.get(piece, -1), self.view.seen.get(piece, -1))

    def share(self) -> View:
        """Hands on everything up to now; what comes later is of a new epoch."""
        return meet([self])

    def take(self, view: View) -> None:
        if view is not self.view:
            self.view = join((self.view, view))

    def acquire(self, sources: Sources, scope: int) -> None:
        """Takes the view of every source in mutual scope."""
        for (its_scope, agent), view in sources.items():
            known = self.knows(agent, view.clock[agent.number])  # a view that is known is known as a whole
            if not known and self.agent.contains(agent, min(its_scope, scope)):
                self.take(view)

    def acquire_pending(self, scope: int) -> None:
        """A fence acquires what was read of every piece."""
        for sources in self.pending.values():
            self.acquire(sources, scope)

    def sources_of(self, piece: int, scope: int | None, inherited: Sources) -> Sources:
        """What a strong store to this piece hands on. `scope`: of its release, if it is one; `inherited`: what a
        read-modify-write read."""
        own = dict(self.released.get(piece, {}))
        views = list(self.fenced.items())
        if scope is not None:
            views.append((scope, self.share()))
        for fenced, view in views:
            keep_latest(own, (fenced, self.agent), view)
        if own:
            self.released[piece] = own
        if not inherited:
            return own
        sources = dict(inherited)
        for source, view in own.items():
            keep_latest(sources, source, view)
        return sources

    def expect(self, piece: int, sources: Sources) -> None:
        """Remembers what a message that was read would let this agent acquire."""
        pending = self.pending.setdefault(piece, {})
        for source, view in sources.items():
            keep_latest(pending, source, view)


def keep_latest(sources: dict[tuple[int, Agent], View], source: tuple[int, Agent], view: View) -> None:
    """Of two views of one agent, the later one knows all that the earlier one knew."""
    number = source[1].number
    if source not in sources or sources[source].clock[number] < view.clock[number]:
        sources[source] = view


def meet(observers: Iterable[Observer], given: Iterable[View] = ()) -> View:
    """All learn what any of them knows, and what was given; returns that."""
    observers = list(observers)
    joined = join([*(observer.view for observer in observers), *given])
    clock, seen = dict(joined.clock), dict(joined.seen)
    for observer in observers:
        agent = observer.agent
        clock[agent.number] = agent.epoch
        agent.epoch += 1
        for piece, rank in observer.newly_seen.items():
            if seen.get(piece, -1) < rank:
                seen[piece] = rank
        observer.newly_seen = {}
    view = View(clock, seen, joined.proxied, joined.shared_proxied)
    for observer in observers:
        observer.view = view
    return view
