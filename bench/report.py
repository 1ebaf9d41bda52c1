"""Renders and stores the figures of all sizes: tables of ratios and values by size, and which bounds hold."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from clock import RUNS
from figures import Figure, Verdict, judge

BEGIN, END = "<!-- written by `make bench` from here -->", "<!-- to here -->"
NOTHING = "–"
REASON = """
The index is plain rows that SQL reads, made for libraries of 100 to 50,000 fragments, and this is what that may cost.
""".strip()
"""Why the bounds are what they are."""


@dataclass(frozen=True, slots=True)
class Run:
    """The figures of one size. `at` says when and at which commit; `missing` says why a peer is absent."""

    size: int
    at: str
    seconds: float
    figures: Sequence[Figure]
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """The last run of each size, smallest first."""

    machine: str
    library: str
    seed: int
    runs: Sequence[Run]

    @property
    def figures(self) -> list[Figure]:
        """Return the figures of all sizes."""
        return [figure for run in self.runs for figure in run.figures]

    @property
    def verdicts(self) -> list[Verdict]:
        """Return a verdict for each bound."""
        return judge(self.figures)

    def with_run(self, run: Run) -> "Report":
        """Return a report in which *run* replaces the run of its size."""
        runs = {known.size: known for known in (*self.runs, run)}
        return Report(self.machine, self.library, self.seed, [runs[size] for size in sorted(runs)])

    def write(self, path: Path) -> None:
        """Write the report and its verdicts to *path* as JSON."""
        runs = [{**asdict(run), "figures": [figure.as_json() for figure in run.figures]} for run in self.runs]
        content = {**asdict(self), "runs": runs, "verdicts": [verdict.as_json() for verdict in self.verdicts]}
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_report(path: Path, machine: str, library: str, seed: int) -> Report:
    """Return the report in *path*; an empty one if the file is missing or is about another machine, library or seed."""
    if path.exists():
        content = json.loads(path.read_text(encoding="utf-8"))
        if (content["machine"], content["library"], content["seed"]) == (machine, library, seed):
            return Report(machine, library, seed, [_read_run(run) for run in content.get("runs", ())])
    return Report(machine, library, seed, [])


def _read_run(run: Mapping[str, Any]) -> Run:
    return Run(**{**run, "figures": [Figure.from_json(figure) for figure in run["figures"]]})


def render(report: Report) -> str:
    """Return the report as Markdown: ratios first, then values, then what must hold."""
    figures = report.figures
    compared = [figure for figure in figures if figure.ratio is not None]
    alone = [figure for figure in figures if figure.ratio is None]
    when = "; ".join(f"{run.size:,}: {run.at}, {run.seconds / 60:.0f} min" for run in report.runs)
    missing = {name: reason for run in report.runs for name, reason in run.missing.items()}
    parts = [
        f"{report.machine} Library: {report.library}; seed {report.seed}.",
        f"When, of which commit, and how long it took, by fragments: {when}.",
        *(f"{name} was not measured: {reason}" for name, reason in missing.items()),
        "### Ratios",
        "How many times as much as the one in the second column, in the same run; in brackets the two values.",
        _over_sizes(("figure", "beside"), compared, _ratio),
        "### Values",
        _over_sizes(("figure", "unit"), alone, lambda figure: quantity(figure.value)),
        *_notes(figures),
        "### What must hold",
        REASON,
        verdict_table(report.verdicts),
    ]
    return "\n\n".join(parts)


def verdict_table(verdicts: Sequence[Verdict]) -> str:
    """Return the table of bounds and measured values, by size."""
    rows = [
        (
            verdict.bound.name,
            verdict.bound.against or NOTHING,
            f"{verdict.bound.size:,}",
            f"≤ {quantity(verdict.bound.limit)} {verdict.bound.unit}".strip(),
            NOTHING if verdict.measured is None else quantity(verdict.measured),
            str(verdict),
        )
        for verdict in sorted(verdicts, key=lambda verdict: verdict.bound.size)
    ]
    return table(("figure", "beside", "fragments", "bound", "measured", ""), rows, numbers=3)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: int) -> str:
    """Return a Markdown table; columns from the one numbered *numbers* (first: 1) on are right-aligned."""
    rules = ["---"] * (numbers - 1) + ["--:"] * (len(head) - numbers + 1)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rules, *rows))


def quantity(value: float) -> str:
    """Return a number with three significant digits, one below 0.001, and whole from 100 on."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.1g}"


def renew(document: str, text: str) -> str:
    """Return *document* with *text* in place of what stood between its marks."""
    head, rest = document.split(BEGIN)
    _, tail = rest.split(END)
    return f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}"


def write_document(path: Path, text: str) -> None:
    """Write *text* between the marks of the document at *path*."""
    path.write_text(renew(path.read_text(encoding="utf-8"), text), encoding="utf-8")


def _over_sizes(head: tuple[str, str], figures: Sequence[Figure], cell: Callable[[Figure], str]) -> str:
    sizes = sorted({figure.size for figure in figures})
    rows: dict[tuple[str, str], dict[int, str]] = {}
    for figure in figures:
        rows.setdefault((figure.name, figure.against or figure.unit), {})[figure.size] = cell(figure)
    columns = [*head, *(f"{size:,}" for size in sizes)]
    return table(columns, [(*key, *(row.get(size, NOTHING) for size in sizes)) for key, row in rows.items()], numbers=3)


def _ratio(figure: Figure) -> str:
    assert figure.ratio is not None
    assert figure.base is not None
    return f"**{quantity(figure.ratio)}** ({quantity(figure.value)} / {quantity(figure.base)} {figure.unit})"


def _notes(figures: Sequence[Figure]) -> list[str]:
    """Return a sentence that lists the ratios based on fewer runs than usual; empty if there are none."""
    of_few = [one for one in figures if one.base and 0 < one.runs < RUNS]
    few = sorted({(one.size, one.name.partition(":")[0], one.runs) for one in of_few})
    listed = "; ".join(f"{name} at {size:,} ({runs})" for size, name, runs in few)
    return [f"Fewer than {RUNS} runs, because one takes long: {listed}."] if few else []
