"""Makes input that pcietool must refuse, from what its options say of themselves and from the files that it ships.

Each is the arguments of one call; the same seed makes the same.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from pcietool.cli.app import COMMANDS
from pcietool.data import configs_dir

Arguments = list[str]
HUGE = "9" * 5000
WORDS_OF = {"litmus": ["mp"]}
"""What a command needs to be a command."""


def _begin(name: str) -> Arguments:
    return [name, *WORDS_OF.get(name, [])]


def _options(name: str) -> list[Any]:
    """Without arguments and --help."""
    return [one for one in COMMANDS[name].with_options().params if one.param_type_name == "option"]


def _longest(option: Any) -> str:
    return str(max(option.opts, key=len))


def _impossible(option: Any) -> list[str]:
    """Values that it cannot take, by its type."""
    kind, name = option.type, _longest(option)
    if hasattr(kind, "choices"):
        return ["carrier-pigeon", "", "peer\x1b[31m", HUGE]
    if kind.name in ("integer", "integer range"):
        limits = [str(kind.min - 1)] if getattr(kind, "min", None) is not None else []
        return ["x", "", "1.5", "0x10", "--", HUGE, "-" + HUGE, "1e3", "\x1b", *limits]
    if kind.name in ("float", "float range"):
        return ["x", "", "nan", "-1", "1,5", "1e999", HUGE]
    if name in ("--csv", "--trace"):
        return ["-", "", "/", "/dev/null", "/no/such/directory/file", "x" * 300]
    if name in ("--json", "--out"):
        return ["", "/dev/null", "/proc/no/such", "x" * 300, "\x1b"]
    if name == "--gpus":
        return [
            "",
            ",",
            "0,,1",
            "0,0",
            "0-999999999",
            "3-0",
            "-1",
            HUGE,
            ",".join(map(str, range(100_000))),
            "GPU-\x1b",
        ]
    if name == "--fabric":
        return ["", "/", "/dev/zero", "/dev/null", "no-such", "x" * 300, "\x1b[2J"]
    if name in ("--rows", "--row-bytes", "--min-bytes", "--max-bytes", "--sizes", "--trials"):
        return ["x", "", "-4", "1.5K", HUGE, "4KK", "\x1b"]
    if name in ("--chunks", "--sms", "--concurrency", "--transport", "--inject"):
        return ["x", ",", "0", "-1", HUGE, "1,,2", "1x0", "\x1b[31m"]
    return []


def of_values() -> Iterator[Arguments]:
    """Each option of each command with values that it cannot take."""
    for command in COMMANDS:
        for option in _options(command):
            if option.is_flag:
                yield [*_begin(command), f"{_longest(option)}=x"]
                continue
            for value in _impossible(option):
                yield [*_begin(command), f"{_longest(option)}={value}"]
            yield [*_begin(command), _longest(option)]


def of_repeats() -> Iterator[Arguments]:
    """Each option that takes one value, twice."""
    for command in COMMANDS:
        for option in _options(command):
            if not option.multiple and _longest(option) != "--help":
                once = [_longest(option)] if option.is_flag else [_longest(option), "1"]
                yield [*_begin(command), *once, *once]


def of_words() -> Iterator[Arguments]:
    """Commands, options and arguments that there are none of."""
    yield from (["no-such-command"], ["--no-such-option"], ["\x1b[2J"], [HUGE], ["litmus"], ["-x", "verify"])
    for command in COMMANDS:
        yield from ([command, word] for word in ("--no-such-option", "--it", "-Z", "\x1b[31m", HUGE, "no/such"))


def _mutated(random: Random, text: str) -> bytes:
    """One to three changes of a kind that people and disks make."""
    content = text.encode()
    for _ in range(random.randint(1, 3)):
        content = random.choice(CHANGES)(random, content)
    return content


def _cut(random: Random, content: bytes) -> bytes:
    return content[: random.randrange(len(content) + 1)]


def _flip(random: Random, content: bytes) -> bytes:
    where = random.randrange(len(content) + 1)
    return content[:where] + bytes([random.randrange(256)]) + content[where + 1 :]


def _insert(random: Random, content: bytes) -> bytes:
    where = random.randrange(len(content) + 1)
    return content[:where] + random.choice(NASTY) + content[where:]


def _turn(random: Random, content: bytes) -> bytes:
    where = random.randrange(len(content) + 1)
    return content[where:] + content[:where]


def _repeat_or_drop_a_line(random: Random, content: bytes) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    lines[random.randrange(len(lines))] *= random.choice((0, 2))
    return b"".join(lines)


CHANGES = (_cut, _flip, _insert, _turn, _repeat_or_drop_a_line)

NASTY = (
    b"\x00", b"\xff\xfe", b"\x1b[31m", b"9" * 5000, b"[" * 2000, b"{a=" * 2000, b'"', b"'''", b"= ", b"\r", b"-1",
    b"nan", b"inf", b"1e308", b"true", "\u202e".encode(), b"x" * 300_000, b"while (", b"}", b"|", b"exists (",
    b"0x" + b"f" * 3000,
)  # fmt: skip


def _changed_values(random: Random, text: str) -> str:
    """A fabric with one figure, or one count, that is none."""
    lines = text.splitlines()
    chosen = random.choice([n for n, line in enumerate(lines) if " = " in line])
    key = lines[chosen].split(" = ")[0]
    value = random.choice(
        ("[]", "{}", '"\\u001b[2J"', "nan", "-inf", "-1", HUGE, "9" * 4000, "[" * 2000, "1979-05-27", '""', "[[]]",
         '{ value = -1, source = "assumed" }', '{ value = 1, source = "guessed" }', '{ value = "1e400" }')
    )  # fmt: skip
    lines[chosen] = f"{key} = {value}"
    return "\n".join(lines)


def files(directory: Path, seed: int, count: int, suffix: str, of: str) -> Iterator[Path]:
    """Files in the directory made of those that pcietool has below configs/OF, each changed: most are broken."""
    random = Random(f"{seed} {of}")
    originals = sorted((configs_dir() / of).rglob(f"*{suffix}"))
    for number in range(count):
        text = random.choice(originals).read_text("utf-8")
        by_value = suffix == ".toml" and number % 2
        content = _changed_values(random, text).encode() if by_value else _mutated(random, text)
        path = directory / f"{number}{suffix}"
        path.write_bytes(content)
        yield path


COMBINATIONS = """
    barrier-latency --gpus 0 --num-gpus 1 | barrier-latency --quiet --verbose | barrier-latency --raw
    barrier-latency --fabric pcie5-switch4 --backend cuda | barrier-latency --mode graph --iters 5
    barrier-latency --mode launched --mode graph --warmup 3 | barrier-latency --order article --nanosleep 7
    barrier-latency --transport self --sweep | barrier-latency --order floor --mode graph
    barrier-latency --transport peer,peer | barrier-latency --transport all,peer | barrier-latency --transport peer,
    barrier-latency --json same --csv same | barrier-latency --json same --trace ./same | verify --json same --csv same
    signal-latency --transport host --poll local | signal-latency --transport self,host --poll remote
    signal-latency -b 64 -e 8 | signal-latency -b 7 | signal-latency --inject stall=x | signal-latency --csv -
    atomic-loss --transport host --home 1 | atomic-loss --transport self --home 1 | atomic-loss -c 65536x1
    watermark --row-bytes 64 --columns 4 | watermark --row-bytes 64 --dtype fp8 | watermark --path engine --sms 4
    watermark --path engine --piece 2 | watermark --chunks 1,x | watermark --sms 0
    compare-nccl --transport self | compare-nccl --sizes 4 -b 4 | compare-nccl --sizes 4 -e 8
    compare-nccl --sizes 4 -f 2
    compare-nccl -b 8 -e 4 | compare-nccl --sizes 3 | compare-nccl --sizes 4,,8 | compare-nccl --sizes 1T
    verify --mutants --iters 5 | verify --mutants --soak 1 | verify --mutants --load push | verify barrier -d uniform
    verify --mutants --inject corrupt-byte | verify signal --inject corrupt-count | verify --trace -
    litmus mp --gpus 0 | litmus mp --place host | litmus mp --seed 4 | litmus mp --backend emulated
    litmus mp --timeout 4
    litmus mp --outcomes --quiet | litmus mp --trace --json - | litmus mp --trials 0 | litmus mp --max-states 0
