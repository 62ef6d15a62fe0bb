"""Names and sizes of atomic-loss: forms, concurrencies, and usual grids."""

import pytest

from pcietool.errors import UsageError
from pcietool.machines.emulated.machine import EmulatedMachine
from pcietool.probes.atomics.config import AtomicsConfig, Grid
from pcietool.probes.atomics.counting import Form
from pcietool.probes.atomics.probe import Effort


@pytest.mark.parametrize("text", ["64", "0x3", "3x0", "x", "64x", "-1x3", "1x1x1", "64 x 256", ""])
def test_a_concurrency_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write it as blocks x threads"):
        AtomicsConfig(concurrency=(text,))


def test_a_grid_that_no_gpu_holds_is_refused() -> None:
    with pytest.raises(UsageError, match="too many blocks, no GPU has more than 65,535"):
        AtomicsConfig(concurrency=("100000000x1024",))
    assert AtomicsConfig(concurrency=("65535x1024",)).concurrency == ("65535x1024",)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (Form("add", "atom", "sys"), "atom.sys.add"),
        (Form("cas", "no-op", "gpu"), "no-op cas"),
        (Form("slots", "store", "sys"), "slots"),
    ],
)
def test_a_form_is_named_as_ptx_names_it(form: Form, text: str) -> None:
    assert str(form) == text


@pytest.mark.parametrize("backend", ["cuda", "emulated"])
def test_usual_grids_have_one_thread_or_whole_warps(
    emulated: EmulatedMachine, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    monkeypatch.setattr(emulated, "backend", backend)
    grids = Effort.of(emulated, AtomicsConfig()).grids
    assert grids[0] == Grid(1, 1)
    assert all(grid.blocks > 0 and grid.threads % 32 == 0 for grid in grids[1:])
