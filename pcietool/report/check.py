"""What check found of a scenario beyond one line an engine: what is wrong and how it comes about, what mends it, which
orderings are needed, and what was not looked at. Must not judge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pcietool.contract.results import ProbeResult
from pcietool.report.hang import print_missing

MOST_FINDINGS = 4
MOST_PRINTED = 12
_STYLES = {"needed": "green", "redundant": "yellow"}
_HEADINGS = ("is", "at", "weakened by", "seen in")


def print_scenarios(console: Console, results: Sequence[ProbeResult]) -> None:
    for result in results:
        if result.details:
            details = result.details
            console.print()
            console.print(Text(" · ".join(filter(None, (result.transport, details["about"]))), style="bold"))
            _print_printed(console, details.get("printed", {}))
            _print_findings(console, details["findings"], details["lines"])
            _print_repair(console, details)
            _print_orderings(console, details.get("orderings", ()), details["lines"])
            if result is results[-1]:
                _print_assumptions(console, details["assumptions"])
            for line in details["not_covered"]:
                console.print(Text(f"not covered: {line}", style="yellow"), soft_wrap=True)


def _print_assumptions(console: Console, assumptions: Sequence[Mapping[str, Any]]) -> None:
    if not assumptions:
        return
    lines = (f"{one['about']}: {one['value']} ({one['source']})" for one in assumptions)
    console.print(Text(f"assumed: {'; '.join(lines)}", style="dim"))


def _print_printed(console: Console, printed: Mapping[str, Sequence[str]]) -> None:
    for run, lines in printed.items():
        console.print(Text(f"printed in {run}:", style="bold"))
        for line in lines[:MOST_PRINTED]:
            console.print(Text(f"  {line}"), soft_wrap=True)
        if len(lines) > MOST_PRINTED:
            console.print(Text(f"  and {len(lines) - MOST_PRINTED} more (--json has them)"))


def _print_findings(console: Console, findings: Sequence[Mapping[str, Any]], lines: Mapping[str, str]) -> None:
    for finding in findings[:MOST_FINDINGS]:
        seed = "" if finding["seed"] is None else f", --replay {finding['seed']}"
        heading = Text.assemble((finding["kind"], "bold red"), f"  {finding['text']} ({finding['engine']} order{seed})")
        console.print(heading)
        _print_witness(console, finding["witness"], lines)
        print_missing(console, finding["records"])
    if len(findings) > MOST_FINDINGS:
        console.print(Text(f"and {len(findings) - MOST_FINDINGS} more (--json has all)"))


def _print_witness(console: Console, witness: Sequence[Mapping[str, Any]], lines: Mapping[str, str]) -> None:
    """A column a rank, time runs down."""
    ranks = sorted({step["rank"] for step in witness if step["rank"] is not None})
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    for rank in ranks:
        table.add_column(Text(f"rank {rank}"), overflow="fold", ratio=1)
    for step in witness:
        if step["rank"] is not None:
            table.add_row(*(_cell(step, lines) if rank == step["rank"] else Text("") for rank in ranks))
    if ranks:
        console.print(table)
    for step in witness:
        if step["rank"] is None:
            console.print(Text(f"  {step['does']}"))
    console.print()


def _cell(step: Mapping[str, Any], lines: Mapping[str, str]) -> Text:
    parts: list[tuple[str, str] | str] = (
        [(f"{step['at']}  ", "cyan"), lines.get(step["at"], ""), "\n"] if step["at"] else []
    )
    return Text.assemble(*parts, (f"  {step['who']}: ", "dim"), step["does"])


def _print_repair(console: Console, details: Mapping[str, Any]) -> None:
    if "repair" not in details:
        return
    repair = details["repair"]
    if repair is None:
        console.print(Text(_no_repair(details), "bold"))
        return
    console.print(Text("what mends it:", style="bold"))
    for one in repair["edits"]:
        console.print(Text.assemble((f"  {one['at']}  ", "cyan"), details["lines"].get(one["at"], "")))
        console.print(Text(f"      {one['change']}", style="bold green"))
    if repair["advice"]:
        console.print(Text(f"  {repair['advice']}", style="bold green"))
    console.print(Text(f"  {repair['tried']}", style="dim"))


def _no_repair(details: Mapping[str, Any]) -> str:
    where_to_look = "look at who writes what each wait looks at, and when"
    if not details["repairs_tried"]:
        return f"it hangs in timing order, where every store arrives: no fence mends that; {where_to_look}"
    out_of_time = "" if details["repairs_all_tried"] else ", then time was out"
    tried = f"{details['repairs_tried']} changes tried{out_of_time}"
    return f"no stronger order in one or two places mends it ({tried}); {where_to_look}"


def _print_orderings(console: Console, orderings: Sequence[Mapping[str, Any]], lines: Mapping[str, str]) -> None:
    if not orderings:
        return
    console.print(Text("which orderings it needs, each weakened alone:", style="bold"))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    for heading in _HEADINGS:
        table.add_column(Text(heading), overflow="fold")
    alike = Counter((one["at"], one["change"]) for one in orderings)
    for one in orderings:
        table.add_row(*_ordering(one, lines, alike[one["at"], one["change"]] > 1))
    console.print(table)


def _ordering(one: Mapping[str, Any], lines: Mapping[str, str], is_alike: bool) -> Iterator[Text]:
    """`is_alike`: another has the same line and change, from which only the place inside what is called tells it."""
    inside = f"\n  in {one['inlined_from']}" if is_alike and one["inlined_from"] != one["at"] else ""
    yield Text(one["is"], style=_STYLES.get(one["is"], ""))
    yield Text.assemble((f"{one['at']}  ", "cyan"), lines.get(one["at"], ""), (inside, "dim"))
    yield Text(one["change"])
    yield Text(one["by"])
