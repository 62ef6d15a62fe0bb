"""Stands for the module `time` where a test must not depend on the machine's clock."""

from dataclasses import dataclass


@dataclass
class Clock:
    """Goes on by `step_s` at each look, and by what is slept."""

    step_s: float
    now_s: float = 0.0

    def monotonic(self) -> float:
        self.now_s += self.step_s
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
