import os
from typing import Any

import pytest
from cuda.bindings import driver as bindings

from pcietool.errors import DriverError, ExitCode, NothingToRunError, UsageError
from pcietool.machines.cuda import driver


@pytest.fixture(autouse=True)
def _a_plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "CUDA_INJECTION64_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_MODULE_LOADING", "LAZY")  # restored afterwards; initialise() changes it


def answer_with(monkeypatch: pytest.MonkeyPatch, init_code: int, count: int = 0) -> None:
    monkeypatch.setattr(driver, "driver_present", lambda: True)
    monkeypatch.setattr(bindings, "cuInit", lambda flags: (init_code,))
    monkeypatch.setattr(bindings, "cuDeviceGetCount", lambda: (0, count))


def test_no_driver_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "driver_present", lambda: False)
    with pytest.raises(NothingToRunError, match="no NVIDIA driver found") as caught:
        driver.initialise()
    assert caught.value.exit_code == ExitCode.NOTHING_RAN
    assert "\n" not in str(caught.value)
    assert "--backend emulated" in str(caught.value)


@pytest.mark.parametrize(("code", "count"), [(100, 0), (0, 0), (34, 0)])
def test_a_driver_without_gpu(monkeypatch: pytest.MonkeyPatch, code: int, count: int) -> None:
    answer_with(monkeypatch, code, count)
    with pytest.raises(NothingToRunError, match="--backend emulated"):
        driver.initialise()


def test_hidden_gpus_are_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, 100)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(NothingToRunError, match='CUDA_VISIBLE_DEVICES="" hides all GPUs: unset it'):
        driver.initialise()


def test_a_broken_driver_is_an_error_and_not_an_empty_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, 999)
    with pytest.raises(DriverError, match=r"cuInit: CUDA_ERROR_UNKNOWN \(999\); .*Xid"):
        driver.initialise()


def test_modules_load_eagerly(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, 0, count=2)
    assert driver.initialise() == 2
    assert os.environ["CUDA_MODULE_LOADING"] == "EAGER"


@pytest.mark.parametrize(
    "environment",
    [
        {"CUDA_LAUNCH_BLOCKING": "1"},
        {"CUDA_INJECTION64_PATH": "/opt/nsys/libToolsInjection64.so"},
        {"NV_COMPUTE_PROFILER_PERFWORKS_DIR": "/opt/ncu"},
    ],
)
def test_serialised_launches_are_refused(environment: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(environment))):
        driver.refuse_serialised_launches(environment)


def test_other_variables_are_not_refused() -> None:
    driver.refuse_serialised_launches({"CUDA_LAUNCH_BLOCKING": "0", "NVTX_INJECTION64_PATH": "x", "NCCL_DEBUG": "INFO"})


def test_attempt_unpacks_values() -> None:
    assert driver.attempt(lambda: (0,)) == (0, None)
    assert driver.attempt(lambda: (0, 5)) == (0, 5)
    assert driver.attempt(lambda: (0, 5, 6)) == (0, (5, 6))


def test_a_failed_call_is_named() -> None:
    def cu_something(argument: int) -> tuple[int, None]:
        return (700, None)

    with pytest.raises(DriverError, match=r"cu_something: CUDA_ERROR_ILLEGAL_ADDRESS \(700\); a kernel accessed"):
        driver.call(cu_something, 1)


def test_a_code_newer_than_the_bindings() -> None:
    assert str(driver.failure("cuX", 123456)) == "cuX: CUDA_ERROR (123456)"
