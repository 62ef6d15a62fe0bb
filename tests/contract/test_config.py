"""What a config takes, how it complains, and that it survives the way to a child process."""

import json
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import pytest

from pcietool.contract.config import Config, Limits, Option
from pcietool.errors import UsageError
from pcietool.probes import PROBES


@dataclass(frozen=True, kw_only=True)
class Everything(Config):
    threads: Annotated[int, Option("Of a block.", min=32, max=1024, multiple_of=32)] = 32
    iterations: Annotated[int | None, Option("How often.", name="--iters", min=1, ceiling=100)] = None
    wait_s: Annotated[float | None, Limits(above=0, ceiling=10)] = None
    orders: Annotated[tuple[Literal["one", "two", "three"], ...], Option("Which.", name="--order")] = ("one", "two")
    sleeps_ns: Annotated[tuple[int, ...] | None, Limits(min=0)] = None
    names: Annotated[tuple[str, ...], Option("Whose.", is_argument=True, choices=("you", "me"))] = ()
    deep: bool = False
    places: Annotated[str | None, Option("Where.", choices=("here", "there", "all"), several=True)] = None


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"threads": 33}, "--threads 33: must be a multiple of 32"),
        ({"threads": 0}, "--threads 0: must be greater than or equal to 32"),
        ({"threads": 2048}, "--threads 2048: must be less than or equal to 1024"),
        ({"threads": "many"}, "--threads many: must be of type int"),
        ({"threads": True}, "--threads True: must be of type int"),
        ({"threads": None}, "--threads None: must be of type int"),
        ({"iterations": 101}, "--iters 101: must be less than or equal to 100"),
        ({"wait_s": 0.0}, "--wait 0.0: must be greater than 0"),
        ({"wait_s": float("nan")}, "--wait nan: must be less than or equal to 10"),
        ({"orders": ("one", "four")}, "--order four: must be 'one', 'two' or 'three'"),
        ({"orders": "one"}, "--order one: must be a list"),
        ({"sleeps_ns": (1, -1)}, "--sleeps -1: must be greater than or equal to 0"),
        ({"names": ("they",)}, "names they: must be 'you' or 'me'"),
        ({"deep": 1}, "--deep 1: must be of type bool"),
        ({"places": "here,nowhere"}, "--places nowhere: must be 'here', 'there' or 'all'"),
        ({"places": "here,"}, "--places : must be 'here', 'there' or 'all'"),
        ({"places": "here,here"}, "--places here,here: names here twice"),
        ({"places": "all,here"}, "--places all,here: all has every other one in it"),
        ({"threads": 33, "wait_s": 20}, "--threads 33: must be a multiple of 32; --wait 20.0: must be less than"),
    ],
)
def test_what_a_field_cannot_hold_is_refused_in_one_line(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError) as refused:
        Everything(**values)
    assert str(refused.value).startswith(complaint)


def test_what_a_field_can_hold_is_kept_as_its_type_says() -> None:
    config = Everything(wait_s=3, orders=["two", "one", "two"], sleeps_ns=(), names=["me"], places="here,there")  # type: ignore[arg-type]
    assert asdict(config) == {
        "threads": 32,
        "iterations": None,
        "wait_s": 3.0,
        "orders": ("two", "one"),
        "sleeps_ns": (),
        "names": ("me",),
        "deep": False,
        "places": "here,there",
    }


@pytest.mark.parametrize("probe", PROBES)
def test_a_probes_config_is_the_same_on_the_other_side_of_a_pipe(probe: str) -> None:
    model = PROBES.config(probe)
    needed: dict[str, dict[str, Any]] = {"litmus": {"tests": ("mp", "sb"), "trials": 5}, "check": {"file": __file__}}
    config = model(**needed.get(probe, {}))
    assert model(**json.loads(json.dumps(asdict(config)))) == config


@pytest.mark.parametrize("probe", PROBES)
def test_a_probe_is_its_config_and_a_function(probe: str) -> None:
    config, run = PROBES[probe]
    assert config is PROBES.config(probe)
    assert run.__annotations__["config"] == config.__name__
