"""Injects the faults of all modules of this package, prints what became of them, and exits 1 if anything was lost.

Run: PYTHONPATH=tests python -m torture.run [--bounded] [--only MODULE] [--seed NUMBER]
"""

import argparse
import os
import pkgutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import torture
from torture import Case, Lost, Skipped, Tried, Wrong

SURVIVED, LOST, WRONG, SKIPPED = "survived", "lost", "wrong answers", "skipped"
COLUMNS = ("fault", "cases", "inputs", SURVIVED, LOST, WRONG, SKIPPED)
SHOWN = 20
"""Cases that went wrong whose reasons are printed."""


class Verdict(NamedTuple):
    """What became of a case, why (or what it tells of itself), the seconds that it took, the inputs that it tried."""

    case: Case
    outcome: str
    reason: str
    seconds: float
    inputs: int = 1


def modules(only: Sequence[str]) -> Iterator[str]:
    """Yield the names of the modules with cases, or those of them that are named in *only*."""
    for found in pkgutil.iter_modules(torture.__path__):
        if (not only or found.name in only) and hasattr(import_module(f"torture.{found.name}"), "cases"):
            yield found.name


def judge(case: Case) -> Verdict:
    """Run *case* in a folder of its own."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="torture-", ignore_cleanup_errors=True) as folder:
        outcome, reason, inputs = _outcome(case, Path(folder))
    return Verdict(case, outcome, reason, time.perf_counter() - began, inputs)


def _outcome(case: Case, folder: Path) -> tuple[str, str, int]:
    """Return what became of *case*, why, and how many inputs it tried; one that goes wrong counts as one."""
    try:
        tried = case.run(folder) or Tried(1, "")
    except Skipped as why:
        return SKIPPED, str(why), 0
    except Wrong as why:
        return WRONG, str(why), 1
    except Lost as why:
        return LOST, str(why), 1
    except Exception:  # noqa: BLE001 - whatever it is, nothing was shown to survive
        return LOST, traceback.format_exc(), 1
    return SURVIVED, tried.said, tried.inputs


def table(verdicts: Iterable[Verdict]) -> str:
    """Return how many cases of each fault came to what; skipped ones were not tried."""
    verdicts = list(verdicts)
    counts = Counter((one.case.fault, one.outcome) for one in verdicts)
    inputs: Counter[str] = Counter()
    for one in verdicts:
        inputs[one.case.fault] += one.inputs
    rows: list[tuple[str, ...]] = [COLUMNS]
    for fault in dict.fromkeys(fault for fault, _ in counts):
        of = {outcome: counts[fault, outcome] for outcome in (SURVIVED, LOST, WRONG, SKIPPED)}
        tried = sum(of.values()) - of[SKIPPED]
        rows.append((fault, str(tried), f"{inputs[fault]:,}", *map(str, of.values())))
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def summary(verdicts: Sequence[Verdict]) -> str:
    """Return one line that says what became of all cases."""
    counts = Counter(one.outcome for one in verdicts)
    tried = len(verdicts) - counts[SKIPPED]
    seconds = sum(one.seconds for one in verdicts)
    return (
        f"{tried} faults injected, {seconds:.0f} s of work: {counts[SURVIVED]} survived, {counts[LOST]} lost, "
        f"{counts[WRONG]} wrong answers; {counts[SKIPPED]} skipped."
    )


def main() -> int:
    """Run the cases and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bounded", action="store_true", help="fewer cases, for CI")
    parser.add_argument("--only", action="append", default=[], metavar="MODULE", help="run the cases of this module")
    parser.add_argument("--seed", type=int, default=0, help="choose other cases")
    options = parser.parse_args()
    if unknown := sorted(set(options.only) - set(modules(()))):
        parser.error(f"no module with cases: {', '.join(unknown)}; there are {', '.join(modules(()))}")
    with tempfile.TemporaryDirectory(prefix="torture-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # some cases build as another user
        tempfile.tempdir = folder  # of what is made once as well, whose processes end without cleaning up
        verdicts = judge_all(tuple(modules(options.only)), options.seed, bounded=options.bounded)
        tempfile.tempdir = None
    bad = [one for one in verdicts if one.outcome in (LOST, WRONG)]
    why = Counter((one.case.fault, one.reason) for one in verdicts if one.outcome == SKIPPED)
    lines = [f"{one.case.fault}, {one.case.name}: {one.outcome}: {one.reason}" for one in bad[:SHOWN]]
    lines += [f"{one.case.fault}: {one.reason}" for one in verdicts if one.outcome == SURVIVED and one.reason]
    lines += [f"{fault}: {count} skipped: {reason}" for (fault, reason), count in why.items()]
    sys.stdout.write("\n".join(["", table(verdicts), "", *lines, summary(verdicts), ""]))
    return 1 if bad or all(one.outcome == SKIPPED for one in verdicts) else 0


def judge_all(names: Sequence[str], seed: int, *, bounded: bool) -> list[Verdict]:
    """Run the cases of the modules *names* in several processes; return what became of them.

    There are twice as many as processors: much of their time they wait for what they kill. They inherit the cases,
    as what injects a fault cannot be sent to another process.
    """
    _inherited[:] = (case for name in names for case in import_module(f"torture.{name}").cases(seed, bounded=bounded))
    with ProcessPoolExecutor(2 * (os.cpu_count() or 1), mp_context=get_context("fork")) as processes:
        return list(processes.map(_judge_inherited, range(len(_inherited))))


_inherited: list[Case] = []


def _judge_inherited(number: int) -> Verdict:
    case = _inherited[number]
    verdict = judge(case)
    _tell(verdict)
    return verdict._replace(case=case._replace(run=_judged))


def _judged(_: Path) -> None:
    """Stand in for a case that was run in another process."""


def _tell(verdict: Verdict) -> None:
    """Show on a terminal that something is going on."""
    if sys.stderr.isatty():
        sys.stderr.write({SURVIVED: ".", SKIPPED: "s"}.get(verdict.outcome, "F"))
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
