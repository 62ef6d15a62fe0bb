from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcietool.errors import UsageError
from pcietool.machines import open_machine
from pcietool.machines.selection import GpuIdentity, select_gpus, visible_devices_note

GPUS = (
    GpuIdentity(0, "GPU-ab12cd34-0000-0000-0000-000000000001", "0000:01:00.0"),
    GpuIdentity(1, "GPU-ab99cd34-0000-0000-0000-000000000002", "0000:81:00.0"),
    GpuIdentity(2, "GPU-cd12cd34-0000-0000-0000-000000000003", "0001:01:00.0"),
)


def chosen(*names: str) -> list[int]:
    return [gpu.index for gpu in select_gpus(names, None, GPUS)]


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("1", 1),
        ("01", 1),
        ("GPU-ab12cd34-0000-0000-0000-000000000001", 0),
        ("GPU-c", 2),
        ("gpu-AB9", 1),
        ("0000:81:00.0", 1),
        ("81:00.0", 1),
        ("81:00", 1),
        ("00000000:01:00.0", 0),
        ("0001:01:00.0", 2),
    ],
)
def test_every_name_of_a_gpu(name: str, index: int) -> None:
    assert chosen(name) == [index]


def test_order_is_the_users() -> None:
    assert chosen("2", "GPU-ab1", "81:00.0") == [2, 0, 1]


@pytest.mark.parametrize("name", ["3", "-1", "", "GPU-ff", "ab12", "99:00.0", "0000:01:00.1", "one"])
def test_unknown_names_list_what_there_is(name: str) -> None:
    with pytest.raises(UsageError, match=r"no GPU .*there is 0 \(GPU-ab12"):
        chosen(name)


@pytest.mark.parametrize("name", ["GPU-ab", "GPU-", "01:00.0"])
def test_ambiguous_names(name: str) -> None:
    with pytest.raises(UsageError, match=r"fits [23] GPUs"):
        chosen(name)


@pytest.mark.parametrize("names", [("0", "0"), ("0", "GPU-ab12"), ("81:00.0", "1")])
def test_a_gpu_is_named_once(names: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="same GPU"):
        chosen(*names)


def test_count() -> None:
    assert [gpu.index for gpu in select_gpus(None, 2, GPUS)] == [0, 1]
    assert select_gpus(None, None, GPUS) == GPUS
    for count in (0, 4):
        with pytest.raises(UsageError, match=f"--num-gpus {count}: there is 0"):
            select_gpus(None, count, GPUS)
    with pytest.raises(UsageError, match="exclude each other"):
        select_gpus(["0"], 1, GPUS)


@given(st.lists(st.uuids(), min_size=1, max_size=6, unique=True), st.data())
def test_a_unique_prefix_finds_its_gpu(uuids: list[UUID], data: st.DataObject) -> None:
    gpus = [GpuIdentity(i, f"GPU-{uuid}", f"0000:{i:02x}:00.0") for i, uuid in enumerate(uuids)]
    gpu = data.draw(st.sampled_from(gpus))
    prefix = gpu.uuid[: data.draw(st.integers(5, len(gpu.uuid)))]
    if sum(other.uuid.startswith(prefix) for other in gpus) == 1:
        assert select_gpus([prefix], None, gpus) == (gpu,)
    else:
        with pytest.raises(UsageError):
            select_gpus([prefix], None, gpus)


@given(st.lists(st.text(max_size=12), max_size=4))
def test_any_text_selects_or_is_a_usage_error(names: list[str]) -> None:
    try:
        found = select_gpus(names, None, GPUS)
    except UsageError:
        return
    assert len(set(found)) == len(names)


@pytest.mark.parametrize("value", ["", "-1", "NoDevFiles", "-1,0"])
def test_note_that_all_gpus_are_hidden(value: str) -> None:
    assert f'CUDA_VISIBLE_DEVICES="{value}" hides all GPUs: unset it' == visible_devices_note(
        {"CUDA_VISIBLE_DEVICES": value}
    )


def test_other_notes() -> None:
    assert visible_devices_note({}) is None
    assert "MIG" in (visible_devices_note({"CUDA_VISIBLE_DEVICES": "MIG-1234"}) or "")
    for value in ("0,1", "GPU-ab"):
        assert "renumbers" in (visible_devices_note({"CUDA_VISIBLE_DEVICES": value}) or "")


def test_a_selected_gpu_keeps_the_number_that_the_machine_gives_it() -> None:
    with open_machine("emulated", ("3", "1"), fabric="pcie5-switch4") as machine:
        assert [(device.index, device.machine_index) for device in machine.devices] == [(0, 3), (1, 1)]


def test_too_many_emulated_gpus_name_a_fabric_that_has_them() -> None:
    with pytest.raises(UsageError, match="--fabric pcie5-switch16 has as many"):
        open_machine("emulated", num_gpus=9)
    with pytest.raises(UsageError, match="no packaged fabric has more than 16"):
        open_machine("emulated", num_gpus=17)
