"""What a description expects, and that whatever only looks like an expectation is an error."""

import pytest

from pcietool.errors import ConfigError
from pcietool.litmus.text.parse import parse_litmus
from pcietool.litmus.text.program import Expectation


def expected(description: str, comment: str = "") -> Expectation:
    text = f'PTX t {comment}\n"{description}"\n{{ x=0; }}\nP0@cta 0,gpu 0 ;\nst.weak x, 1 ;\nexists (x=0)\n'
    return parse_litmus(text, "t").expectation


@pytest.mark.parametrize(
    ("description", "verdict", "hangs"),
    [
        ("expect: allowed", "allowed", False),
        ("Text. expect: forbidden. More text.", "forbidden", False),
        ("expect:allowed , hangs, since nobody answers", "allowed", True),
        ("expect: forbidden, hangs.", "forbidden", True),
    ],
)
def test_an_expectation_is_read(description: str, verdict: str, hangs: bool) -> None:
    assert expected(description) == Expectation(verdict, hangs, stated=True)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "description", ["", "Nobody expects more.", "What is expected of a lock.", "It hangs nobody. Allowed since PTX 6."]
)
def test_prose_is_no_expectation(description: str) -> None:
    assert expected(description) == Expectation(None)


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (
            "Expect: forbidden",
            "line 2, column 2: 'Expect:' is no expectation; write expect: allowed or expect: forbidden",
        ),
        ("expects: forbidden", "'expects:' is no expectation"),
        ("expected: allowed", "'expected:' is no expectation"),
        ("EXPECT: allowed", "'EXPECT:' is no expectation"),
        ("expect : allowed", "'expect :' is no expectation"),
        ("expect= allowed", "'expect=' is no expectation"),
        ("expect forbidden", "'expect forbidden' is no expectation"),
        ("verdict: forbidden", "'verdict: forbidden' is no expectation"),
        ("expect: undecided", "column 10: expected allowed or forbidden, found 'undecided'"),
        ("expect: hangs", "expected allowed or forbidden, found 'hangs'"),
        ("expect: Allowed", "expected allowed or forbidden, found 'Allowed'"),
        ("expect: allowed. expect: allowed", "column 19: a second expectation; a test has one"),
        ("expect: allowed. Expected: forbidden", "'Expected:' is no expectation"),
        ("expect: allowed, hang", "write allowed, hangs"),
        ("expect: allowed; hangs", "write allowed, hangs"),
        ("expect: allowed and hangs", "write allowed, hangs"),
    ],
)
def test_what_only_looks_like_one_is_an_error(description: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        expected(description)
    assert message in str(error.value)


@pytest.mark.parametrize("comment", ["\n// expect: forbidden", "\n(* Expected: allowed *)"])
def test_nobody_reads_an_expectation_in_a_comment(comment: str) -> None:
    with pytest.raises(ConfigError, match=r"t line 2, column 4: .* in the quoted description"):
        expected("", comment)
    assert expected("see http://example.org, expect: allowed").verdict == "allowed"
