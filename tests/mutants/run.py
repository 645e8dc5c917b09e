"""Does a test notice? `make mutants` makes every mistake in the lists, one at a time, and runs the tests nearest to it.

    python -m tests.mutants.run [--room criteria] [--only NAME] [--jobs 2] [--timeout 120]

Each worker has a copy of the source of its own, so that the checkout is never changed. A mutant is killed when one of
its tests fails while it runs: a mistake that only breaks an import or a fixture says nothing about the tests. First the
tests are run on the copy as it is, where all must pass. Exit code 1: a mutant survived, is stale, or broke too much.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutant import ROOMS, ROOT, SOURCE, Mutant, mutants_of

KILLED, SLOW, SURVIVED, BROKEN, STALE = "killed", "killed (time)", "SURVIVED", "BROKEN", "STALE"
NOT_A_MISTAKE_OF_MEANING = {"ImportError", "ModuleNotFoundError", "SyntaxError", "NameError", "UnboundLocalError"}


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant, and what says so."""

    verdict: str
    because: str
    seconds: float = 0.0


class Copy:
    """A copy of the source in a folder of its own, in which one mistake at a time is made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = folder / "src" / "invariscope"
        shutil.copytree(SOURCE, self.package)

    def run(self, tests: list[str], timeout: float) -> subprocess.CompletedProcess[str]:
        """pytest on the copy: by PYTHONPATH for commands that tests start, by `pythonpath` for pytest itself."""
        source = str(self.package.parent)
        ours = {"PYTHONPATH": source, "INVARISCOPE_MUTATED": source, "INVARISCOPE_WITNESS": str(self.witness)}
        # no compiled files are written: one of a mistake could be taken for one of the next, made in the same second
        ours |= {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "tests.mutants.witness"]
        command += ["-o", f"pythonpath={source} .", *(f"tests/{node}" for node in tests)]
        return subprocess.run(
            command, cwd=ROOT, env=os.environ | ours, capture_output=True, text=True, timeout=timeout, check=False
        )

    @property
    def witness(self) -> Path:
        return self.folder / "witness.json"

    def try_out(self, mutant: Mutant, timeout: float) -> Outcome:
        """Make the mistake, run its tests, take it back."""
        path, began = self.package / mutant.file, time.perf_counter()
        original = path.stat()
        text = path.read_text(encoding="utf-8")
        try:
            path.write_text(mutant.mutated(text), encoding="utf-8")
            # a compiled file is known by the time of its source in whole seconds: this one is not that of the original
            os.utime(path, (original.st_atime, original.st_mtime + 10))
            self.witness.unlink(missing_ok=True)
            verdict, because = _judged(self.run(list(mutant.tests), timeout), self.witness)
        except subprocess.TimeoutExpired:
            verdict, because = SLOW, f"not done after {timeout:.0f} s"
        finally:
            path.write_text(text, encoding="utf-8")
            os.utime(path, (original.st_atime, original.st_mtime))
        return Outcome(verdict, because, time.perf_counter() - began)


def _judged(run: subprocess.CompletedProcess[str], witness: Path) -> tuple[str, str]:
    if not witness.is_file() or run.returncode not in (0, 1):
        last = [line for line in (run.stdout + run.stderr).splitlines() if line.strip()]
        return BROKEN, f"pytest ended with {run.returncode}: {last[-1] if last else 'no words'}"
    seen = json.loads(witness.read_text(encoding="utf-8"))
    if run.returncode == 0:
        return SURVIVED, f"{seen['passed']} tests passed, {seen['skipped']} were skipped"
    if seen.get("when") != "call" or seen.get("error") in NOT_A_MISTAKE_OF_MEANING:
        return BROKEN, f"{seen.get('error')} at {seen.get('when')} of {seen.get('test')}"
    return KILLED, f"{seen['test'].removeprefix('tests/')}"


def try_all(mutants: list[Mutant], jobs: int, timeout: float) -> dict[str, Outcome]:
    """What became of every mutant, in the order given; lines are printed as they come."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(jobs) as pool:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for number in range(jobs):
            copies.put(Copy(Path(folder) / str(number)))

        def healthy(tests: list[str]) -> str | None:
            copy = copies.get()
            try:
                done = copy.run(tests, timeout=10 * timeout)
            finally:
                copies.put(copy)
            return None if done.returncode == 0 else done.stdout[-3000:] + done.stderr[-1000:]

        def one(mutant: Mutant) -> Outcome:
            reason = mutant.stale()
            copy = copies.get()
            try:
                outcome = Outcome(STALE, reason) if reason else copy.try_out(mutant, timeout)
            finally:
                copies.put(copy)
            print(f"{outcome.verdict:<14}{outcome.seconds:6.1f} s  {mutant.name:<58}{outcome.because}", flush=True)
            return outcome

        fresh = [mutant for mutant in mutants if not mutant.stale()]
        tests = list(dict.fromkeys(test for mutant in fresh for test in mutant.tests))
        parts = [tests[number::jobs] for number in range(jobs) if tests[number::jobs]]
        for failure in pool.map(healthy, parts):
            if failure is not None:
                print(f"These tests fail without any mutant: mend them first.\n{failure}")
                sys.exit(1)
        return dict(zip([mutant.name for mutant in mutants], pool.map(one, mutants), strict=True))


def main(arguments: list[str] | None = None) -> int:
    """Try the mutants that are asked for, print a table, and say by the exit code whether all were killed."""
    parser = argparse.ArgumentParser(description="Make every mistake in the lists and see whether a test notices.")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this mutant (may be repeated)")
    parser.add_argument("--room", action="append", default=[], help="mutants of this room, or of all in this folder")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default 2)")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for the tests of one mutant")
    options = parser.parse_args(arguments)
    began = time.perf_counter()
    strange = [room for room in options.room if room not in {*ROOMS, *(known.split("/")[0] for known in ROOMS)}]
    if strange:
        parser.error(f"there is no room {', '.join(strange)}: there are {', '.join(ROOMS)}")
    rooms = [room for room in ROOMS if not options.room or {room, room.split("/")[0]} & set(options.room)]
    mutants = [mutant for room in rooms for mutant in mutants_of(room)]
    if options.only:
        unknown = set(options.only) - {mutant.name for mutant in mutants}
        if unknown:
            parser.error(f"no mutant is called {', '.join(sorted(unknown))}")
        mutants = [mutant for mutant in mutants if mutant.name in options.only]
    outcomes = try_all(mutants, max(1, options.jobs), options.timeout)
    counts = dict.fromkeys((KILLED, SLOW, SURVIVED, BROKEN, STALE), 0)
    for outcome in outcomes.values():
        counts[outcome.verdict] += 1
    total = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    print(f"\n{len(mutants)} mutants: {total}, in {time.perf_counter() - began:.0f} s")
    for mutant in mutants:
        if (outcome := outcomes[mutant.name]).verdict not in (KILLED, SLOW):
            print(f"\n{outcome.verdict}: {mutant.name} in {mutant.file}\n  {outcome.because}\n  {mutant.seen}")
    return int(counts[SURVIVED] + counts[BROKEN] + counts[STALE] > 0)


if __name__ == "__main__":
    sys.exit(main())
