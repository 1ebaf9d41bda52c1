"""Tries other weights than the product's: nDCG@10 of every query under them, and cross-validation over the queries."""

import importlib
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import mean

from judged import JudgedSet

from orchestr8_sqlite.model.requests import MatchRequest
from orchestr8_sqlite.ranking import reading, weights
from orchestr8_sqlite.ranking.lookup import find

FOLDS = 5
GRID: Mapping[str, Sequence[float]] = {
    "NAME_BONUS": (0.2, 0.4, 0.6),
    "FEEDBACK": (0.15, 0.3, 0.45),
    "related": (0.5, 0.7, 0.9),
    "synonym": (0.7, 0.8, 0.9),
    "EVERYDAY": (0.5, 0.7, 0.9),
}
GRID_OF_TERMS: Mapping[str, Sequence[float]] = {"TERM": (0.4, 0.5, 0.6), "CONFIRMED": (1.15, 1.3, 1.5)}
"""Weight → (lower neighbour, the product's value, upper neighbour). A setting changes at most CHANGES of them."""

CHANGES = 2


def cross_validate(sets: Sequence[JudgedSet], grid: Mapping[str, Sequence[float]] = GRID) -> dict[str, float]:
    """Return nDCG@10 on queries that had no part in choosing the setting from *grid*.

    The queries of every set are dealt into FOLDS. Each fold is answered with the setting that is best on the other
    folds of all sets (by the mean of the sets' means).
    """
    settings = list(_settings(grid))
    measured = [measure_queries(sets, setting) for setting in settings]
    dealer = random.Random(1)  # noqa: S311 - statistics, the same every time
    folds = {judged.name: {query.id: dealer.randrange(FOLDS) for query in judged.answerable} for judged in sets}
    outcome: dict[str, list[float]] = {judged.name: [] for judged in sets}
    for fold in range(FOLDS):
        best = max(measured, key=lambda values: _mean_elsewhere(values, folds, fold))
        for judged in sets:
            outcome[judged.name] += [best[judged.name][id_] for id_, at in folds[judged.name].items() if at == fold]
    return {name: mean(values) for name, values in outcome.items()}


def _mean_elsewhere(
    values: Mapping[str, Mapping[str, float]], folds: Mapping[str, Mapping[str, int]], fold: int
) -> float:
    return mean(
        mean(values[name][id_] for id_, at in assigned.items() if at != fold) for name, assigned in folds.items()
    )


def _settings(grid: Mapping[str, Sequence[float]]) -> Iterator[dict[str, float]]:
    """Yield the product's setting and those that differ from it in up to CHANGES values."""
    usual = {name: values[1] for name, values in grid.items()}
    yield usual
    for count in range(1, CHANGES + 1):
        for names in itertools.combinations(grid, count):
            for changed in itertools.product(*((grid[name][0], grid[name][2]) for name in names)):
                yield {**usual, **dict(zip(names, changed, strict=True))}


def measure_queries(sets: Sequence[JudgedSet], setting: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return set → query → nDCG@10 under *setting*."""
    import ir_measures  # noqa: PLC0415 - slow to import

    metric = ir_measures.nDCG @ 10
    values = {}
    with _weights(setting):
        for judged in sets:
            run = {}
            for query in judged.answerable:
                request = MatchRequest(" ".join(query.text.split()), terms=query.terms)
                candidates = find(judged.catalog, request, quick=False).candidates
                run[query.id] = {judged.names[c.uri]: -float(rank) for rank, c in enumerate(candidates)}
            found = dict.fromkeys((query.id for query in judged.answerable), 0.0)
            judgements = {id_: dict(judged.qrels.get(id_, {})) for id_ in found}
            for value in ir_measures.iter_calc([metric], judgements, run):
                found[value.query_id] = float(value.value)
            values[judged.name] = found
    return values


@contextmanager
def _weights(setting: Mapping[str, float]) -> Iterator[None]:
    """Run the block with *setting* in the ranker, then restore the weights."""
    before = {name: weights.FACTORS.get(name, getattr(weights, name, 0.0)) for name in setting}
    _set(setting)
    try:
        yield
    finally:
        _set(before)


def _set(setting: Mapping[str, float]) -> None:
    for name, value in setting.items():
        if name in weights.FACTORS:
            weights.FACTORS[name] = value
        else:
            setattr(weights, name, value)
    # `reading` copies weights when it is imported.
    importlib.reload(reading)
