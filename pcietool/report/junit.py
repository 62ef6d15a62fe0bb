"""A run as JUnit XML, which CI systems show: a test case for each part. Must not decide statuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from pcietool.contract.results import ProbeResult, Status

FAILED = (Status.FAIL, Status.HANG)
BROKEN = (Status.ERROR, Status.INTERRUPTED)


def junit_text(document: Mapping[str, Any], results: Sequence[ProbeResult]) -> str:
    """WAIVED is skipped, WARN passes with its text as output: what a gate makes of it is its own rule."""
    suite = ElementTree.Element(
        "testsuite",
        name=results[0].name if results else "pcietool",
        tests=str(len(results)),
        failures=str(sum(one.status in FAILED for one in results)),
        errors=str(sum(one.status in BROKEN for one in results)),
        skipped=str(sum(one.status is Status.WAIVED for one in results)),
        time=str(document["run"]["wall_s"]),
        timestamp=document["run"]["started_at"],
    )
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in (("backend", document["backend"]), ("machine", document["machine"]["label"])):
        ElementTree.SubElement(properties, "property", name=name, value=str(value))
    for result in results:
        case = ElementTree.SubElement(suite, "testcase", classname=result.name, name=result.transport)
        kind = "failure" if result.status in FAILED else "error" if result.status in BROKEN else None
        text = result.reason or result.verdict
        if kind:
            ElementTree.SubElement(case, kind, type=result.status.value, message=result.verdict).text = text
        elif result.status is Status.WAIVED:
            ElementTree.SubElement(case, "skipped", message=text)
        else:
            ElementTree.SubElement(case, "system-out").text = f"{result.status.upper()}: {result.verdict}"
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
