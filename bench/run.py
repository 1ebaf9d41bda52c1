"""Measures building and answering at several sizes and writes docs/performance.md.

Usage: python bench/run.py [--sizes 413 5000 50000] [--library DIR] [--workdir DIR] [--alone] [--print-only]
"""

import argparse
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from answering import measure_answering, measure_memory, measure_tier_1
from building import measure_building
from contest import PYTHON
from corpus import make_corpus
from figures import LARGE, MEDIUM, SKILLS, SMALL
from hardest import measure_hardest
from parts import LARGEST, build_parts
from queries import make_queries
from reload import LIBRARY, measure_reload
from report import Run, read_report, render, write_document
from starting import keep_compiled_modules, measure_starting

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "performance.md"
SIZES = (SMALL, MEDIUM, LARGE)
SEED = 1


def main() -> None:
    """Measure, print, and write the JSON, the tables and the plots."""
    options = read_options()
    keep_compiled_modules()
    options.workdir.mkdir(parents=True, exist_ok=True)
    result = options.workdir / "performance.json"
    report = read_report(result, machine(), options.library.resolve().name, options.seed)
    for size in sorted(set(options.sizes)):
        report = report.with_run(
            measure(options.library, size, options.workdir, options.seed, with_peers=not options.alone)
        )
        report.write(result)
    if options.alone:
        say("skipped: saves and other programs (--alone)")
    elif LIBRARY.is_dir():
        report = report.with_run(measure_saves())
        report.write(result)
    else:
        say(f"skipped: saves; {LIBRARY} is missing (not part of this repository): set ORCHESTR8_SHARED to its folder")
    text = render(report)
    sys.stdout.write(text + "\n")
    say(f"figures: {result}")
    if not options.print_only:
        write_document(DOCUMENT, text)
        plots = str(ROOT / "bench" / "plots.py")
        subprocess.run([str(PYTHON), plots, "performance", str(result), str(DOCUMENT.parent)], check=True)


def read_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="sizes of the corpora, in fragments")
    parser.add_argument("--library", type=Path, default=ROOT / "resources", help="folder to grow the corpora from")
    parser.add_argument("--workdir", type=Path, default=Path(tempfile.gettempdir()) / "orchestr8-bench")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--alone", action="store_true", help="skip saves and other programs")
    parser.add_argument("--print-only", action="store_true", help="do not change the document")
    return parser.parse_args()


def measure(library: Path, size: int, workdir: Path, seed: int, *, with_peers: bool = True) -> Run:
    """Measure everything at one *size* and return the figures."""
    started, at = time.perf_counter(), now()
    say(f"{size:,} fragments: corpus")
    corpus = make_corpus(library, size, workdir, seed=seed)
    queries = make_queries(corpus.read_documents(), size, seed=seed)
    index = workdir / f"index-{size}.db"
    say(f"{size:,} fragments: building")
    figures = measure_building(corpus, index)
    if size <= LARGEST:
        figures += build_parts(corpus, index.with_suffix(".parts"))
    say(f"{size:,} fragments: starting")
    figures += measure_starting(size, index)
    say(f"{size:,} fragments: answering {len(queries)} queries")
    figures += measure_tier_1(size, index, queries)
    answers, missing = measure_answering(corpus, index, queries, with_peers=with_peers)
    figures += answers
    say(f"{size:,} fragments: hardest requests and memory")
    figures += measure_hardest(size, index)
    figures += measure_memory(size, index, queries)
    return Run(size, at, time.perf_counter() - started, figures, missing)


def measure_saves() -> Run:
    """Measure how long a save in a library of SKILLS takes to reach a client, and return the figures."""
    started, at = time.perf_counter(), now()
    say(f"{SKILLS:,} skills: saving")
    figures = measure_reload()
    return Run(SKILLS, at, time.perf_counter() - started, figures)


def now() -> str:
    """Return the date and commit of this measurement."""
    return f"{datetime.now(UTC):%Y-%m-%d} at {commit()}"


def machine() -> str:
    """Return one sentence about the machine, Python and SQLite that the figures come from."""
    return (
        f"{platform.system()} on {platform.machine()}, {os.cpu_count()} CPUs, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}."
    )


def commit() -> str:
    """Return the measured commit, marked as dirty if files differ from it."""
    git = shutil.which("git")
    if git is None:
        return "no commit"
    command = [git, "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip() or "no commit"


def say(what: str) -> None:
    """Print progress on standard error."""
    sys.stderr.write(what + "\n")


if __name__ == "__main__":
    main()
