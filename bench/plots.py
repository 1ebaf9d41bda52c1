"""Draws the plots of docs/performance.md and docs/ranking.md from JSON; the same JSON gives the same bytes.

Usage: bench/.venv/bin/python bench/plots.py performance|strata FIGURES.json FOLDER
"""

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

STYLE = {
    "svg.hashsalt": "orchestr8-sqlite",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "lines.marker": "o",
    "lines.markersize": 4,
}
Series = Mapping[str, Mapping[int, float]]
PLOTS = {
    "search": (
        "milliseconds of a query, median",
        ("classic tier 2, p50", "default search, p50", "FTS5 bm25", "bm25s", "tantivy", "MiniSearch", "fuzzy scan"),
    ),
    "tail": (
        "milliseconds of a query, 99th percentile",
        ("classic tier 2, p99", "default search, p99", "catalog mode, p99", "full mode, p99"),
    ),
    "build": (
        "seconds",
        ("build", "read and parse YAML", "no-change rebuild", "stat the files", "one changed file"),
    ),
}
"""File → the label of its vertical axis, and the names of its lines: figures, or what figures are compared with."""

IN_MILLISECONDS = ("no-change rebuild", "one changed file")
"""Figures measured in milliseconds but drawn in seconds."""


def read_series(figures: Sequence[Mapping[str, Any]]) -> Series:
    """Return name → size → value, building in seconds; what figures are compared with is listed by its own name."""
    series: dict[str, dict[int, float]] = defaultdict(dict)
    for figure in figures:
        name, against, size = figure["name"], figure["against"], figure["size"]
        scale = 1000 if name in IN_MILLISECONDS else 1
        series[name].setdefault(size, figure["value"] / scale)
        if figure["base"] and not name.endswith("p99"):
            series[against].setdefault(size, figure["base"] / scale)
    return series


def draw(series: Series, names: Sequence[str], label: str, path: Path) -> None:
    """Write one plot to *path*, with a line for each of *names* that was measured."""
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for name in names:
        if points := sorted(series.get(name, {}).items()):
            ours = name.startswith(("classic", "default", "build", "no-change", "one", "catalog", "full"))
            axes.plot(*zip(*points, strict=True), label=name, linestyle="-" if ours else "--")
    axes.set(xscale="log", yscale="log", xlabel="fragments", ylabel=label)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    figure.savefig(path, format="svg", metadata={"Date": None})
    plt.close(figure)


def draw_performance(report: Mapping[str, Any], folder: Path) -> None:
    """Write every plot of docs/performance.md to *folder*."""
    series = read_series([figure for run in report["runs"] for figure in run["figures"]])
    for name, (label, shown) in PLOTS.items():
        draw(series, shown, label, folder / f"performance-{name}.svg")


def draw_strata(sets: Mapping[str, Mapping[str, Sequence[float]]], folder: Path) -> None:
    """Write ranking-strata.svg to *folder*.

    Args:
        sets: Set → stratum → mean, and both ends of its interval. A set with terms has the colour of the set without.
    """
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    colours: dict[str, str] = {}
    for place, (name, strata) in enumerate(sets.items()):
        plain = name.partition(",")[0]
        colour = colours.setdefault(plain, f"C{len(colours)}")
        at = [number + (place - (len(sets) - 1) / 2) * 0.18 for number in range(len(strata))]
        means = [mean for mean, _, _ in strata.values()]
        ends = [[mean - low for mean, low, _ in strata.values()], [high - mean for mean, _, high in strata.values()]]
        filled = colour if name == plain else "white"
        axes.errorbar(at, means, yerr=ends, fmt="o", color=colour, markerfacecolor=filled, elinewidth=1, label=name)
    axes.set_xticks(range(len(strata)), [*strata])
    axes.set(ylabel="nDCG@10", ylim=(0, 1.02))
    axes.legend(fontsize=7, loc="lower right", frameon=False)
    figure.savefig(folder / "ranking-strata.svg", format="svg", metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Write the plots of one kind."""
    kind, figures, folder = sys.argv[1:]
    mpl.use("svg")
    with mpl.rc_context(STYLE):
        {"performance": draw_performance, "strata": draw_strata}[kind](
            json.loads(Path(figures).read_text(encoding="utf-8")), Path(folder)
        )


if __name__ == "__main__":
    main()
