"""A badge with the figures of a library, as shields.io draws it from a JSON file."""

from collections.abc import Sequence

from orchestr8_sqlite.evaluation.measures import StratumScore

SHOWN = "recall@5"
HELD, MISSED, UNBOUND = "brightgreen", "red", "blue"


def make_badge(scores: Sequence[StratumScore], *, bounded: bool, unmet: Sequence[str]) -> dict[str, object]:
    """Return a badge with recall@5 of all queries; its colour says whether the bounds hold, if there are any.

    Source: shields.io/badges/endpoint-badge, "Schema".
    """
    colour = MISSED if unmet else HELD if bounded else UNBOUND
    return {"schemaVersion": 1, "label": SHOWN, "message": f"{scores[0].means[SHOWN]:.2f}", "color": colour}
