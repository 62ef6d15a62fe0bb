"""How tests are found, and that each one that ships has the verdict it states."""

import os
from pathlib import Path

import pytest

from pcietool.contract.results import Status
from pcietool.errors import ConfigError
from pcietool.litmus.explore import explore
from pcietool.litmus.text.library import find, load, packaged
from pcietool.litmus.verdict import answer
from pcietool.probes.litmus.probe import judge


@pytest.mark.parametrize("path", packaged(), ids=lambda path: path.stem)
def test_a_packaged_test_has_the_verdict_it_states(path: Path) -> None:
    test = load(path)
    assert test.name == path.stem
    assert test.expectation.stated
    assert test.description.startswith(f"expect: {test.expectation.verdict}")
    assert judge(answer(explore(test))) == (Status.PASS, None)


def test_the_packaged_set_covers_the_classics() -> None:
    families = {path.stem.split("-")[0] for path in packaged()}
    assert {"mp", "sb", "lb", "iriw", "isa2", "wrc", "2+2w", "r", "s", "corr", "coww", "rmw", "bar"} <= families
    assert len(packaged()) >= 60


def test_names_are_starts_of_packaged_tests() -> None:
    assert {path.stem.split("-")[0] for path in find(["SB", "mp-weak"])} == {"sb", "mp"}
    assert find(["all", "sb"]) == packaged()
    assert {path.stem.split("-")[0] for path in find(["r"])} == {"r"}
    assert [path.stem for path in find(["election-relaxed.gpu"])] == ["election-relaxed.gpu"]
    assert len(find(["election-relaxed"])) == 4


def test_files_and_directories_go_before_names(tmp_path: Path) -> None:
    first, second = tmp_path / "b.litmus", tmp_path / "a.litmus"
    for path in (first, second, tmp_path / "notes.txt"):
        path.write_text("")
    assert find([str(first)]) == [first]
    assert find([str(tmp_path), str(first)]) == [second, first]


@pytest.mark.parametrize("name", ["no-such-test", "", "mp/"])
def test_a_name_that_means_nothing_is_an_error_that_lists_families(name: str) -> None:
    with pytest.raises(ConfigError, match=r"there are: all, 2\+2w, bar, .*iriw, .*mp, .*wrc$"):
        find([name])


def test_a_directory_without_tests_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no \*\.litmus"):
        find([str(tmp_path)])


def test_a_byte_order_mark_is_no_part_of_a_test(tmp_path: Path) -> None:
    (mp,) = find(["mp-weak-gpus"])
    path = tmp_path / "marked.litmus"
    path.write_bytes(b"\xef\xbb\xbf" + mp.read_bytes())
    assert load(path).name == load(mp).name


def test_a_file_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.litmus"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(path)


def test_only_files_of_a_directory_are_tests_and_a_name_may_be_too_long(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.litmus")
    with pytest.raises(ConfigError, match=r"there is no \*\.litmus"):
        find([str(tmp_path)])
    with pytest.raises(ConfigError, match="File name too long"):
        find(["x" * 300])
