"""What a fragment holds of a request: how much of it that covers, and what each part adds to the score."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from orchestr8_sqlite.model import Candidate, Part
from orchestr8_sqlite.tiers.expansion import Form, Reading
from orchestr8_sqlite.tiers.holders import Holders
from orchestr8_sqlite.tiers.weighted import Ranking
from orchestr8_sqlite.tiers.weights import (
    BODY_COVERS,
    CAPABILITY,
    COVERS,
    DESCRIPTION,
    DETAIL_COVERS,
    EVERYDAY_COVERS,
    IDEAL_WORDS,
    NAME,
    SCENARIO,
    TAG,
    TITLE,
    TOPIC,
)

FIELD_NAMES = {
    NAME: "name",
    TITLE: "title",
    TAG: "tag",
    CAPABILITY: "capability",
    SCENARIO: "scenario",
    DESCRIPTION: "description",
}

LABELS = """
SELECT value, coalesce((SELECT text FROM keyword WHERE stem = value ORDER BY fragment_count DESC, text LIMIT 1), value)
  FROM json_each(:stems)
"""


class Held(NamedTuple):
    """A form that a fragment holds; `fields` are bits, 0 for the body alone, `weight` is what it earns of the gain."""

    form: Form
    fields: int
    weight: float

    @property
    def points(self) -> float:
        """Return what the fragment earns by it."""
        return self.form.gain * self.weight


def held_forms(reading: Reading, holders: Holders, fragment_ids: Sequence[int]) -> dict[int, list[Held]]:
    """Return which forms of the request each fragment holds."""
    found: dict[int, list[Held]] = {id_: [] for id_ in fragment_ids}
    for form in reading.forms:
        for id_, one in holders.held(form, reading, fragment_ids):
            found[id_].append(Held(form, one.fields, one.weight / 1000))
    return found


def coverage(reading: Reading, held: Sequence[Held]) -> dict[str, float]:
    """Return for each word of the request how much of it *held* covers, 0 to 1."""
    covered = {word.text: 0.0 for word in reading.words}
    for form, fields, _ in held:
        share = form.factor * COVERS.get(form.how, 1.0) * _place_covers(fields)
        covered[form.word.text] = max(covered[form.word.text], share)
    return covered


def _place_covers(fields: int) -> float:
    """Return how much of a word is covered that stands in these fields; none means in the body alone."""
    return 1.0 if fields & TOPIC else DETAIL_COVERS if fields else BODY_COVERS


def covered_share(reading: Reading, covered: Iterable[Mapping[str, float]]) -> float:
    """Return the most of the request that any of *covered* covers, 0 to 1.

    The words are weighed by rarity, IDEAL_WORDS of them are enough.
    """
    wanted = {word.text: word.rarity * (EVERYDAY_COVERS if word.everyday else 1.0) for word in reading.words}
    enough = sum(sorted(wanted.values(), reverse=True)[:IDEAL_WORDS])
    met = max((sum(wanted[text] * share for text, share in one.items()) for one in covered), default=0.0)
    return min(1.0, met / enough) if enough else 0.0


def explain(
    reading: Reading, holders: Holders, ranking: Ranking, candidates: Sequence[Candidate]
) -> dict[int, tuple[Part, ...]]:
    """Return the parts of each candidate's score, the largest first; their points add up to the score."""
    parts: dict[int, list[Part]] = {}
    for id_, held in held_forms(reading, holders, [candidate.fragment_id for candidate in candidates]).items():
        best: dict[str, Held] = {}
        for one in held:
            if one.form.word.text not in best or one.points > best[one.form.word.text].points:
                best[one.form.word.text] = one
        parts[id_] = [_part(one) for one in best.values()]
        if ranking.named.of(id_):
            parts[id_].append(Part(None, "", "name", ("name",), ranking.best[id_] - ranking.earned.of(id_)))
        learnt = [(ranking.learnt[stem], stem) for stem in ranking.topics.get(id_, ()) if ranking.learnt.get(stem)]
        parts[id_] += [Part(None, stem, "learnt", (), points) for points, stem in sorted(learnt, reverse=True)]
    labels = dict(holders.db.execute(LABELS, {"stems": _stems(parts)}))
    return {c.fragment_id: _add_up(parts[c.fragment_id], c.score, labels) for c in candidates}


def _part(held: Held) -> Part:
    fields = tuple(name for bit, name in FIELD_NAMES.items() if held.fields & bit) or ("body",)
    return Part(held.form.word.text, held.form.text, held.form.how, fields, held.points)


def _stems(parts: Mapping[int, Sequence[Part]]) -> str:
    return json.dumps(sorted({part.form for found in parts.values() for part in found if part.form}))


def _add_up(parts: Sequence[Part], score: float, labels: Mapping[str, str]) -> tuple[Part, ...]:
    """Return *parts* in hundredths that add up to *score*, the largest taking what rounding leaves."""
    total = sum(part.points for part in parts)
    scale = score / total if total else 0.0
    cents = [round(part.points * scale * 100) for part in parts]
    if cents:
        largest = max(range(len(cents)), key=cents.__getitem__)
        cents[largest] += round(score * 100) - sum(cents)
    shown = (
        Part(
            part.word,
            part.form if part.how in ("exact", "typo", "joined", "part") else labels.get(part.form, ""),
            part.how,
            part.fields,
            cent / 100,
        )
        for part, cent in zip(parts, cents, strict=True)
        if cent
    )
    return tuple(sorted(shown, key=lambda part: (-part.points, part.word or "", part.form)))
