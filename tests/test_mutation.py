"""scripts/mutate: what it changes, what it leaves alone, and that it tells a test that looks from one that does not."""

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from scripts.mutation import run
from scripts.mutation.mutants import equivalents, sample, sites, surroundings

ROOT = Path(__file__).parent.parent
MODULE = '''"""What a module says of itself: 1 + 1."""

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from nowhere import Nothing

Both: TypeAlias = int | str


class Shop:
    def __repr__(self) -> str:
        return f"{1 + 1} shops"

    def price(self, count: "int | float", each: int | float = 3) -> int | float:
        log.debug("%s", count * each)
        if count > 10:
            return count * each - 1
        return (
            count
            * each
        )


def called(n: int) -> int:
    return n + 2


def unseen(n: int) -> int:
    return n + 1


def counted(n: int) -> int:
    return n * 5
'''
SHOP = MODULE.replace('        log.debug("%s", count * each)\n', "")
TEST = """from pcietool.shop import Shop, called, counted

COUNTED = counted(2)


def test_the_price():
    assert [Shop().price(n) for n in (1, 2, 10)] == [3, 6, 30]


def test_a_discount():
    assert Shop().price(11) == 32


def test_that_it_runs():
    called(1)


def test_what_was_counted_on_import():
    assert COUNTED == 10
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small one that git knows, with our scripts."""
    shutil.copytree(ROOT / "scripts" / "mutation", tmp_path / "scripts" / "mutation")
    texts = {
        "pcietool/shop.py": SHOP,
        "pcietool/__init__.py": "",
        "pcietool/pytest_plugin.py": "",
        "tests/test_shop.py": TEST,
        "tests/equivalent_mutants.toml": "",
        ".gitignore": ".cache/\n__pycache__/\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def found_in(text: str, tmp_path: Path) -> dict[int, int]:
    """How many places that can be changed each line has."""
    path = tmp_path / "module.py"
    path.write_text(text)
    return dict(Counter(site.start[0] for site in sites(path)))


def line_of(text: str) -> int:
    return MODULE[: MODULE.index(text)].count("\n") + 1


def test_only_what_runs_is_changed(tmp_path: Path) -> None:
    assert found_in(MODULE, tmp_path) == {
        line_of("def price"): 1,
        line_of("if count"): 3,
        line_of("return count * each - 1"): 3,
        line_of("* each\n"): 1,
        line_of("return n + 2"): 2,
        line_of("return n + 1"): 2,
        line_of("return n * 5"): 2,
    }


def test_a_sample_has_one_change_of_each_place_and_is_the_same_for_a_seed(checkout: Path) -> None:
    path = checkout / "pcietool" / "shop.py"
    drawn = list(sample(sites(path), 5, 1, checkout))
    assert drawn == list(sample(sites(path), 5, 1, checkout))
    assert drawn != list(sample(sites(path), 5, 2, checkout))
    everything = list(sample(sites(path), 99, 1, checkout))
    assert len(everything) == len(sites(path)) == 14
    assert {one.function for one in everything} == {"Shop.price", "called", "unseen", "counted"}
    for one in everything:
        assert one.text != path.read_text()
        compile(one.text, "module", "exec")


@pytest.mark.parametrize(
    ("line", "function", "executed"),
    [
        ("class Shop", "Shop", []),
        ("def price", "Shop.price", []),
        ("if count", "Shop.price", ["if count"]),
        ("return count * each - 1", "Shop.price", ["return count * each - 1"]),
        ("* each\n", "Shop.price", ["return (", "            count\n", "            * each", "        )\n"]),
    ],
)
def test_a_line_belongs_to_a_function_and_to_a_statement(line: str, function: str, executed: list[str]) -> None:
    assert surroundings(MODULE, line_of(line)) == (
        function,
        range(line_of(executed[0]), line_of(executed[-1]) + 1) if executed else range(0),
    )


def test_what_tests_look_at_is_noticed_and_the_rest_is_shown(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["pcietool/shop.py", "--sample", "99", "--jobs", "1"]
    assert run.main(arguments, checkout) == 1
    fates = [line.partition(" ") for line in capsys.readouterr().out.splitlines() if line.startswith("pcietool/")]
    survived = {place for place, _, fate in fates if "survived" in fate}
    not_covered = {place for place, _, fate in fates if "not covered" in fate}
    place = {
        text: f"pcietool/shop.py:{line_of(text) - 1}"
        for text in ("* each\n", "return n + 1", "return n + 2", "return n * 5")
    }
    assert not_covered == {place["return n + 1"]}
    assert place["return n + 2"] in survived
    assert not survived & {place["* each\n"], place["return n * 5"]}
    assert (checkout / "pcietool" / "shop.py").read_text() == MODULE.replace(
        '        log.debug("%s", count * each)\n', ""
    )


def test_a_listed_equivalent_is_not_tried_wherever_its_line_is(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = checkout / "pcietool" / "shop.py"
    listed = [one for one in sample(sites(shop), 99, 1, checkout) if one.function == "unseen"]
    entry = '[[mutant]]\nfile = "{0}"\nin = "{1}"\nwas = "{2}"\nbecame = "{3}"\nwhy = "nobody looks"\n'
    (checkout / "tests" / "equivalent_mutants.toml").write_text("".join(entry.format(*one.key) for one in listed))
    shop.write_text(shop.read_text().replace("def unseen", "# two\n# lines more\ndef unseen"))
    (checkout / "tests" / "test_shop.py").write_text("def test_nothing():\n    pass\n")
    run.main(["pcietool/shop.py", "--sample", "99", "--jobs", "1"], checkout)
    assert "12 not covered, 2 known equivalent" in capsys.readouterr().out


def test_a_test_that_fails_anyway_notices_nothing(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that passed when it was watched, and fails since for another reason."""
    other = checkout / "other.txt"
    (checkout / "pcietool" / "shop.py").write_text("def called(n):\n    return n + 2\n")
    looks = 'def test_wrong():\n    assert called(1) == 3 and open("other.txt").read() == "1"\n'
    (checkout / "tests" / "test_shop.py").write_text(f"from pcietool.shop import called\n\n\n{looks}")
    said = []
    for text in "12":
        other.write_text(text)
        run.main(["pcietool/shop.py", "--sample", "99", "--jobs", "1"], checkout)
        said.append(capsys.readouterr().out)
    assert "called: noticed tests/test_shop.py::test_wrong" in said[0]
    assert "called: noticed" not in said[1]
    assert "tests/test_shop.py::test_wrong fails without any change" in said[1]


def test_nine_of_ten_are_enough() -> None:
    assert run.summary(Counter(noticed=9, survived=1), equivalent=3) == 0
    assert run.summary(Counter({"noticed": 17, "survived": 1, "not covered": 1}), equivalent=3) == 1


def test_the_nearest_tests_come_first() -> None:
    mutated = "pcietool/probes/barrier/probe.py"
    files = ["tests/probes/barrier/test_probe.py", "tests/probes/signal/test_signal.py", "tests/cli/test_main.py"]
    assert [run.near(file, mutated) for file in files] == [3, 1, 0]


def test_every_listed_equivalent_is_still_there() -> None:
    """Also that a reason is given, and that nothing is listed twice."""
    for (file, function, was, became), why in equivalents(ROOT / run.EQUIVALENT).items():
        lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
        sought = was.splitlines()
        text = [line.strip() for line in lines]
        starts = [n for n in range(len(text)) if text[n : n + len(sought)] == sought]
        assert any(surroundings("\n".join(lines), n + 1)[0] == function for n in starts), f"{file}: {was}"
        assert was != became
        assert len(why) > 20
