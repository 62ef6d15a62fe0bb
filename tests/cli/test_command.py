"""How a function becomes a command: where its options come from, and what it gets of them."""

from collections import Counter
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from pcietool.cli.app import COMMANDS
from pcietool.cli.command import Asked, Command, command
from pcietool.errors import ExitCode
from pcietool.probes.barrier.config import BarrierConfig
from pcietool.probes.litmus.config import LitmusConfig, TrialsConfig
from pcietool.probes.signal.config import SignalConfig
from tests.cli.program import one_line_of, refusal


def asked(name: str, *arguments: str) -> Asked:
    """What a command of that name would get."""
    seen: list[Asked] = []

    def call(asked: Asked) -> ExitCode:
        seen.append(asked)
        return ExitCode.PASS

    app = typer.Typer()
    app.command()(command(name)(call).function())
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return seen[0]


def test_without_options_a_config_is_the_default() -> None:
    assert asked("barrier-latency").config(BarrierConfig) == BarrierConfig()
    assert asked("signal-latency").config(SignalConfig) == SignalConfig()


def test_options_fill_the_fields_beside_which_they_stand() -> None:
    words = ("--iters", "7", "-w", "3", "--order", "floor", "--order", "article", "--nanosleep", "5", "--sweep")
    config = asked("barrier-latency", *words, "--timeout", "9").config(BarrierConfig)
    assert config == BarrierConfig(
        iterations=7, warmup=3, orders=("floor", "article"), nanosleep_ns=5, sweep=True, timeout_s=9.0
    )
    assert [type(order) for order in config.orders] == [str, str]


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (("-b", "1K"), {"min_bytes": 1024}),
        (("--poll", "remote"), {"polls": ("remote",)}),
        (("--poll", "all"), {"polls": ("local", "remote")}),
        (("--pairs", "all", "--pairs", "all"), {"pairings": ("all",)}),
    ],
)
def test_words_become_values(words: tuple[str, ...], values: dict[str, Any]) -> None:
    assert asked("signal-latency", *words).config(SignalConfig) == SignalConfig(**values)


def test_one_command_can_ask_for_two_configs() -> None:
    both = asked("litmus", "mp", "--trials", "1K", "--seed", "3")
    assert both.config(LitmusConfig) == LitmusConfig(tests=("mp",))
    assert both.config(TrialsConfig) == TrialsConfig(tests=("mp",), trials=1024, seed=3)
    assert asked("litmus", "mp").words["trials"] is None


def test_a_command_without_a_probe_has_its_own_options_and_common_ones() -> None:
    seen: list[Any] = []

    @command("no-probe", common=("seed", "quiet"))
    def no_probe(asked: Asked, deep: Annotated[bool, typer.Option("--deep")] = False) -> ExitCode:
        """Says what
        it does.

        And
        why.
        """
        seen.extend((asked.common.seed, deep))
        return ExitCode.HANG

    assert no_probe.help == "Says what it does.\n\nAnd why."
    assert [parameter.name for parameter in no_probe.with_options().params] == ["deep", "seed", "quiet"]
    app = typer.Typer()
    app.command()(no_probe.function())
    assert CliRunner().invoke(app, ["--deep", "--seed", "7"]).exit_code == ExitCode.HANG
    assert seen == [7, True]


@pytest.mark.parametrize("one", COMMANDS.values(), ids=COMMANDS)
def test_no_two_options_of_a_command_have_one_name(one: Command) -> None:
    names = Counter(name for parameter in one.with_options().params for name in parameter.opts)
    assert [name for name, times in names.items() if times > 1] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--transport", "peer", "--transport", "host"], "--transport is given twice, as peer and as host"),
        (["-n", "5", "--iters", "5"], "--iters is given twice, as 5 and as 5"),
        (["-qq"], "--quiet is given twice;"),
    ],
)
def test_an_option_that_takes_one_value_is_given_once(words: list[str], said: str) -> None:
    assert said in one_line_of(refusal("barrier-latency", "--backend", "emulated", *words))


def test_an_option_that_takes_many_can_be_repeated_and_a_transport_can_be_several() -> None:
    words = ("--order", "floor", "--order", "article", "--transport", "peer,host")
    config = asked("barrier-latency", *words).config(BarrierConfig)
    assert config == BarrierConfig(orders=("floor", "article"), transport="peer,host")
