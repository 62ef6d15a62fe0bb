"""What CONTRIBUTING.md shows as a change still applies, and touches as few files as it says."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SECTION = re.compile(r"^### An? (?P<what>.*?)\n(?P<text>.*?)(?=^##)", re.MULTILINE | re.DOTALL)
DIFF = re.compile(r"^```diff\n(.*?)^```", re.MULTILINE | re.DOTALL)


def shown() -> dict[str, str]:
    """The diff of each section that has one."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return {found["what"]: "".join(DIFF.findall(found["text"])) for found in SECTION.finditer(page)}


@pytest.mark.parametrize(
    ("what", "files"),
    [
        ("PTX instruction", ["pcietool/emulator/translate/isa.py"]),
        ("CLI option", ["pcietool/probes/barrier/config.py"]),
        ("fault", ["pcietool/emulator/fabric/defects.py", "pcietool/emulator/fabric/fault_spec.py"]),
    ],
)
def test_a_change_applies_and_touches_few_files(what: str, files: list[str]) -> None:
    diff = shown()[what]
    touched = re.findall(r"^\+\+\+ b/(.*)$", diff, re.MULTILINE)
    assert [path for path in touched if path.startswith("pcietool/")] == files
    done = subprocess.run(
        ["git", "apply", "--check", "-"], input=diff, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"take the diff of CONTRIBUTING.md anew: {done.stderr}"


def test_a_change_of_what_is_not_there_does_not_apply() -> None:
    diff = shown()["PTX instruction"].replace('"not.{BITS}"', '"knot.{BITS}"')
    assert subprocess.run(["git", "apply", "--check", "-"], input=diff, cwd=ROOT, text=True, check=False).returncode
