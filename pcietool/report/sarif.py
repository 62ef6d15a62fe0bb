"""Findings with a place in a source as SARIF 2.1.0, which code hosts show beside the lines of a pull request.

Reads what `check` leaves in a result's details. Must not decide what is a finding.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pcietool.contract.results import ProbeResult

RULES = {
    "CRASH": "An access out of bounds, a barrier that cannot be, or a trap.",
    "HANG": "A thread waits for what never comes.",
    "WRONG DATA": "What the scenario expects is not true in some execution.",
    "RACE": "Two accesses to the same bytes, one a write, that nothing orders.",
}


def sarif_text(document: Mapping[str, Any], results: Sequence[ProbeResult]) -> str:
    """One result a finding, at the first line that it names."""
    driver = {
        "name": "pcietool",
        "version": document["tool"]["version"],
        "rules": [
            {"id": _rule(kind), "name": kind, "shortDescription": {"text": text}} for kind, text in RULES.items()
        ],
    }
    run = {"tool": {"driver": driver}, "results": [one for result in results for one in _results(result)]}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(kind: str) -> str:
    return f"check/{kind.lower().replace(' ', '-')}"


def _results(result: ProbeResult) -> Iterator[dict[str, Any]]:
    files = result.details.get("files", {})
    for finding in result.details.get("findings", ()):
        places = [_location(place, files) for place in finding["places"]]
        known = [place for place in places if place]
        yield {
            "ruleId": _rule(finding["kind"]),
            "level": "error" if finding["matters"] else "warning",
            "message": {"text": f"{result.transport}: {finding['text']}"},
            "locations": known[:1],
            "relatedLocations": known[1:],
        }


def _location(place: str, files: Mapping[str, str]) -> dict[str, Any] | None:
    """ "mine.cu:12" by the file's path as the user knows it; None for what is no file of his."""
    name, _, line = place.rpartition(":")
    if name not in files or not line.isdigit():
        return None
    return {"physicalLocation": {"artifactLocation": {"uri": files[name]}, "region": {"startLine": int(line)}}}
