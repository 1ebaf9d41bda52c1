"""Holds an index to bounds before it is published, by what `eval --self` measures."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from orchestr8_sqlite.evaluation import measures
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.requests import Ranker

DIGITS = 4
"""Decimal places of the published figures."""


class Gate(NamedTuple):
    """What an index was held to and what was measured, and a sentence for each bound that it does not meet."""

    bounds: Sequence[str]
    figures: dict[str, Any]
    unmet: Sequence[str]


def hold_to_bounds(index: Path, fail_under: Sequence[str], fail_over: Sequence[str]) -> Gate:
    """Ask the index at *index* its own scenarios and queries, and compare the answers with bounds.

    Raises:
        RequestError: A bound cannot be understood, or ir_measures is not installed.
        CatalogError: The index cannot be read.
    """
    with Catalog.open(index) as catalog:
        asked, judged, report = measures.run_self(catalog, Ranker.DEFAULT)
    scores = measures.score_run(asked, judged, report.run)
    shares = measures.shares_of(asked, judged, report)
    unmet = measures.unmet_bounds(fail_under, scores) + measures.exceeded_bounds(fail_over, shares)
    figures: dict[str, Any] = {
        one.stratum: {"queries": one.queries, **{name: _figure(value) for name, value in one.means.items()}}
        for one in scores
    }
    figures |= {name: _figure(value) for name, value in shares.items() if value is not None}
    return Gate([*fail_under, *fail_over], figures, unmet)


def _figure(value: float) -> float:
    """Return a measure as every writer of JSON prints it: rounded, and 1 instead of 1.0."""
    rounded = round(float(value), DIGITS)
    return int(rounded) if rounded.is_integer() else rounded
