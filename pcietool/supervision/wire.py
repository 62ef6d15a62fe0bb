"""What parent and child process say to each other: one JSON request, then one JSON event a line.

Must not know processes, nor what a probe measures.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from pcietool import errors
from pcietool.contract.results import ProbeResult, Status
from pcietool.machines.base import Backend


@dataclass(frozen=True)
class Request:
    """Which probe to run, with which config, on which machine."""

    registry: str
    """module:attribute of {probe: (config model, function)}."""
    probe: str
    config: dict[str, Any]
    """The fields of the probe's config."""
    backend: Backend
    gpus: tuple[str, ...] | None = None
    num_gpus: int | None = None
    fabric: str | None = None
    seed: int = 0

    @classmethod
    def from_json(cls, text: str) -> Request:
        fields = json.loads(text)
        return cls(**fields | {"gpus": None if fields["gpus"] is None else tuple(fields["gpus"])})

    def load_probe(self) -> tuple[Any, Any]:
        """(config model, function) from the registry."""
        module, _, attribute = self.registry.partition(":")
        model, function = getattr(import_module(module), attribute)[self.probe]
        return model, function


def to_line(event: str, **fields: Any) -> bytes:
    return json.dumps({"event": event, **fields}, default=_plain).encode() + b"\n"


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a result holds a {type(value).__name__}, which is no JSON value")


def result_to_fields(result: ProbeResult) -> dict[str, Any]:
    """Exact: raw samples travel as their bytes."""
    arrays = {name: np.asarray(values) for name, values in result.samples.items()}
    samples = {
        name: {"dtype": array.dtype.str, "shape": array.shape, "bytes": base64.b64encode(array.tobytes()).decode()}
        for name, array in arrays.items()
    }
    # Shallow: asdict would copy the samples.
    return {**vars(result), "samples": samples}


def result_from_fields(fields: dict[str, Any]) -> ProbeResult:
    samples = {
        name: np.frombuffer(base64.b64decode(one["bytes"]), one["dtype"]).reshape(one["shape"])
        for name, one in fields["samples"].items()
    }
    return ProbeResult(**{**fields, "status": Status(fields["status"]), "samples": samples})


def error_to_fields(error: Exception) -> dict[str, Any]:
    """Ours keep their class; anything else is the tool's fault, and says where it happened."""
    if isinstance(error, errors.PcietoolError):
        # A subclass that errors.py does not have travels as the first base that it has.
        known = next(base for base in type(error).__mro__ if getattr(errors, base.__name__, None) is base)
        return {"kind": known.__name__, "message": str(error)}
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""
    return {"kind": "PcietoolError", "message": f"{type(error).__name__}: {error}{where}; please report this"}


def error_from_fields(fields: dict[str, Any]) -> errors.PcietoolError:
    kind: type[errors.PcietoolError] = getattr(errors, fields["kind"])
    return kind(fields["message"])
