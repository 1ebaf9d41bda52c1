"""Measures building and answering at several sizes and writes docs/performance.md.

Usage: python bench/run.py [--sizes 400 5000 50000] [--library DIR] [--workdir DIR] [--print-only]
"""

import argparse
import json
import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from agreement import measure_agreement
from answering import measure_answering, measure_memory, measure_tier_1
from building import measure_building
from contest import PYTHON
from corpus import make_corpus
from figures import Figure, growth, judge
from hardest import measure_hardest
from queries import make_queries
from report import Report, render, write_document
from starting import keep_compiled_modules, measure_starting

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "performance.md"
SIZES = (400, 5_000, 50_000)
SEED = 1
GROWTH_FROM = 5_000


def main() -> None:
    """Measure, print, and write the JSON, the tables and the plots."""
    options = read_options()
    keep_compiled_modules()
    options.workdir.mkdir(parents=True, exist_ok=True)
    figures: list[Figure] = []
    seconds: dict[int, float] = {}
    missing: dict[str, str] = {}
    for size in sorted(set(options.sizes)):
        started = time.perf_counter()
        found, absent = measure(options.library, size, options.workdir, options.seed)
        figures += found
        missing |= absent
        seconds[size] = time.perf_counter() - started
    figures += growth(figures, "default search", GROWTH_FROM)
    name = options.library.resolve().name
    report = Report(machine(), name, options.seed, figures, judge(figures), seconds, missing)
    text = render(report)
    sys.stdout.write(text + "\n")
    result = options.workdir / "performance.json"
    result.write_text(json.dumps(report.as_json(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    say(f"figures: {result}")
    if not options.print_only:
        write_document(DOCUMENT, text)
        subprocess.run([str(PYTHON), str(ROOT / "bench" / "plots.py"), str(result), str(DOCUMENT.parent)], check=True)


def read_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="fragments of the corpora")
    parser.add_argument("--library", type=Path, default=ROOT / "resources", help="folder that the corpora grow from")
    parser.add_argument("--workdir", type=Path, default=Path(tempfile.gettempdir()) / "orchestr8-bench")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--print-only", action="store_true", help="leave the document as it is")
    return parser.parse_args()


def measure(library: Path, size: int, workdir: Path, seed: int) -> tuple[list[Figure], dict[str, str]]:
    """Return the figures at one *size*, and why some peers are missing."""
    say(f"{size:,} fragments: corpus")
    corpus = make_corpus(library, size, workdir, seed=seed)
    queries = make_queries(corpus.read_documents(), size, seed=seed)
    index = workdir / f"index-{size}.db"
    say(f"{size:,} fragments: building")
    figures = measure_building(corpus, index)
    say(f"{size:,} fragments: starting")
    figures += measure_starting(size, index)
    say(f"{size:,} fragments: answering {len(queries)} queries")
    figures += measure_tier_1(size, index, queries)
    answers, missing = measure_answering(corpus, index, queries)
    figures += answers
    say(f"{size:,} fragments: hardest requests, memory and agreement")
    figures += measure_hardest(size, index)
    figures += measure_memory(size, index, queries)
    return figures + measure_agreement(size, index, queries), dict(missing)


def machine() -> str:
    """Return in one sentence what the figures were measured on."""
    return (
        f"{platform.system()} on {platform.machine()}, {os.cpu_count()} CPUs, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}."
    )


def say(what: str) -> None:
    """Say what is being done."""
    sys.stderr.write(what + "\n")


if __name__ == "__main__":
    main()
