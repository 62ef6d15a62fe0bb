"""Fabric files and what their links do to traffic."""

import random
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

from pcietool import data
from pcietool.emulator.fabric.fabric import Fabric, Figure, Route, load_fabric, packaged_fabrics
from pcietool.errors import ConfigError

KNOWN = ["h200-nvlink2", "pcie5-switch4", "pcie5-switch8", "pcie5-switch16", "pcie5-two-roots8", "faulty/stuck-link"]
HEALTHY = [name for name in packaged_fabrics() if "/" not in name]
FAULTY = [name for name in packaged_fabrics() if name.startswith("faulty/")]


def text_of(name: str) -> str:
    return (data.configs_dir() / "fabrics" / f"{name}.toml").read_text()


@pytest.mark.parametrize("name", HEALTHY)
def test_packaged_fabrics_load_and_say_where_every_figure_comes_from(name: str) -> None:
    spec = load_fabric(name)
    assert spec.name == name
    base = tomllib.loads(text_of(name)).get("base", name)
    numbers = text_of(base).count("source =")
    named = [figure for figures in spec.sources().values() for figure in figures]
    assert len(named) == len(set(named)) == numbers
    models = [model for model in (spec.gpu, spec.peer, spec.host, spec.cross) if model is not None]
    assert numbers == 1 + sum(
        isinstance(getattr(model, field), Figure) for model in models for field in type(model).model_fields
    )


@pytest.mark.parametrize("name", FAULTY)
def test_faulty_fabrics_have_the_figures_of_their_base(name: str) -> None:
    spec, base = load_fabric(name), load_fabric(tomllib.loads(text_of(name))["base"])
    assert spec.name == name
    assert spec.fault is not None
    assert f"faulty/{spec.fault.kind}" == name
    assert base.fault is None
    same = {"name": base.name, "description": base.description, "fault": None}
    assert spec.model_copy(update=same) == base


def test_the_known_fabrics_are_packaged_and_the_faulty_ones_come_last() -> None:
    assert set(KNOWN) <= set(packaged_fabrics())
    assert packaged_fabrics() == HEALTHY + FAULTY


