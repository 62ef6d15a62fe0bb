"""scripts/mutate: which of a sample of single changes of our own code the tests notice.

Every change is made in a copy of the checkout, one at a time; of the tests that execute the changed line run the
nearest and cheapest first, until one fails or --budget seconds of them have passed. Exits with 1 below 90 %.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path

from scripts.mutation.copied import copied, environment
from scripts.mutation.covered import CACHE, PYTEST, Covered, test_files
from scripts.mutation.mutants import Mutant, equivalents, sample, sites

ROOT = Path(__file__).resolve().parent.parent.parent
DEFAULT = ("pcietool/probes", "pcietool/emulator", "pcietool/protocol")
EQUIVALENT = Path("tests") / "equivalent_mutants.toml"
GOAL_PERCENT = 90
MEMORY = 8 << 30
IMPORT_S = 60
WALL_S = 1800
"""Only against what sleeps for ever: tests are limited in CPU time, so that a busy machine notices nothing."""
NO_TESTS = 5
"""pytest's exit code."""


@dataclass(frozen=True)
class Fate:
    """What became of a mutant: noticed, survived, equivalent or not covered; `by` whom, or why."""

    what: str
    by: str


class Workplace:
    """A copy of the checkout in which one mutant lives at a time."""

    def __init__(self, copy: Path, covered: Covered, budget_s: float) -> None:
        self.copy = copy
        self.covered = covered
        self.budget_s = budget_s

    def fate(self, mutant: Mutant) -> Fate:
        tests, left_out = self.tests(mutant)
        if not tests and not left_out:
            return Fate("not covered", "")
        by = self.failure_with(mutant, tests)
        if by and not self.is_sound(by, tests):
            self.covered.forget(by)
            return self.fate(mutant)
        more = f", {left_out} more not run" if left_out else ""
        return Fate("noticed", by) if by else Fate("survived", f"{len(tests)} tests{more}")

    def failure_with(self, mutant: Mutant, tests: Sequence[str]) -> str:
        """As `failure`, of the changed file; it is put back."""
        path = self.copy / mutant.file
        original, times = path.read_bytes(), (path.stat().st_atime, path.stat().st_mtime)
        path.write_text(mutant.text, encoding="utf-8")
        try:
            return self.failure(tests)
        finally:
            path.write_bytes(original)
            os.utime(path, times)

    def is_sound(self, by: str, tests: Sequence[str]) -> bool:
        """Does the test that noticed pass without the change? Else a broken one would count for a good one."""
        if by not in self.covered.sound:
            alone = [by] if by in self.covered.cpu_s else tests[:1]
            self.covered.sound[by] = not self.failure(alone)
        return self.covered.sound[by]

    def tests(self, mutant: Mutant) -> tuple[list[str], int]:
        """Those to run, file by file, nearest first; and how many more the budget does not allow. Files take turns to
        give their cheapest test, since those of one file often see the same."""
        covered = self.covered
        known = covered.of(mutant.file, mutant.statement) if mutant.statement else covered.anywhere(mutant.file)
        by_file: dict[str, list[str]] = {}
        for test in sorted(known, key=lambda test: (covered.cpu_s[test], test)):
            by_file.setdefault(test.partition("::")[0], []).append(test)
        files = sorted(by_file, key=lambda file: (-near(file, mutant.file), covered.cpu_s[by_file[file][0]]))
        chosen: dict[str, list[str]] = {file: [] for file in files}
        left_s = self.budget_s
        for turn in zip_longest(*(by_file[file] for file in files)):
            for file, test in zip(files, turn, strict=True):
                if test is not None and covered.cpu_s[test] <= left_s:
                    left_s -= covered.cpu_s[test]
                    chosen[file].append(test)
        all_chosen = [test for tests in chosen.values() for test in tests]
        return all_chosen, len(known) - len(all_chosen)

    def failure(self, tests: Sequence[str]) -> str:
        """The test that fails, or in which the process dies; "" if none does."""
        chosen, noticed, log = (self.copy / f".mutate-{name}" for name in ("tests", "noticed", "log"))
        chosen.write_text(json.dumps({test: self.covered.cpu_s[test] for test in tests}), encoding="utf-8")
        noticed.write_text("on import", encoding="utf-8")
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        more = {"MUTATE_TESTS": str(chosen), "MUTATE_NOTICED": str(noticed), "PYTHONDONTWRITEBYTECODE": "1"}
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, *PYTEST, "-x", *files],
                cwd=self.copy,
                env=environment(self.copy, **more),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                preexec_fn=limited,
                start_new_session=True,
            )
            try:
                code = process.wait(WALL_S)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
        if code == NO_TESTS:
            raise SystemExit(f"pytest found none of {len(tests)} tests that it knew before: {', '.join(files)}")
        return noticed.read_text(encoding="utf-8") if code else ""


