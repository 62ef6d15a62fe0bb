"""An observer that remembers what it is told."""

from dataclasses import dataclass, field

from pcietool.contract.results import ProbeResult


@dataclass
class Listener:
    lines: list[str] = field(default_factory=list)
    begun: list[ProbeResult] = field(default_factory=list)
    results: list[ProbeResult] = field(default_factory=list)

    def progress(self, text: str) -> None:
        self.lines.append(text)

    def begin(self, result: ProbeResult) -> None:
        self.begun.append(result)

    def result(self, result: ProbeResult) -> None:
        self.results.append(result)
