"""One row of atomic-loss, before anything was measured. Must not run anything."""

from __future__ import annotations

from pcietool.contract.results import Row
from pcietool.probes.atomics.config import Grid
from pcietool.probes.atomics.counting import Form, Requesters
from pcietool.probes.atomics.word_home import Home


def blank(home: Home, form: Form, requesters: Requesters, grid: Grid, operations: int | None) -> Row:
    """Every key that a row has."""
    predicted, unpredictable = home.predicted(requesters, form)
    return {
        "home": home.name,
        "requesters": requesters.names,
        "requesters_text": str(requesters),
        "storing": None,
        "operation": form.operation,
        "kind": form.kind,
        "scope": form.scope,
        "form": str(form),
        "blocks": grid.blocks,
        "threads": grid.threads,
        "concurrency": str(grid),
        "operations_per_thread": operations,
        "native_atomics": home.driver_says(requesters),
        "native": home.is_native(requesters, form),
        "wanted": None,
        "made": None,
        "expected": None,
        "seen": None,
        "lost": None,
        "lost_fraction": None,
        "predicted_lost_fraction": predicted,
        "predicted_reason": unpredictable,
        "repeated_old_values": None,
        "accesses": None,
        "elapsed_us": None,
        "ns_per_operation": None,
        "reason": None,
    }