def broken(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


def error_of(path: Path | str) -> str:
    with pytest.raises(ConfigError) as error:
        load_fabric(str(path))
    message = str(error.value)
    assert "\n" not in message
    return message


FABRIC = text_of("pcie5-switch4")
STUCK = text_of("faulty/stuck-link")
BROKEN = {
    "no TOML": ("schema = ", "not valid TOML"),
    "unknown key": (FABRIC.replace("sms = 188", "sms = 188\nsmz = 1"), "gpu.smz"),
    "missing key": (FABRIC.replace("sms = 188\n", ""), "gpu.sms"),
    "number without a source": (
        FABRIC.replace('timer_step_ns = { value = 32, source = "assumed" }', "timer_step_ns = 32"),
        "gpu.timer_step_ns",
    ),
    "unknown source": (
        FABRIC.replace('write_latency_ns = { value = 560, source = "published" }',
                       'write_latency_ns = { value = 560, source = "hearsay" }'),
        "peer.write_latency_ns.source",
    ),
    "negative": (FABRIC.replace("clock_ghz = { value = 2.4", "clock_ghz = { value = -2.4"), "gpu.clock_ghz.value"),
    "a clock that stands still": (
        FABRIC.replace("clock_ghz = { value = 2.4", "clock_ghz = { value = 0"), "gpu.clock_ghz.value"
    ),
    "no finite number": (
        FABRIC.replace("write_latency_ns = { value = 560", "write_latency_ns = { value = inf"),
        "peer.write_latency_ns.value",
    ),
    "not a number": (FABRIC.replace("count = 4", 'count = "four"'), "gpu.count"),
    "unknown link": (FABRIC.replace('kind = "pcie"', 'kind = "string"', 1), "peer.kind"),
    "an unknown fault": (STUCK.replace("stuck-link", "cosmic-rays"), "fault"),
    "a fault without its figure": (STUCK.replace("from_ns = 100_000\n", ""), "fault.stuck-link.from_ns"),
    "a fault with a key too many": (STUCK + "share = 1\n", "fault.stuck-link.share"),
    "a fault of a GPU that is not there": (STUCK.replace("[0, 1]", "[0, 4]"), "names GPU 4"),
    "a link from a GPU to itself": (STUCK.replace("[0, 1]", "[1, 1]"), "two different GPUs"),
    "a direction from a GPU to itself": (
        text_of("faulty/dead-direction").replace("writer = 0", "writer = 1"), "a direction has two ends"
    ),
    "an unknown base": (STUCK.replace("pcie5-switch4\"", "pcie9\""), "unknown fabric 'pcie9'"),
    "a base that has a base": (STUCK.replace("pcie5-switch4\"", "faulty/slow-link\""), "has a base itself"),
    "a base that is no name": (STUCK.replace("base = \"pcie5-switch4\"", "base = 4"), "base"),
    "another schema": (FABRIC.replace("pcietool.fabric/1", "pcietool.fabric/9"), "schema"),
}  # fmt: skip


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_fabric_is_one_line_that_names_file_and_key(tmp_path: Path, fault: str) -> None:
    text, key = BROKEN[fault]
    path = broken(tmp_path, text)
    message = error_of(path)
    assert str(path) in message
    assert key in message


def test_the_whole_file_loads(tmp_path: Path) -> None:
    """Negative control of the faults above."""
    assert load_fabric(str(broken(tmp_path, FABRIC))).gpu.count == 4


def test_a_base_is_changed_key_by_key(tmp_path: Path) -> None:
    base = load_fabric("pcie5-switch4")
    text = STUCK[: STUCK.index("[fault]")] + '[peer]\njitter = 0.5\nflush_ns = { value = 1, source = "measured" }\n'
    changed = load_fabric(str(broken(tmp_path, text)))
    assert (changed.peer.jitter, changed.peer.flush_ns.source) == (0.5, "measured")
    as_before = changed.peer.model_copy(update={"jitter": base.peer.jitter, "flush_ns": base.peer.flush_ns})
    assert (as_before, changed.gpu, changed.host) == (base.peer, base.gpu, base.host)


def test_unknown_fabrics_list_the_known_ones(tmp_path: Path) -> None:
    for name in ("pcie9", tmp_path / "absent.toml", tmp_path):
        message = error_of(name)
        assert str(name) in message
        assert all(known in message for known in KNOWN)


ROOTS = text_of("pcie5-two-roots8")
GOOD_ROOTS = "roots = [[0, 1, 2, 3], [4, 5, 6, 7]]"


@pytest.mark.parametrize("roots", ["[[0, 1, 2, 3], [4, 5, 6]]", "[[0, 1, 2, 3], [3, 4, 5, 6, 7]]", "[[0], [8]]"])
def test_roots_cover_all_gpus_once(tmp_path: Path, roots: str) -> None:
    assert GOOD_ROOTS in ROOTS
    assert "each of the 8 GPUs once" in error_of(broken(tmp_path, ROOTS.replace(GOOD_ROOTS, f"roots = {roots}")))


def test_roots_need_a_cross_link(tmp_path: Path) -> None:
    without = tomllib.loads(ROOTS)["cross"]
    assert without
    text = ROOTS[: ROOTS.index("[cross]")] + ROOTS[ROOTS.index("[host]") :]
    assert "[cross]" in error_of(broken(tmp_path, text))


def test_pairs_under_different_roots_cross() -> None:
    spec = load_fabric("pcie5-two-roots8")
    assert spec.link_between(0, 3) is spec.peer
    assert spec.link_between(3, 4) is spec.cross
    fabric = Fabric(spec, seed=0)
    assert len(fabric.routes[0, 3].ports) == 2
    assert len(fabric.routes[0, 4].ports) == 3
    assert fabric.routes[0, 4].ports[1] is fabric.routes[3, 7].ports[1], "one link each way between the roots"
    assert fabric.routes[0, 4].ports[1] is not fabric.routes[4, 0].ports[1]


@pytest.fixture
def route() -> Route:
    return Fabric(load_fabric("pcie5-switch4"), seed=1).routes[0, 1]


def test_posted_writes_never_overtake(route: Route) -> None:
    rng = random.Random(0)
    now, arrivals = 0.0, []
    for _ in range(1000):
        now += rng.choice([0, 1, 50])
        arrivals.append(route.write(now, rng.choice([4, 16]), coalesced=rng.random() < 0.5))
    assert arrivals == sorted(arrivals)
    assert all(later - earlier < 10_000 for earlier, later in pairwise(arrivals))


def test_a_read_pushes_the_writes_before_it(route: Route) -> None:
    for now in range(0, 10_000, 10):
        landed = route.write(now, 4096, coalesced=True)
        assert route.request(now) >= landed


def test_an_idle_link_takes_its_latency(route: Route) -> None:
    """Negative control: without a write before it a request is not held up."""
    assert route.request(0) == pytest.approx(600, rel=0.06)
    assert route.write(100_000, 4, coalesced=False) - 100_000 == pytest.approx(560, rel=0.06)


def test_a_sender_out_of_credit_waits(route: Route) -> None:
    assert route.stall(0) == 0
    route.write(0, 64 * 1024, coalesced=True)  # 1.2 us of a 55 GB/s link
    assert route.stall(0) == 0
    for _ in range(4):
        route.write(0, 64 * 1024, coalesced=True)
    assert route.stall(0) == pytest.approx(5 * 65536 * (1 + 24 / 256) / 55 - 2000)
    assert route.stall(1_000_000) == 0


def test_bytes_take_as_long_as_the_bandwidth_says(route: Route) -> None:
    first = route.write(0, 4, coalesced=False)
    last = first
    for _ in range(1000):
        last = route.write(0, 32768, coalesced=True)
    assert 32768 * 1000 / (last - first) == pytest.approx(55 / (1 + 24 / 256), rel=0.01)


def test_the_seed_decides_jitter() -> None:
    def arrivals(seed: int) -> list[float]:
        route = Fabric(load_fabric("pcie5-switch4"), seed).routes[0, 1]
        return [route.write(1000 * n, 4, coalesced=False) for n in range(20)]

    assert arrivals(1) == arrivals(1)
    assert arrivals(1) != arrivals(2)
