"""The few functions of libnccl that are needed here, by ctypes.

Not nccl4py: it asks for a newer NCCL than the one installed with torch, and the NCCL to compare with is the one that
people run. So any libnccl of major 2 will do: the `nccl` extra's, torch's (both put it in the same folder), or the
system's. Must not measure.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_size_t, c_void_p
from pathlib import Path
from typing import Any

from pcietool.contenders.player import AbsentError
from pcietool.contenders.wheels import folders_of

INSTALL = "pip install 'pcietool[nccl]'"
SONAME = "libnccl.so.2"
MAJOR = 2
FLOAT32 = 7
SUM = 0
COLLECTIVE_SYMMETRIC = 1


class UniqueId(ctypes.Structure):
    """ncclUniqueId: what one process gives to all others."""

    _fields_ = (("internal", c_char * 128),)


PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "ncclGetVersion": (POINTER(c_int),),
    "ncclGetUniqueId": (POINTER(UniqueId),),
    "ncclCommInitAll": (POINTER(c_void_p), c_int, POINTER(c_int)),
    "ncclCommInitRank": (POINTER(c_void_p), c_int, UniqueId, c_int),
    "ncclGroupStart": (),
    "ncclGroupEnd": (),
    "ncclAllReduce": (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p),
    "ncclMemAlloc": (POINTER(c_void_p), c_size_t),
    "ncclCommWindowRegister": (c_void_p, c_void_p, c_size_t, POINTER(c_void_p), c_int),
}


def version_text(code: int) -> str:
    """22809 -> "2.28.9"; up to 2.8 the minor number had one digit."""
    thousand = 10000 if code >= 10000 else 1000
    return f"{code // thousand}.{code % thousand // 100}.{code % 100}"


def find_library() -> tuple[Any, str]:
    """(the loaded library, where it came from). Raises AbsentError."""
    wheels = [str(folder / "lib" / SONAME) for folder in folders_of("nccl")]
    problems = []
    for candidate in (*(path for path in wheels if Path(path).is_file()), SONAME):
        try:
            return ctypes.CDLL(candidate, ctypes.RTLD_GLOBAL), candidate
        except OSError as error:
            problems.append(str(error))
    raise AbsentError(f"there is no NCCL on this machine ({problems[-1]}): {INSTALL}")


class Nccl:
    """One libnccl. Raises AbsentError if it is of another major or lacks a function; calls raise RuntimeError."""

    def __init__(self, library: Any, path: str) -> None:
        self.path = path
        self._library = library
        self._functions: dict[str, Callable[..., int]] = {}
        code = c_int()
        self._call("ncclGetVersion", byref(code))
        self.code = int(code.value)
        self.version = version_text(self.code)
        if self.version.split(".")[0] != str(MAJOR):
            raise AbsentError(f"{path} is NCCL {self.version}, and this speaks major {MAJOR}: {INSTALL}")

    @classmethod
    def load(cls) -> Nccl:
        return cls(*find_library())

    def unique_id(self) -> bytes:
        identity = UniqueId()
        self._call("ncclGetUniqueId", byref(identity))
        return bytes(identity)

    def init_all(self, devices: Sequence[int]) -> list[int]:
        """One communicator a device, all of this process."""
        comms = (c_void_p * len(devices))()
        self._call("ncclCommInitAll", comms, len(devices), (c_int * len(devices))(*devices))
        return [int(comm or 0) for comm in comms]

    def init_rank(self, ranks: int, identity: bytes, rank: int) -> int:
        """The communicator of this process's one rank, on the current device; waits for the other ranks."""
        comm = c_void_p()
        self._call("ncclCommInitRank", byref(comm), ranks, UniqueId.from_buffer_copy(identity), rank)
        return int(comm.value or 0)

    def all_reduce(self, sends: Sequence[int], receives: Sequence[int], count: int, comms: Sequence[int],
                   streams: Sequence[int]) -> None:  # fmt: skip
        """Enqueues the sum of `count` float32, on all ranks of this process as one group."""
        call = self._call
        call("ncclGroupStart")
        for send, receive, comm, stream in zip(sends, receives, comms, streams, strict=True):
            call("ncclAllReduce", send, receive, count, FLOAT32, SUM, comm, stream)
        call("ncclGroupEnd")

    def alloc(self, nbytes: int) -> int:
        """Memory on the current device that can be registered as a window."""
        address = c_void_p()
        self._call("ncclMemAlloc", byref(address), nbytes)
        return int(address.value or 0)

    def register_symmetric(self, comms: Sequence[int], addresses: Sequence[int], nbytes: int,
                           enter: Sequence[Callable[[], None]]) -> None:  # fmt: skip
        """Makes memory a window for symmetric kernels; collective, so one thread a rank, each first calls `enter`."""

        def register(index: int) -> None:
            enter[index]()
            window = c_void_p()
            self._call(
                "ncclCommWindowRegister", comms[index], addresses[index], nbytes, byref(window), COLLECTIVE_SYMMETRIC
            )
            if not window.value:
                raise AbsentError(
                    f"NCCL {self.version} gave no symmetric window here: the GPUs lack peer access or cuMem is off"
                )

        with ThreadPoolExecutor(len(comms)) as threads:
            list(threads.map(register, range(len(comms))))

    def _call(self, name: str, *arguments: Any) -> None:
        function = self._functions.get(name) or self._bind(name)
        result = function(*arguments)
        if result:
            raise RuntimeError(f"{name}: {self._explain(result)}")

    def _bind(self, name: str) -> Callable[..., int]:
        try:
            function = getattr(self._library, name)
        except AttributeError:
            known = f"NCCL {self.version}" if hasattr(self, "version") else "this library"
            raise AbsentError(f"{self.path}: {known} has no {name}: {INSTALL}") from None
        function.argtypes = PROTOTYPES[name]
        function.restype = c_int
        self._functions[name] = function
        return function  # type: ignore[no-any-return]

    def _explain(self, result: int) -> str:
        explain, last = self._library.ncclGetErrorString, self._library.ncclGetLastError
        explain.restype = last.restype = c_char_p
        last.argtypes = (c_void_p,)
        parts = (explain(result), last(None))
        return "; ".join(part.decode(errors="replace") for part in parts if part) or f"result {result}"
