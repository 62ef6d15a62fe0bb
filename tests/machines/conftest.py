"""`machine`: the same test functions on both tenants."""

import pytest

from pcietool.errors import NothingToRunError
from pcietool.machines import open_machine


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
