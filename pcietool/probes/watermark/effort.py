"""What watermark's config means on one machine: sizes, SM counts, repeats.

Must not touch memory or launch anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from pcietool.errors import UsageError
from pcietool.machines.base import Machine
from pcietool.probes.common.effort import effort_for
from pcietool.probes.watermark.config import DTYPE_BYTES, Path, WatermarkConfig
from pcietool.probes.watermark.streams import Shape
from pcietool.protocol.chunks import Count, parse_counts

DEFAULT_CHUNKS: tuple[Count, ...] = (1, 8, 16, 64, 256, "all")


@dataclass(frozen=True)
class Effort:
    """How much is pushed how often: on a GPU what fills a link."""

    shape: Shape
    usual_sms: tuple[Count, ...]
    paths: tuple[Path, ...]
    repeats: int
    warmup: int

    @classmethod
    def of(cls, machine: Machine, config: WatermarkConfig) -> Effort:
        """Raises UsageError for rows that cannot be pushed."""
        on_gpus = machine.backend == "cuda"
        columns = config.columns or (7168 if on_gpus else 128)
        fewest_sms = min(device.sms for device in machine.devices)
        shape = Shape(
            rows=config.rows or (8192 if on_gpus else 128),
            row_bytes=config.row_bytes or columns * DTYPE_BYTES[config.dtype],
            threads=config.threads or (1024 if on_gpus else 128),
            groups=config.groups,
            consumer_blocks=max(1, fewest_sms // 4) if on_gpus else 2,
        )
        return effort_for(
            machine,
            cuda=cls(shape, (4, 8, 16, 32, 64, "all"), ("vector", "bulk", "engine"), repeats=9, warmup=2),
            emulated=cls(shape, (4,), ("vector", "engine"), repeats=2, warmup=0),
            paths=config.paths or None,
            repeats=config.iterations,
            warmup=config.warmup,
        )


def chunk_sizes(config: WatermarkConfig, rows: int) -> list[int]:
    """Rows of a chunk, each size once. Of the usual ones, those that fit. Raises UsageError for one that does not."""
    asked = parse_counts("--chunks", config.chunks) if config.chunks is not None else None
    for chunk in asked or ():
        if chunk != "all" and chunk > rows:
            raise UsageError(f"--chunks {chunk}: a chunk cannot have more rows than there are, {rows}; see --rows")
    sizes = [rows if chunk == "all" else chunk for chunk in asked or DEFAULT_CHUNKS]
    return list(dict.fromkeys(size for size in sizes if size <= rows))


def sm_counts(config: WatermarkConfig, effort: Effort, most: int, machine: Machine) -> list[int]:
    """Producing blocks of a rank, one a SM. Of the usual counts, those that fit. Raises UsageError for one that does
    not."""
    asked = parse_counts("--sms", config.sms) if config.sms is not None else None
    fewest = min(device.sms for device in machine.devices)
    for sms in asked or ():
        if sms != "all" and sms > most:
            shared = "" if most == fewest else f", of which {most} are left for the producers of a rank here"
            raise UsageError(f"--sms {sms}: a GPU has {fewest} SMs{shared}")
    if most < 1:
        raise UsageError(f"a GPU of {fewest} SMs has no room for producers beside its consumers")
    counts = [most if count == "all" else count for count in asked or effort.usual_sms]
    return list(dict.fromkeys(min(count, most) for count in counts))
