"""What a fragment holds of a request: how much of it that covers, and what each part adds to the score."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from orchestr8_sqlite.model import Candidate, MatchRequest, Part
from orchestr8_sqlite.tiers.expansion import SEARCHED_WHOLE, Form, Reading
from orchestr8_sqlite.tiers.weighted import RANKED, parameters
from orchestr8_sqlite.tiers.weights import (
    BODY_COVERS,
    CAPABILITY,
    COVERS,
    DESCRIPTION,
    DETAIL_COVERS,
    EVERYDAY_COVERS,
    IDEAL_WORDS,
    NAME,
    NAME_BONUS,
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

HELD_FORMS = """
WITH
query (number, term_id, whole) AS (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]')
      FROM json_each(:forms)),
wanted (id) AS (SELECT value FROM json_each(:ids))
SELECT e.fragment_id, q.number, e.fields, e.weight
  FROM query q CROSS JOIN wanted w JOIN evidence e ON e.term_id = q.term_id AND e.fragment_id = w.id
UNION ALL
SELECT b.fragment_id, q.number, 0, b.weight
  FROM query q CROSS JOIN wanted w JOIN body_evidence b ON b.term_id = q.term_id AND b.fragment_id = w.id
 WHERE q.whole
"""

BONUSES = f"""
WITH {RANKED.strip()},
wanted (id) AS (SELECT value FROM json_each(:ids))
SELECT n.id, NULL AS stem, e.points * n.share * {NAME_BONUS} AS points
  FROM named n JOIN earned e ON e.id = n.id WHERE n.id IN (SELECT id FROM wanted)
UNION ALL
SELECT c.id, term.stem, l.strength * (SELECT points FROM unit)
  FROM candidate c
  JOIN topic t ON t.fragment_id = c.id
  JOIN learnt l ON l.term_id = t.term_id
  JOIN term ON term.id = l.term_id
 WHERE c.id IN (SELECT id FROM wanted) AND l.strength > 0
 ORDER BY 1, 3 DESC, 2
"""

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


def held_forms(db: sqlite3.Connection, reading: Reading, fragment_ids: Sequence[int]) -> dict[int, list[Held]]:
    """Return which forms of the request each fragment holds."""
    rows = [(number, form.term_id, form.how in SEARCHED_WHOLE) for number, form in enumerate(reading.forms)]
    found: dict[int, list[Held]] = {id_: [] for id_ in fragment_ids}
    given = {"forms": json.dumps(rows), "ids": json.dumps(list(fragment_ids))}
    for id_, number, fields, weight in db.execute(HELD_FORMS, given):
        found[id_].append(Held(reading.forms[number], fields, weight / 1000))
    return found


def coverage(reading: Reading, held: Sequence[Held]) -> dict[str, float]:
    """Return for each word of the request how much of it *held* covers, 0 to 1."""
    covered = dict.fromkeys((word.text for word in reading.words), 0.0)
    for one in held:
        share = one.form.factor * COVERS.get(one.form.how, 1.0) * _place_covers(one.fields)
        covered[one.form.word.text] = max(covered[one.form.word.text], share)
    return covered


def _place_covers(fields: int) -> float:
    """Return how much of a word is covered that stands in these fields; none means in the body alone."""
    return 1.0 if fields & TOPIC else DETAIL_COVERS if fields else BODY_COVERS


def covered_share(reading: Reading, covered: Mapping[str, float]) -> float:
    """Return how much of the request is covered, 0 to 1: the words weighed by rarity, IDEAL_WORDS of them enough."""
    wanted = {word.text: word.rarity * (EVERYDAY_COVERS if word.everyday else 1.0) for word in reading.words}
    enough = sum(sorted(wanted.values(), reverse=True)[:IDEAL_WORDS])
    return min(1.0, sum(wanted[text] * share for text, share in covered.items()) / enough) if enough else 0.0


def explain(
    db: sqlite3.Connection, request: MatchRequest, reading: Reading, candidates: Sequence[Candidate]
) -> dict[int, tuple[Part, ...]]:
    """Return the parts of each candidate's score, the largest first; their points add up to the score."""
    ids = [candidate.fragment_id for candidate in candidates]
    parts: dict[int, list[Part]] = defaultdict(list)
    for id_, held in held_forms(db, reading, ids).items():
        best: dict[str, Held] = {}
        for one in held:
            if one.form.word.text not in best or one.points > best[one.form.word.text].points:
                best[one.form.word.text] = one
        parts[id_] += [_part(one) for one in best.values()]
    bonuses = db.execute(BONUSES, {**parameters(request, reading), "ids": json.dumps(ids)}).fetchall()
    for id_, stem, points in bonuses:
        if stem is None:
            parts[id_].append(Part(None, "", "name", ("name",), points))
        else:
            parts[id_].append(Part(None, stem, "learnt", (), points))
    labels = dict(db.execute(LABELS, {"stems": _stems(parts)}))
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