def limited() -> None:
    """In the child: so much memory, and CPU time until the first test sets a limit of its own."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (IMPORT_S, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def near(test_file: str, file: str) -> int:
    """How many folders the two paths share below tests/ and pcietool/; one more if the names fit."""
    tests, mutated = Path(test_file).parts[1:], Path(file).parts[1:]
    shared = 0
    while shared < min(len(tests), len(mutated)) - 1 and tests[shared] == mutated[shared]:
        shared += 1
    return shared + (Path(file).stem in Path(test_file).stem)


def fates(mutants: Sequence[Mutant], places: Sequence[Workplace]) -> Iterator[tuple[Mutant, Fate]]:
    """One after the other, as they were drawn."""
    free: queue.SimpleQueue[Workplace] = queue.SimpleQueue()
    for place in places:
        free.put(place)

    def one(mutant: Mutant) -> Fate:
        place = free.get()
        try:
            return place.fate(mutant)
        finally:
            free.put(place)

    with ThreadPoolExecutor(len(places)) as pool:
        yield from zip(mutants, pool.map(one, mutants), strict=True)


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    options = parser().parse_args(arguments)
    files = [file for path in options.paths for file in python_files(root / path)]
    found = [site for file in files for site in sites(file)]
    mutants = list(sample(found, options.sample, options.seed, root))
    known = equivalents(root / EQUIVALENT)
    print(f"{len(mutants)} mutants of {len(found)} places in {len(files)} files", flush=True)
    tried = [mutant for mutant in mutants if mutant.key not in known]
    last = root / CACHE / f"fates-{options.seed}.json"
    done = noticed_before(last) if options.again else {}
    count = Counter("noticed" for one in tried if repr(one.key) in done)
    with ExitStack() as stack:
        copies = [stack.enter_context(copied(root)) for _ in range(options.jobs)]
        covered = Covered(root, test_files(root, options.tests))
        covered.watch(copies[0], options.jobs)
        places = [Workplace(copy, covered, options.budget) for copy in copies]
        for mutant, fate in fates([one for one in tried if repr(one.key) not in done], places):
            count[fate.what] += 1
            done[repr(mutant.key)] = fate
            last.write_text(json.dumps({key: asdict(one) for key, one in done.items()}), encoding="utf-8")
            print(f"{mutant.file}:{mutant.line} {mutant.function}: {fate.what} {fate.by}", flush=True)
            if fate.what != "noticed":
                print(mutant.diff, flush=True)
    return summary(count, len(mutants) - len(tried))


def python_files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


def noticed_before(last: Path) -> dict[str, Fate]:
    """By the mutant's key, as the last run with that seed wrote it."""
    fates: dict[str, dict[str, str]] = json.loads(last.read_text(encoding="utf-8"))
    return {key: Fate(**fate) for key, fate in fates.items() if fate["what"] == "noticed"}


def summary(count: Counter[str], equivalent: int) -> int:
    """Prints it; the exit code."""
    counted = sum(count.values())
    percent = 100 * count["noticed"] / counted if counted else 100.0
    print(
        f"{count['noticed']} noticed, {count['survived']} survived, {count['not covered']} not covered,"
        f" {equivalent} known equivalent: {percent:.1f} % noticed of those that are not equivalent"
    )
    return int(percent < GOAL_PERCENT)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="scripts/mutate", description=__doc__)
    made.add_argument("paths", nargs="*", type=Path, default=[Path(path) for path in DEFAULT], metavar="PATH")
    made.add_argument("--sample", type=int, default=100, metavar="N", help="so many mutants at most (100)")
    made.add_argument("--seed", type=int, default=1, help="another draws other ones (1)")
    made.add_argument("--budget", type=float, default=60, metavar="S", help="CPU seconds of tests for a mutant (60)")
    made.add_argument("--jobs", type=int, default=2, help="so many at once (2)")
    made.add_argument("--tests", nargs="+", type=Path, default=[Path("tests")], metavar="PATH", help="only of these")
    made.add_argument("--again", action="store_true", help="those that were noticed last time are taken as noticed")
    return made


if __name__ == "__main__":
    sys.exit(main())
