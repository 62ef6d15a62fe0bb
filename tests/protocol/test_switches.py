"""The switches have the same names and values on both sides."""

import re

import pytest

from pcietool.data import kernel_source
from pcietool.protocol.switches import CHOICES, NUMBERS, switched

HEADER = kernel_source("verify_switches.cuh")


@pytest.mark.parametrize("name", CHOICES)
def test_the_header_has_the_same_values(name: str) -> None:
    values = re.findall(rf"^#define {name}_(\w+) (\d+)", HEADER, re.MULTILINE)
    assert values == [(choice, str(number)) for number, choice in enumerate(CHOICES[name])]
    assert re.search(rf"^#define {name} {name}_{CHOICES[name][0]}$", HEADER, re.MULTILINE), "the first is the default"


def test_the_header_has_no_other_switch() -> None:
    assert set(re.findall(r"^#ifndef (\w+)", HEADER, re.MULTILINE)) == {*CHOICES, *NUMBERS}


def test_choices_become_values() -> None:
    assert switched(SIGNAL="RELAXED_SYS", SEED_EXTRA=-1) == {"SIGNAL": 3, "SEED_EXTRA": -1}
    assert switched() == {}


@pytest.mark.parametrize("choices", [{"SIGNAL": "SOMEHOW"}, {"NOISE": "LOUD"}, {"SIGNAL": 1}])
def test_what_does_not_exist_is_refused(choices: dict[str, str | int]) -> None:
    with pytest.raises((KeyError, ValueError)):
        switched(**choices)
