"""What a run found, as text: tables of ratios and of values over the sizes, and what held."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clock import RUNS
from figures import Figure, Verdict

BEGIN, END = "<!-- written by `make bench` from here -->", "<!-- to here -->"
NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a run found. `seconds` is how long each size took, `missing` why peers are not in it."""

    machine: str
    library: str
    seed: int
    figures: Sequence[Figure]
    verdicts: Sequence[Verdict]
    seconds: Mapping[int, float]
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def sizes(self) -> list[int]:
        """Return the sizes that were measured, in order."""
        return sorted(self.seconds)

    def as_json(self) -> dict[str, Any]:
        """Return everything by name."""
        return {
            "machine": self.machine,
            "library": self.library,
            "seed": self.seed,
            "seconds": self.seconds,
            "missing": self.missing,
            "figures": [figure.as_json() for figure in self.figures],
            "verdicts": [verdict.as_json() for verdict in self.verdicts],
        }


def render(report: Report) -> str:
    """Return the report as Markdown: ratios first, then values, then what must hold."""
    compared = [figure for figure in report.figures if figure.ratio is not None]
    alone = [figure for figure in report.figures if figure.ratio is None]
    took = ", ".join(f"{size:,}: {report.seconds[size] / 60:.0f} min" for size in report.sizes)
    parts = [
        f"{report.machine} Library: {report.library}; seed {report.seed}. The run took, by fragments: {took}.",
        *(f"{name} was not measured: {reason}" for name, reason in report.missing.items()),
        "### Ratios",
        "How many times as much as the one in the second column, in the same run; in brackets the two values.",
        _over_sizes(("figure", "beside"), compared, report.sizes, _ratio),
        "### Values",
        _over_sizes(("figure", "unit"), alone, report.sizes, lambda figure: quantity(figure.value)),
        *_notes(report.figures),
        "### What must hold",
        verdict_table(report.verdicts),
    ]
    return "\n\n".join(parts)


def verdict_table(verdicts: Sequence[Verdict]) -> str:
    """Return each bound with what was measured."""
    rows = [
        (
            verdict.bound.name,
            verdict.bound.against or NOTHING,
            f"{verdict.size:,}",
            f"{'≥' if verdict.bound.at_least else '≤'} {quantity(verdict.bound.limit)} {verdict.bound.unit}".strip(),
            quantity(verdict.measured),
            str(verdict),
        )
        for verdict in sorted(verdicts, key=lambda verdict: verdict.size)
    ]
    return table(("figure", "beside", "fragments", "bound", "measured", ""), rows, numbers=3)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: int) -> str:
    """Return a Markdown table; all columns but the first *numbers* - 1 are set to the right."""
    rules = ["---"] * (numbers - 1) + ["--:"] * (len(head) - numbers + 1)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rules, *rows))


def quantity(value: float) -> str:
    """Return a number with three digits that count."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.1g}"


def renew(document: str, text: str) -> str:
    """Return *document* with *text* between its marks."""
    head, rest = document.split(BEGIN)
    _, tail = rest.split(END)
    return f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}"


def write_document(path: Path, text: str) -> None:
    """Write *text* between the marks of the document at *path*."""
    path.write_text(renew(path.read_text(encoding="utf-8"), text), encoding="utf-8")


def _over_sizes(
    head: tuple[str, str], figures: Sequence[Figure], sizes: Sequence[int], cell: Callable[[Figure], str]
) -> str:
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
    """Return which ratios are the median of fewer runs than usual."""
    few = sorted({(one.size, one.name, one.runs) for one in figures if one.base and 0 < one.runs < RUNS})
    listed = "; ".join(f"{name} at {size:,} ({runs})" for size, name, runs in few)
    return [f"Fewer than {RUNS} runs, because one takes long: {listed}."] if few else []
