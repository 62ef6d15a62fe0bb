"""Where one run's result goes: planned and checked before measuring, written after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pcietool.cli.options import STDOUT, Common
from pcietool.contract.results import ProbeResult
from pcietool.errors import UsageError
from pcietool.report import files
from pcietool.report.junit import junit_text
from pcietool.report.result import Document, raw_samples, tidy_rows
from pcietool.report.sarif import sarif_text

if TYPE_CHECKING:
    from pcietool.emulator.engine.trace import EventTrace


Render = Callable[[Document, Sequence[ProbeResult]], str]


@dataclass(frozen=True)
class Outputs:
    """The files of one run by their kind; `json_on_stdout` if the document is what stdout carries."""

    json: tuple[Path, ...]
    csv: tuple[Path, ...]
    npz: tuple[Path, ...]
    texts: tuple[tuple[Path, Render], ...]
    trace: tuple[Path, ...]
    json_on_stdout: bool
    overwrite: bool

    @classmethod
    def plan(cls, common: Common, command: str) -> Outputs:
        """Raises UsageError or OutputError for what could not be written later. Makes the directory of `--out`."""
        named = [common.out / command] if common.out else []
        json = [path.with_suffix(".json") for path in named]
        if common.json and common.json != STDOUT:
            json.append(common.json)
        csv = [path.with_suffix(".csv") for path in named] + ([common.csv] if common.csv else [])
        npz = [path.with_suffix(".npz") for path in json] if common.raw else []
        if common.out:
            files.ensure_directory(common.out)
        trace = (common.trace,) if common.trace else ()
        asked = (common.junit, junit_text), (common.sarif, sarif_text)
        texts = tuple((path, render) for path, render in asked if path)
        outputs = cls(tuple(json), tuple(csv), tuple(npz), texts, trace, common.json == STDOUT, common.overwrite)
        outputs._check()
        return outputs

    @property
    def paths(self) -> tuple[Path, ...]:
        return self.json + self.csv + self.npz + tuple(path for path, _ in self.texts) + self.trace

    def write(self, document: Document, results: Sequence[ProbeResult], wrote: Callable[[str], None]) -> None:
        """Writes every file and says so. Raises OutputError."""
        for path in self.json:
            files.write_json(document, path, self.overwrite)
            wrote(f"wrote {path}")
        for path in self.csv:
            files.write_csv(tidy_rows(document, results), path, self.overwrite)
            wrote(f"wrote {path}")
        for path in self.npz:
            files.write_npz(raw_samples(results), path, self.overwrite)
            wrote(f"wrote {path}")
        for path, render in self.texts:
            files.write_text([render(document, results)], path, self.overwrite)
            wrote(f"wrote {path}")

    def write_trace(self, trace: EventTrace, document: Document, wrote: Callable[[str], None]) -> None:
        """The memory events of the run that gave `document`. Raises OutputError."""
        from pcietool.report.trace import trace_lines

        run = {
            "command": document["probes"][0]["name"],
            "version": document["tool"]["version"],
            "backend": document["backend"],
            "config": document["config"],
        }
        for path in self.trace:
            files.write_text(trace_lines(trace, run), path, self.overwrite)
            wrote(f"wrote {path}; https://ui.perfetto.dev opens it")
            if trace.left_out:
                wrote(
                    f"{path} ends after the first {trace.limit:,} events, {trace.left_out:,} are missing: measure less,"
                    " with --transport, -g or --iters"
                )

    def _check(self) -> None:
        for path in self.paths:
            files.ensure_writable(path, self.overwrite)
        by_file: dict[Path, Path] = {}
        for path in self.paths:
            other = by_file.setdefault(path.resolve(), path)
            if other is not path:
                raise UsageError(f"two outputs have the same name, {other} and {path}; give each its own")
