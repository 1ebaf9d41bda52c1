"""Checks that ratios have not got worse: measures them on a small corpus, in under a minute, against recorded ones.

Times are CPU seconds, which other programs on the machine do not add to.

Usage: python bench/smoke.py [--record] [--library DIR]
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from answering import CLASSIC, DEFAULT, FTS, STATEMENT, forgetful, own_contenders
from building import build_anew, no_change, whole_builds
from clock import children_time, race
from corpus import Corpus, make_corpus
from figures import Figure, compare
from queries import make_queries
from starting import keep_compiled_modules, measure_starting, of_processor

from orchestr8_sqlite.index.catalog import Catalog

RECORDED = Path(__file__).with_name("smoke.json")
LIBRARY = Path(__file__).parents[1] / "resources"
SIZE = 400
SEED = 1
QUERIES = 100
ROUNDS = 9
RUNS = 2
"""Runs of builds and starts. Two are enough: CPU seconds vary by a few percent, and a failure is measured again."""

TURN_SECONDS = 0.5

TOLERANCE = 3 / 2
"""A ratio fails above its recorded value times TOLERANCE: machines differ by a third on the same code and library."""

Ratios = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Setting:
    """The corpus, index and queries that the measurements use."""

    corpus: Corpus
    index: Path
    queries: Sequence[str]


Measurement = Callable[[Setting], Ratios]


def main() -> None:
    """Measure, print, and exit with 1 if a ratio has got worse; with --record, store the ratios instead."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help=f"write the measured ratios to {RECORDED.name}")
    parser.add_argument("--library", type=Path, default=LIBRARY, help="folder to grow the corpus from")
    options = parser.parse_args()
    keep_compiled_modules()
    recorded: Ratios = {} if options.record else json.loads(RECORDED.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        corpus = make_corpus(options.library, SIZE, Path(folder), seed=SEED)
        queries = make_queries(corpus.read_documents(), SIZE, seed=SEED, count=QUERIES)
        setting = Setting(corpus, Path(folder, "index.db"), queries)
        ratios = measure_twice(MEASUREMENTS, setting, recorded)
    for name, ratio in ratios.items():
        sys.stdout.write(f"{name:<45} ratio {ratio:8.3g}  {verdict(name, ratio, recorded)}\n")
    if options.record:
        rounded = {name: float(f"{ratio:.3g}") for name, ratio in ratios.items()}
        RECORDED.write_text(json.dumps(rounded, indent=2) + "\n", encoding="utf-8")
    elif worse := worse_than(recorded, ratios):
        sys.exit(f"Slower than recorded by more than half: {'; '.join(worse)}. See docs/performance.md.")


def measure_twice(measurements: Sequence[Measurement], setting: Setting, recorded: Ratios) -> dict[str, float]:
    """Return the ratio of each figure; if one of a measurement got worse, repeat it and take the better of each."""
    ratios: dict[str, float] = {}
    for measure in measurements:
        found = dict(measure(setting))
        if worse_than(recorded, found):
            again = measure(setting)
            found = {name: min(ratio, again[name]) for name, ratio in found.items()}
        ratios |= found
    return ratios


def worse_than(recorded: Ratios, ratios: Ratios) -> list[str]:
    """Return the names of the figures whose ratio exceeds TOLERANCE times the recorded one."""
    return [name for name, ratio in ratios.items() if ratio > recorded.get(name, ratio) * TOLERANCE]


def verdict(name: str, ratio: float, recorded: Ratios) -> str:
    """Return a ratio's recorded value, its bound, and whether it is within it."""
    if name not in recorded:
        return "recorded now"
    state = "worse" if worse_than(recorded, {name: ratio}) else "ok"
    return f"recorded {recorded[name]:8.3g}  bound {recorded[name] * TOLERANCE:8.3g}  {state}"


def building(setting: Setting) -> Ratios:
    """Return the ratios of a build to parsing the same files, and of a rebuild without changes to a stat of them."""
    corpus, index = setting.corpus, setting.index
    builds = whole_builds(corpus, build_anew(corpus, index, children_time), RUNS, children_time)
    return by_name([*builds, *no_change(corpus, index, RUNS, time.process_time)])


def starting(setting: Setting) -> Ratios:
    """Return the ratios of first answers, by command line and server, to programs that do nothing."""
    return by_name(measure_starting(SIZE, setting.index, of_processor, RUNS))


def answering(setting: Setting) -> Ratios:
    """Return the ratios of the whole answer, its statement alone and classic tier 2 to FTS5 with the same words."""
    index, queries = setting.index, setting.queries
    with Catalog.open(index) as catalog, closing(forgetful(index)) as service:
        every = own_contenders(catalog, service, queries, time.process_time)
        wanted = {name: every[name] for name in (DEFAULT, STATEMENT, CLASSIC, FTS)}
        columns = race(wanted, queries, runs=ROUNDS, seconds=TURN_SECONDS)
    ours = (DEFAULT, STATEMENT, CLASSIC)
    figures = [figure for name in ours for figure in compare(name, SIZE, columns, name, [FTS], ROUNDS)]
    return by_name([figure for figure in figures if figure.name.endswith("p50")])


def by_name(figures: Sequence[Figure]) -> Ratios:
    """Return `figure / floor` → ratio, for the figures that have one."""
    return {f"{figure.name} / {figure.against}": figure.ratio for figure in figures if figure.ratio is not None}


MEASUREMENTS = (building, starting, answering)

if __name__ == "__main__":
    main()
