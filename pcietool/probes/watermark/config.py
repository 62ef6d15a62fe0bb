"""What watermark is asked to push. Must not touch a machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pcietool.contract.config import Config, Option
from pcietool.errors import UsageError
from pcietool.probes.common.injections import checked
from pcietool.probes.common.options import Inject, Seed, TimeoutSeconds, WantedTransport
from pcietool.protocol.chunks import LARGEST_COUNT, parse_counts
from pcietool.units import parse_size

Pattern = Literal["one-to-one", "many-to-one", "all-to-all"]
Path = Literal["vector", "bulk", "engine"]
Dtype = Literal["bf16", "fp16", "fp8", "fp32"]
DTYPE_BYTES: dict[Dtype, int] = {"bf16": 2, "fp16": 2, "fp8": 1, "fp32": 4}
_ROWS = "Rows"
_KERNEL = "Kernel"


@dataclass(frozen=True, kw_only=True)
class WatermarkConfig(Config):
    """What to push. None means the machine's usual; `chunks` and `sms` are lists such as "1,8,all"."""

    transport: WantedTransport = None
    pattern: Annotated[Pattern, Option("Who pushes to whom.")] = "one-to-one"
    iterations: Annotated[
        int | None,
        Option(
            "Launches that are measured. Default: 9 on GPUs, 2 emulated.",
            name="--iters",
            short="-n",
            min=1,
            ceiling=100_000,
        ),
    ] = None
    warmup: Annotated[
        int | None,
        Option("Launches before that. Default: 2 on GPUs, 0 emulated.", short="-w", min=0, ceiling=100_000),
    ] = None
    rows: Annotated[int | None, Option("Rows of a stream. Default: 8192 on GPUs, 128 emulated.", group=_ROWS)] = None
    columns: Annotated[
        int | None,
        Option("Elements of a row. Default: 7168 on GPUs, 128 emulated.", group=_ROWS, min=1, ceiling=LARGEST_COUNT),
    ] = None
    dtype: Annotated[Dtype, Option("Of an element.", group=_ROWS)] = "bf16"
    row_bytes: Annotated[
        int | None,
        Option(
            "Instead of --columns: a multiple of 16, such as 14K.",
            metavar="SIZE",
            parse=parse_size,
            group=_ROWS,
            min=1,
            ceiling=LARGEST_COUNT,
        ),
    ] = None
    chunks: Annotated[
        str | None,
        Option(
            "Rows of a chunk, or all. Default: 1,8,16,64,256,all; 64 is the article's choice.",
            metavar="ROWS,...",
            first=True,
        ),
    ] = None
    sms: Annotated[
        str | None,
        Option(
            "SMs that push, one block each, or all. Default: 4,8,16,32,64,all on GPUs, 4 emulated.",
            metavar="N,...",
            first=True,
        ),
    ] = None
    paths: Annotated[
        tuple[Path, ...] | None,
        Option(
            "How rows are stored: by 16-byte stores (vector), TMA (bulk, sm_90 or newer), or the copy engine with"
            " stream writes as signals (engine); can be repeated. Default: all on GPUs, vector and engine emulated.",
            name="--path",
            group=_KERNEL,
        ),
    ] = None
    piece_rows: Annotated[
        int | None,
        Option(
            "Rows that a group copies before its fence. Default: by size and SMs.",
            name="--piece",
            group=_KERNEL,
            min=1,
            ceiling=LARGEST_COUNT,
        ),
    ] = None
    threads: Annotated[
        int | None,
        Option(
            "Threads a block. Default: 1024 on GPUs, 128 emulated.", group=_KERNEL, min=32, max=1024, multiple_of=32
        ),
    ] = None
    groups: Annotated[int, Option("Groups of a block, each copying its own piece.", group=_KERNEL, min=1, max=15)] = 4
    timeout_s: TimeoutSeconds = 2.0
    seed: Seed = 0
    inject: Inject = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rows is not None and not 1 <= self.rows <= LARGEST_COUNT:
            raise UsageError(f"--rows {self.rows}: give a number from 1 to {LARGEST_COUNT}")
        checked(self.inject, ("drop-chunk=NUMBER",))
        for option, text in (("--chunks", self.chunks), ("--sms", self.sms)):
            if text is not None:
                parse_counts(option, text)
        if self.row_bytes is not None:
            self._refuse_idle(("columns", "dtype"), f"--row-bytes {self.row_bytes} says how long a row is")
        if self.paths == ("engine",):
            self._refuse_idle(("sms", "piece_rows"), "--path engine copies without SMs")
