"""Bulk copies, rule 13 of docs/memory-model.md: a copy is an agent that reads and writes weakly beside its issuer.

The agent starts with what its issuer had seen at its last proxy fence. A full wait takes over what the agent has seen;
a wait for the reads takes over nothing. Must not know what else threads can do.
"""

from __future__ import annotations

from itertools import chain

from pcietool.litmus.model.requests import Commit, Copy, Load, ProxyFence, WaitForCopies
from pcietool.litmus.model.state import State, Thread, View, join, with_thread


def issued(state: State, thread: Thread, copy: Copy) -> tuple[State, Thread] | None:
    """The agent on its way; None if it still belongs to a copy that nobody has waited for."""
    if copy.agent in chain(*thread.groups):
        return None
    agent = state.threads[copy.agent]._replace(at=copy.begins, floor=thread.proxied)
    groups = (*thread.groups[:-1], (*thread.groups[-1], copy.agent))
    return with_thread(state, copy.agent, agent), thread._replace(groups=groups)


def committed(thread: Thread, _: Commit) -> Thread:
    return thread._replace(groups=(*thread.groups, ()))


def waited(state: State, thread: Thread, wait: WaitForCopies) -> Thread | None:
    """The thread once all committed groups but the last `wait.left` are done; None if they are not."""
    due = max(0, len(thread.groups) - 1 - wait.left)
    agents = [state.threads[agent] for agent in chain(*thread.groups[:due])]
    if wait.reads_only:
        return None if any(isinstance(agent.at.request, Load) for agent in agents) else thread
    if any(agent.at.request is not None for agent in agents):
        return None
    floor: View = thread.floor
    proxied: View = thread.proxied
    for agent in agents:
        floor = join(state.orders, floor, agent.floor)
        proxied = join(state.orders, proxied, agent.floor)
    return thread._replace(floor=floor, proxied=proxied, groups=thread.groups[due:])


def fenced(thread: Thread, _: ProxyFence) -> Thread:
    return thread._replace(proxied=thread.floor)
