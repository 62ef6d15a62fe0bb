"""Says which recordings in results/ other kernels than these made: `python -m scripts.recordings [libnvrtc.so]`.

A recording is stale if a kernel that it loaded is other code today (docs/results.md says how that is known). Stale
recordings are no error: they are recorded again before a release, and until then this says so. Exits 0.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pcietool.compiler import compile_source, nvrtc_info, source_sha256
from pcietool.data import configs_dir, kernel_headers, kernel_source
from pcietool.errors import CompileError, ConfigError
from pcietool.litmus.text.cuda_source import cuda_source
from pcietool.litmus.text.library import load
from pcietool.litmus.text.parse import parse_litmus
from pcietool.probes.litmus.trials import CONTROL
from pcietool.probes.litmus.vectors import vectors_test
from scripts.ptx_forms import use_nvrtc

ROOT = Path(__file__).resolve().parent.parent


def why_stale(tool: Mapping[str, Any]) -> str | None:
    """Why a recording whose `tool` this is says nothing about the kernels of today; None if it does."""
    kernels = tool["kernels_sha256"]
    if not isinstance(kernels, Mapping):
        return "one hash stands for the text of all kernels there"
    recorded_with = tool["nvrtc"]["version"]
    reasons = (_why_other(name, known, recorded_with) for name, known in kernels.items())
    return next((reason for reason in reasons if reason), None)


def _why_other(name: str, known: Mapping[str, Any], recorded_with: str) -> str | None:
    texts = sources(name)
    if not texts:
        return f"there is no {name} any more"
    if known["source"] in (source_sha256(text, kernel_headers()) for text in texts):
        return None
    if recorded_with != ".".join(map(str, nvrtc_info().version)):
        return f"{name} reads otherwise; whether it is other code, only NVRTC {recorded_with} tells"
    for form, digest in known["ptx"].items():
        if digest not in (ptx_sha256(name, text, form) for text in texts):
            return f"{name} is other code, as {form}"
    return None


@cache
def sources(name: str) -> tuple[str, ...]:
    """What a run compiles by that name: a kernel, or a litmus test; the latter's control has two forms."""
    if name == "overlap.litmus":
        return tuple(cuda_source(parse_litmus(CONTROL.format(cta=n, gpu=1 - n))) for n in (0, 1))
    if name == "vectors.litmus":
        return tuple(cuda_source(vectors_test(*gpus)) for gpus in ((0, 1), (1, 0)))
    test = configs_dir() / "litmus" / name
    if test.is_file():
        return (cuda_source(load(test)),)
    try:
        return (kernel_source(name),)
    except ConfigError:
        return ()


@cache
def ptx_sha256(name: str, text: str, form: str) -> str | None:
    """Of its PTX in one form, such as "sm_90 ORDER=1 THREADS=32"; None if it does not compile so."""
    architecture, *pairs = form.split()
    defines = {key: int(value) for key, _, value in (pair.partition("=") for pair in pairs)}
    try:
        return compile_source(text, name=name, architecture=architecture, defines=defines).ptx_sha256
    except CompileError:
        return None


def main() -> None:
    if sys.argv[1:]:
        use_nvrtc(Path(sys.argv[1]))
    paths = sorted((ROOT / "results").glob("*/*.json"))
    stale: dict[str, list[str]] = {}
    for path in paths:
        if reason := why_stale(json.loads(path.read_text(encoding="utf-8"))["tool"]):
            stale.setdefault(reason, []).append(str(path.relative_to(ROOT)))
    for reason, names in stale.items():
        print(f"stale, since {reason}: {', '.join(names)}")
    print(f"recordings: {sum(map(len, stale.values()))} of {len(paths)} stale")


if __name__ == "__main__":
    main()
