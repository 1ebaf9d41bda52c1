"""Tells which words of a request a fragment holds, how much of it they cover, and what each adds to the score."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from orchestr8_sqlite.index.connections import Reader
from orchestr8_sqlite.model.requests import Candidate, Part, Statement
from orchestr8_sqlite.ranking.default import HELD, HELD_IN_BODIES, PARTS, body_match
from orchestr8_sqlite.ranking.reading import SAID, Form, Reading, Word
from orchestr8_sqlite.ranking.weights import (
    BODIES_COVER,
    BODY_COVERS,
    CAPABILITY,
    COVERS,
    DESCRIPTION,
    DETAIL_COVERS,
    EVERYDAY_COVERS,
    FURTHER_COVERS,
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


class HeldForm(NamedTuple):
    """A form that a fragment holds; `fields` are bits, 0 if only the body holds it."""

    form: Form
    fields: int


def held_forms(db: Reader, reading: Reading, fragment_ids: Sequence[int]) -> dict[int, list[HeldForm]]:
    """Return the forms of the request that the short texts of each fragment hold, by fragment."""
    fields: dict[tuple[int, int], int] = {}
    stems = [(form.stem,) for form in reading.forms]
    asked = {"forms": json.dumps(stems, ensure_ascii=False), "ids": json.dumps(list(fragment_ids))}
    for id_, place, bits in db.execute(HELD, asked):
        fields[id_, place] = fields.get((id_, place), 0) | bits
    found: dict[int, list[HeldForm]] = {id_: [] for id_ in fragment_ids}
    for (id_, place), bits in fields.items():
        found[id_].append(HeldForm(reading.forms[place], bits))
    return found


def held_anywhere(db: Reader, reading: Reading, held: Mapping[int, Sequence[HeldForm]]) -> dict[int, list[HeldForm]]:
    """Return *held*, with the forms that only the bodies of these fragments hold."""
    known = {id_: {form for form, _ in forms} for id_, forms in held.items()}
    whole = [(place, form, body_match(db, form)) for place, form in enumerate(reading.forms) if form.how in SAID]
    pairs = [(id_, place, match) for place, form, match in whole for id_ in held if form not in known[id_]]
    found = {id_: list(forms) for id_, forms in held.items()}
    if pairs:
        for id_, place in db.execute(HELD_IN_BODIES, {"pairs": json.dumps(pairs, ensure_ascii=False)}):
            found[id_].append(HeldForm(reading.forms[place], 0))
    return found


def coverage(reading: Reading, held: Sequence[HeldForm]) -> dict[str, float]:
    """Return how much *held* covers of each word of the request and its terms, 0 to 1."""
    covered = {word.text: 0.0 for word in (*reading.words, *reading.terms)}
    for form, fields in held:
        share = form.factor * COVERS.get(form.how, 1.0) * _place_covers(fields)
        covered[form.word.text] = max(covered[form.word.text], share)
    return covered


def _place_covers(fields: int) -> float:
    """Return how much of a word is covered if these fields hold it; 0 means only the body does."""
    return 1.0 if fields & TOPIC else DETAIL_COVERS if fields else BODY_COVERS


def covered_share(reading: Reading, held: Collection[Sequence[HeldForm]]) -> float:
    """Return the largest share of the request that any of *held* covers, 0 to 1.

    With terms, this is the larger of two: the share of request and terms together, and the mean of that and the
    request's own share.
    """
    covered = [(coverage(reading, forms), coverage(reading, [one for one in forms if one.fields])) for forms in held]
    own = _covered_share(reading.words, covered)
    if not reading.terms:
        return own
    with_terms = _covered_share((*reading.words, *reading.terms), covered)
    return max(with_terms, (own + with_terms) / 2)


def _covered_share(
    words: Sequence[Word], covered: Collection[tuple[Mapping[str, float], Mapping[str, float]]]
) -> float:
    """Return the largest share of *words*, by rarity, that a fragment covers.

    Args:
        covered: What each fragment covers anywhere, and what its short texts cover.
    """
    wanted = {word.text: word.rarity * (EVERYDAY_COVERS if word.everyday else 1.0) for word in words}
    rarest = sorted(wanted.values(), reverse=True) or [0.0]
    enough = sum(rarest[:IDEAL_WORDS]) + FURTHER_COVERS * sum(rarest[IDEAL_WORDS:])

    def met(by: Mapping[str, float]) -> float:
        return sum(weight * by[text] for text, weight in wanted.items())

    def most(anywhere: float, in_short_texts: float) -> float:
        return in_short_texts + min(anywhere - in_short_texts, BODIES_COVER * rarest[0])

    best = max((most(met(anywhere), met(short)) for anywhere, short in covered), default=0.0)
    return min(1.0, best / enough) if enough else 0.0


def explain(
    db: Reader, statement: Statement, candidates: Sequence[Candidate]
) -> tuple[dict[int, tuple[Part, ...]], Statement]:
    """Return the parts of each candidate's score, the largest first, and the statement that finds them.

    Their points add up to the score.

    Args:
        statement: The statement that found the candidates.
    """
    ids = json.dumps([candidate.fragment_id for candidate in candidates])
    asked = Statement(PARTS, {**statement.parameters, "ids": ids})
    parts: dict[int, list[Part]] = {candidate.fragment_id: [] for candidate in candidates}
    for id_, _, word, form, how, fields, points in db.execute(asked.sql, asked.parameters):
        parts[id_].append(Part(word, form, how, _field_names(how, fields), points))
    return {c.fragment_id: _add_up(parts[c.fragment_id], c.score) for c in candidates}, asked


def _field_names(how: str, fields: int) -> tuple[str, ...]:
    if how in {"learnt", "focus"}:
        return ()
    return tuple(name for bit, name in FIELD_NAMES.items() if fields & bit) or ("body",)


def _add_up(parts: Sequence[Part], score: float) -> tuple[Part, ...]:
    """Return *parts* with two decimals that add up to *score*; the largest part absorbs the rounding error."""
    cents = [round(part.points * 100) for part in parts]
    if cents:
        largest = max(range(len(cents)), key=cents.__getitem__)
        cents[largest] += round(score * 100) - sum(cents)
    shown = (part._replace(points=cent / 100) for part, cent in zip(parts, cents, strict=True) if cent)
    return tuple(sorted(shown, key=lambda part: (-part.points, part.word or "", part.form)))
