"""Where pip put what NVIDIA's packages bring. Must not load anything of it."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def nvidia_folders() -> list[Path]:
    """Folders such as site-packages/nvidia, which all of these packages share."""
    spec = importlib.util.find_spec("nvidia")
    return [Path(root) for root in (spec.submodule_search_locations if spec else None) or ()]