"""


def of_combinations() -> Iterator[Arguments]:
    """Options that contradict each other, or of which one would change nothing."""
    for line in COMBINATIONS.strip().replace("\n", "|").split("|"):
        yield line.split()


def of_targets(directory: Path) -> Iterator[Arguments]:
    """Outputs that cannot be written, and inputs that cannot be read."""
    loop, pipe, there = directory / "loop", directory / "pipe", directory / "there"
    loop.symlink_to(loop)
    os.mkfifo(pipe)
    there.write_text("{}")
    wrong = (loop, pipe, there, directory, directory / "no" / "file", there / "file", loop / "file", "/dev/full")
    for target in wrong:
        yield from (["verify", option, str(target)] for option in ("--json", "--csv", "--trace"))
        if target not in (directory, directory / "no" / "file"):
            yield ["verify", "--out", str(target)]
    deep, long, zeros = directory / "deep", directory / "long", directory / "zeros"
    deep.write_text(f"name = {'[' * 2000}{']' * 2000}")
    long.write_text("# long\n" * 200_000)
    zeros.write_bytes(bytes(1000))
    escape = directory / "\x1b[31m"
    escape.write_text("")
    for source in (loop, pipe, directory, deep, long, zeros, escape, directory / "none", there / "file", "/dev/full"):
        yield ["verify", "--fabric", str(source)]
        yield ["litmus", str(source)]
