"""`machine`: the same test functions on both tenants."""

import sys
from pathlib import Path

import pytest

from pcietool.errors import NothingToRunError
from pcietool.machines import open_machine

sys.path.insert(0, str(Path(__file__).parent))  # child_probes, for this process and the children it starts


@pytest.fixture(
    params=["emulated", pytest.param("cuda", marks=pytest.mark.gpu)],
    scope="module",
)
def machine(request):
    try:
        opened = open_machine(request.param, fabric="pcie5-switch4" if request.param == "emulated" else None)
    except NothingToRunError as error:
        pytest.skip(str(error))
    with opened:
        yield opened
