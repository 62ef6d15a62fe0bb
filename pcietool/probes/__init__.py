"""One room a question. A probe is its config and a function `run(machine, config, observer)`; neither is imported
before somebody asks for it, so that `--help` can read a config alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

from pcietool.contract.config import Config

Run = Callable[..., Any]


class _Probes(Mapping[str, tuple[Any, Run]]):
    """(config, run) by the probe's name, from "module:config" and "module:run" in this package."""

    def __init__(self, places: Mapping[str, tuple[str, str]]) -> None:
        self._places = places

    def __getitem__(self, name: str) -> tuple[Any, Run]:
        return self.config(name), _named(self._places[name][1])

    def config(self, name: str) -> type[Config]:
        """Alone, without the probe."""
        config: type[Config] = _named(self._places[name][0])
        return config

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places


def _named(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(f"{__name__}.{module}"), attribute)


PROBES = _Probes(
    {
        "signal-latency": ("signal.config:SignalConfig", "signal.probe:run"),
        "barrier-latency": ("barrier.config:BarrierConfig", "barrier.probe:run"),
        "atomic-loss": ("atomics.config:AtomicsConfig", "atomics.probe:run"),
        "watermark": ("watermark.config:WatermarkConfig", "watermark.probe:run"),
        "compare-nccl": ("compare.config:CompareConfig", "compare.probe:run"),
        "verify": ("verify.config:VerifyConfig", "verify.probe:run"),
        "check": ("check.config:CheckConfig", "check.probe:run"),
        "litmus": ("litmus.config:TrialsConfig", "litmus.trials:run"),
    }
)
