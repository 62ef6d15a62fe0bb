"""Each ordering that a kernel asks for, weakened by one step: what "is it needed?" is asked of.

Of PTX, so that the compiler has no say: what it would do with a weaker line of CUDA is another question. Must not run
anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pcietool.check.changing.edits import Edit, Site, sites
from pcietool.check.changing.widths import parts_of
from pcietool.ptx.model import Module

SCOPES = ("cta", "cluster", "gpu", "sys")
SCOPE_NAMES = {"cta": "block", "cluster": "cluster", "gpu": "GPU", "sys": "system"}
_NARROWER = {"sys": "gpu", "gpu": "cta", "cluster": "cta"}
_BLOCK_BARRIERS = ("bar.sync", "barrier.sync", "bar.cta.sync", "barrier.cta.sync")
_WEAKER = {"acq_rel": ("acquire", "release"), "acquire": ("relaxed",), "release": ("relaxed",)}
MEMBARS = {"membar.gl": "gpu", "membar.sys": "sys", "membar.cta": "cta"}


def weakenings(module: Module) -> list[Edit]:
    """In order of the text. Each leaves a kernel that is well-formed PTX, and weaker by one step."""
    return [edit for site in sites(module) for edit in _of(site)]


def _of(site: Site) -> Iterator[Edit]:
    instruction = site.instruction
    form = instruction.form
    if instruction.opcode in ("fence", "membar"):
        yield from _of_fence(site)
    elif form.startswith(_BLOCK_BARRIERS):
        yield Edit(site, "without the block barrier", form="")
    elif form.startswith("bar.warp.sync"):
        yield Edit(site, "without the warp barrier", form="")
    elif form.startswith("griddepcontrol.wait"):
        yield Edit(site, "without the wait for the launch before", form="")
    elif instruction.opcode in ("ld", "st", "atom", "red"):
        yield from _of_access(site)
    elif form.startswith("cp.async.bulk.wait_group") and not instruction.has("read"):
        yield _with(site, (*instruction.modifiers, "read"), "waits until the copies have read, not until they are done")


def _of_fence(site: Site) -> Iterator[Edit]:
    instruction = site.instruction
    if instruction.has("proxy"):
        yield Edit(site, "without the proxy fence", form="")
        return
    yield Edit(site, "without the fence", form="")
    scope = MEMBARS.get(instruction.form) or next((one for one in SCOPES if instruction.has(one)), "")
    strong = instruction.has("sc") or instruction.opcode == "membar"
    if scope in _NARROWER and not instruction.has("acquire", "release"):
        narrower = _NARROWER[scope]
        yield Edit(site, _scopes(scope, narrower), form=f"fence.{'sc' if strong else 'acq_rel'}.{narrower}")
    if instruction.has("sc"):
        yield Edit(site, "sc -> acq_rel", form=f"fence.acq_rel.{scope}")


def _of_access(site: Site) -> Iterator[Edit]:
    instruction = site.instruction
    modifiers = instruction.modifiers
    if instruction.has("param", "local", "const", "mmio"):
        return
    for order, weaker in _WEAKER.items():
        if order in modifiers:
            for one in weaker:
                yield _with(site, swapped(modifiers, order, one), f"{order} -> {one}")
    if "volatile" in modifiers:
        yield _with(site, [one for one in modifiers if one != "volatile"], "volatile -> plain")
    elif "relaxed" in modifiers and instruction.opcode in ("ld", "st"):
        yield _with(site, [one for one in modifiers if one not in ("relaxed", *SCOPES)], "relaxed -> plain")
    for scope, narrower in _NARROWER.items():
        if scope in modifiers:
            yield _with(site, swapped(modifiers, scope, narrower), _scopes(scope, narrower))
    if {"relaxed", "acquire", "release", "volatile"}.intersection(modifiers) and (number := parts_of(instruction)):
        yield Edit(site, f"in {number} accesses, not one", in_parts=True)


def _scopes(scope: str, other: str) -> str:
    return f"{SCOPE_NAMES[scope]} scope -> {SCOPE_NAMES[other]} scope"


def swapped(modifiers: Sequence[str], old: str, new: str) -> list[str]:
    return [new if one == old else one for one in modifiers]


def _with(site: Site, modifiers: Sequence[str], about: str) -> Edit:
    """The site's instruction with other modifiers."""
    return Edit(site, about, form=".".join((site.instruction.opcode, *modifiers)))
