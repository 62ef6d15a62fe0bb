"""The parts of the NCCL contender that need no NCCL: versions, what is missing, and what its log says."""

import ctypes
from pathlib import Path
from typing import Any

import pytest

from pcietool.contenders import catalog, wheels
from pcietool.contenders.nccl_library import Nccl, version_text
from pcietool.contenders.nccl_log import CONNECTIONS, choices, debug_settings, read_logs, transports
from pcietool.contenders.nccl_lsa import check_same_version, headers_of
from pcietool.contenders.player import AbsentError
from pcietool.data import contender_source

LOG = """
node:1:2 [0] NCCL INFO Channel 00/24 : 0[0] -> 1[1] via P2P/CUMEM
node:1:2 [0] NCCL INFO Channel 01/24 : 0[0] -> 1[1] via P2P/CUMEM
node:1:2 [1] NCCL INFO Channel 00 : 1[1] -> 0[0] via SHM/direct/direct
node:1:2 [0] NCCL INFO AllReduce: 4 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}
node:1:2 [0] NCCL INFO AllReduce [Symmetric]: 1024 Bytes -> Kernel AllReduce_AGxLL_R nchannels 1 nthreads 512 nWorks 1
"""


class FakeFunction:
    """A C function: settable types, and a call that stores `value` where its argument points."""

    def __init__(self, value: int | None = None, result: Any = 0) -> None:
        self._value, self._result = value, result

    def __call__(self, *arguments: Any) -> Any:
        if self._value is not None:
            arguments[0]._obj.value = self._value
        return self._result


class FakeLibrary:
    def __init__(self, code: int, **functions: Any) -> None:
        self.ncclGetVersion = FakeFunction(code)
        self.ncclGetErrorString = lambda result: b"unhandled cuda error"
        self.ncclGetLastError = FakeFunction(result=b"no peer access")
        vars(self).update(functions)


def test_versions_are_read_as_nccl_writes_them() -> None:
    assert [version_text(code) for code in (22809, 2708, 21005)] == ["2.28.9", "2.7.8", "2.10.5"]


def test_the_right_major_is_taken_and_another_is_not() -> None:
    assert Nccl(FakeLibrary(22809), "libnccl.so.2").version == "2.28.9"
    with pytest.raises(AbsentError, match=r"is NCCL 3\.1\.0, and this speaks major 2: pip install"):
        Nccl(FakeLibrary(30100), "libnccl.so.3")


def test_a_function_that_an_old_version_lacks_makes_it_absent() -> None:
    with pytest.raises(AbsentError, match=r"NCCL 2\.10\.5 has no ncclMemAlloc"):
        Nccl(FakeLibrary(21005), "libnccl.so.2").alloc(4)


def test_a_failed_call_says_what_nccl_says() -> None:
    nccl = Nccl(FakeLibrary(22809, ncclMemAlloc=FakeFunction(result=1)), "libnccl.so.2")
    with pytest.raises(RuntimeError, match="ncclMemAlloc: unhandled cuda error; no peer access"):
        nccl.alloc(4)


def test_without_nccl_the_reason_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, mode: int = 0) -> None:
        raise OSError(f"{path}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    with pytest.raises(AbsentError, match=r"no NCCL on this machine .*pip install 'pcietool\[nccl\]'"):
        Nccl.load()


def test_the_log_tells_transports_and_choices() -> None:
    assert transports(LOG) == ["P2P/CUMEM", "SHM/direct/direct"]
    assert choices(LOG) == {"4": "RING LL", "1024": "symmetric AllReduce_AGxLL_R"}
    assert transports("nothing") == []


def test_debug_settings_of_the_user_are_kept(tmp_path: Path) -> None:
    assert debug_settings(tmp_path, CONNECTIONS, {"NCCL_DEBUG": "WARN"}) == {}
    settings = debug_settings(tmp_path, CONNECTIONS, {"NCCL_ALGO": "Ring"})
    assert "TUNING" not in settings["NCCL_DEBUG_SUBSYS"], "a line a call would slow what is timed"
    assert "kept" in read_logs({"NCCL_DEBUG": "WARN"})["log_reason"]
    assert "wrote no" in read_logs(settings)["log_reason"]
    (tmp_path / "log").write_text(LOG)
    assert read_logs({"NCCL_DEBUG_FILE": str(tmp_path / "log")})["transports"] == ["P2P/CUMEM", "SHM/direct/direct"]


def test_a_setting_of_the_user_that_contradicts_a_contender_waives_it() -> None:
    host = catalog.CONTENDERS["nccl-host"]
    assert host.contradicted({}) is None
    assert host.contradicted({"NCCL_P2P_DISABLE": "1"}) is None
    assert host.contradicted({"NCCL_P2P_DISABLE": "0"}) == (
        "it needs NCCL_P2P_DISABLE=1, but NCCL_P2P_DISABLE=0 is set and kept"
    )


def test_headers_must_be_those_of_the_library(tmp_path: Path) -> None:
    include = tmp_path / "include"
    include.mkdir()
    (tmp_path / "lib").mkdir()
    library = tmp_path / "lib" / "libnccl.so.2"
    (include / "nccl.h").write_text("#define NCCL_MAJOR 2\n#define NCCL_VERSION_CODE 22809\n")
    if not Path("/usr/include/nccl_device.h").exists():
        with pytest.raises(AbsentError, match=r"no nccl_device\.h beside"):
            headers_of(library)
    (include / "nccl_device.h").touch()
    assert headers_of(library) == include
    check_same_version(include, 22809)
    with pytest.raises(AbsentError, match=r"of NCCL 2\.28\.9, the library is 2\.29\.1"):
        check_same_version(include, 22901)


def test_without_nvcc_the_reason_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AbsentError, match="no nvcc on PATH"):
        wheels.build("nccl_lsa.cu", tmp_path / "x.so", (9, 0), [])
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("#!/bin/sh\necho 'nccl_lsa.cu(4): error: no such header' >&2\nexit 1\n")
    nvcc.chmod(0o755)
    with pytest.raises(AbsentError, match=r"nvcc refused nccl_lsa\.cu: .*no such header"):
        wheels.build("nccl_lsa.cu", tmp_path / "x.so", (9, 0), [])


def test_the_sources_of_contenders_ship() -> None:
    for name in ("nccl_lsa.cu", "nvshmem_barrier.cu"):
        assert contender_source(name).is_file()
