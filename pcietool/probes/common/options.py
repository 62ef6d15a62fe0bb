"""The options that several probes share, and what they may be. Light, as every config is: `--help` shows them."""

from __future__ import annotations

from typing import Annotated, Literal

from pcietool.contract.config import Limits, Option

Transport = Literal["peer", "host", "self"]
TRANSPORTS: tuple[Transport, ...] = ("peer", "host", "self")

WantedTransport = Annotated[
    str | None,
    Option(
        "Where slots and data lie: in the other GPU's memory (peer), in pinned host memory (host), or both roles"
        " on one GPU (self); or several, such as peer,host. Default: peer and host; self on one GPU.",
        choices=(*TRANSPORTS, "all"),
        several=True,
        first=True,
    ),
]
"""One that is named must run; of `all`, and where none is named, what cannot run is waived."""
Inject = Annotated[str | None, Option("A failure to show; an unknown one lists those that there are.", hidden=True)]
TimeoutSeconds = Annotated[float, Limits(above=0)]
Seed = Annotated[int, Limits(min=0)]

MAX_ROUNDS = 8192
"""Time stamps of one launch wait in shared memory, 4 bytes a round, below the 48 KiB every GPU gives."""
