"""Which words a fragment holds, where, and how much that earns: the tables that the default ranker reads."""

import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from orchestr8_sqlite.content import Fragment
from orchestr8_sqlite.keywords import count_stems
from orchestr8_sqlite.tiers import weights
from orchestr8_sqlite.tiers.weights import (
    CAPABILITY,
    DESCRIPTION,
    FIELD_WEIGHTS,
    NAME,
    SCENARIO,
    TAG,
    TITLE,
    TOPIC,
    rarity_of,
)
from orchestr8_sqlite.wordlists import Synonym

UNSORTED = "CREATE TEMP TABLE held (term_id INTEGER, fragment_id INTEGER, fields INTEGER, weight INTEGER)"
FILL = (
    f"""
    INSERT INTO evidence
    SELECT h.term_id, h.fragment_id, h.fields, h.weight,
           iif(h.fields & {NAME}, round(1000 * t.rarity / sum(t.rarity) FILTER (WHERE h.fields & {NAME})
                                                         OVER (PARTITION BY h.fragment_id)), 0)
      FROM held h JOIN term t ON t.id = h.term_id WHERE h.fields ORDER BY 1, 2
    """,
    f"""
    INSERT INTO body_evidence
    SELECT h.term_id, h.fragment_id, h.weight
      FROM held h JOIN term t ON t.id = h.term_id
     WHERE NOT h.fields AND t.fragment_count <= {weights.BODY_SPREAD} * (SELECT count(*) FROM fragment)
     ORDER BY 1, 2
    """,
    f"""
    INSERT INTO topic
    SELECT fragment_id, term_id FROM held
     WHERE fields & {TOPIC}
       AND term_id IN (SELECT term_id FROM held WHERE fields & {TOPIC} GROUP BY term_id HAVING count(*) > 1)
     ORDER BY 1, 2
    """,
)

Texts = Mapping[int, str]
"""Field (a bit, 0 for the body) → its text."""

BODY = 0

Numbered = Sequence[tuple[int, Fragment]]
"""(number, fragment) in the order of the URIs; the number is the fragment's row."""


def fragment_texts(fragment: Fragment) -> Texts:
    """Return the texts of a fragment that are searched."""
    lists = {TAG: fragment.tags, CAPABILITY: fragment.capabilities, SCENARIO: fragment.use_when}
    return searched_texts(fragment.name, fragment.title, fragment.description, fragment.body, lists)


def searched_texts(name: str, title: str, description: str, body: str, lists: Mapping[int, Sequence[str]]) -> Texts:
    """Return the texts that are searched; a name is searched by its parts, *lists* by their lines."""
    spaced = name.replace("-", " ").replace("_", " ")
    joined = {field: "\n".join(lines) for field, lines in lists.items()}
    return {NAME: spaced, TITLE: title, DESCRIPTION: description, BODY: body, **joined}


@dataclass(slots=True)
class Held:
    """What a fragment holds: stems with their fields, and with what they earn.

    `lengths` are the keywords of each field; `fields` maps the stems of the short texts to field bits, `body` those
    of them that the body holds to how often; `weights` what each of `fields` was weighed at last.
    """

    lengths: dict[int, int]
    fields: dict[str, int]
    body: dict[str, int] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Evidence:
    """The evidence of an index as it was written, for whoever goes on to change it; fragments by their number."""

    held: dict[int, Held]
    terms: dict[str, int]
    counts: Counter[int]
    topics: dict[int, set[int]]


def hold(texts: Texts) -> Held:
    """Return what the short texts of a fragment hold, not weighed yet."""
    held = Held({}, {})
    for bit in FIELD_WEIGHTS:
        stems = count_stems(texts[bit])
        held.lengths[bit] = sum(stems.values())
        for one in stems:
            held.fields[one] = held.fields.get(one, 0) | bit
    return held


def average_lengths(fragments: Collection[Held]) -> dict[int, float]:
    """Return the mean number of keywords of each field but the body."""
    size = max(1, len(fragments))
    return {bit: sum(held.lengths[bit] for held in fragments) / size for bit in FIELD_WEIGHTS}


def weigh(texts: Texts, averages: Mapping[int, float]) -> Iterator[tuple[str, int, int]]:
    """Yield (stem, fields, weight) of every stem of a fragment; weight in thousandths of the stem's rarity."""
    return weigh_held(hold(texts), count_stems(texts[BODY]), averages)


def weigh_held(held: Held, body: Mapping[str, int], averages: Mapping[int, float]) -> Iterator[tuple[str, int, int]]:
    """Yield (stem, fields, weight) of every stem of *held* and *body* (its stems and how often); *held* keeps them."""
    held.body = {one: body[one] for one in held.fields if one in body}
    yield from weigh_fields(held, averages)
    for one, count in body.items():
        if one not in held.fields:
            yield one, 0, _share(_body_points(count))


def weigh_fields(held: Held, averages: Mapping[int, float]) -> Iterator[tuple[str, int, int]]:
    """Yield (stem, fields, weight) of every stem of the short texts, whose weight rests on *averages*."""
    given = {bit: _field_points(bit, held.lengths[bit], averages[bit]) for bit in FIELD_WEIGHTS}
    sums: dict[int, float] = {}
    for one, fields in held.fields.items():
        if fields not in sums:
            sums[fields] = _added(points for bit, points in given.items() if fields & bit)
        total = sums[fields]
        if one in held.body:
            total += _body_points(held.body[one])
        held.weights[one] = _share(total)
        yield one, fields, held.weights[one]


def _added(points: Iterable[float]) -> float:
    """Return the plain sum from left to right; what `sum` does about rounding differs between versions of Python."""
    total = 0.0
    for one in points:
        total += one
    return total


def _field_points(bit: int, length: int, average: float) -> float:
    relative = length / average if average else 1.0
    return FIELD_WEIGHTS[bit] / (1 - weights.LENGTH_SHARE + weights.LENGTH_SHARE * relative)


def _body_points(count: int) -> float:
    return weights.BODY_WEIGHT * count / (count + weights.BODY_SATURATION)


def _share(points: float) -> int:
    return round(1000 * points / (points + weights.SATURATION))


def topic_rarity_of(size: int, count: int) -> float:
    """Return how rare a term is among names, titles and tags that *count* of *size* fragments hold it in."""
    return math.log((size + 0.5) / (count + 0.5))


def write_evidence(connection: sqlite3.Connection, fragments: Numbered) -> Evidence:
    """Write term, evidence, body_evidence and topic of the (number, fragment) in *fragments*, and return them.

    The temporary table `held` is left with what they were made from.
    """
    held = {number: hold(fragment_texts(fragment)) for number, fragment in fragments}
    averages = average_lengths(held.values())
    terms: dict[str, int] = {}
    counts: Counter[int] = Counter()
    topics: dict[int, set[int]] = defaultdict(set)
    connection.execute(UNSORTED)
    for number, fragment in fragments:
        rows = [
            (terms.setdefault(one, len(terms) + 1), number, fields, weight)
            for one, fields, weight in weigh_held(held[number], count_stems(fragment.body), averages)
        ]
        counts.update(term_id for term_id, *_ in rows)
        for term_id, _, fields, _ in rows:
            if fields & TOPIC:
                topics[term_id].add(number)
        connection.executemany("INSERT INTO temp.held VALUES (?, ?, ?, ?)", rows)
    size = len(fragments)
    connection.executemany(
        "INSERT INTO term VALUES (?, ?, ?, ?, ?)",
        (
            (id_, one, counts[id_], rarity_of(size, counts[id_]), topic_rarity_of(size, len(topics.get(id_, ()))))
            for one, id_ in terms.items()
        ),
    )
    for statement in FILL:
        connection.execute(statement)
    write_average_lengths(connection, averages)
    return Evidence(held, terms, counts, topics)


def write_average_lengths(connection: sqlite3.Connection, averages: Mapping[int, float]) -> None:
    """Write the mean lengths of the fields to `meta`."""
    connection.executemany(
        "INSERT INTO meta VALUES (?, ?)",
        ((f"average_length_{bit}", repr(length)) for bit, length in sorted(averages.items())),
    )


def write_synonyms(connection: sqlite3.Connection, synonyms: Iterable[Synonym]) -> None:
    """Write the synonyms of which the index holds a form outside the bodies."""
    known = dict(connection.execute("SELECT stem, id FROM term WHERE id IN (SELECT term_id FROM evidence)"))
    useful = [synonym for synonym in synonyms if any(form in known for form in synonym.forms)]
    numbered = list(enumerate(useful, start=1))
    connection.executemany(
        "INSERT INTO synonym VALUES (?, ?, ?)",
        ((number, synonym.how, len(synonym.slots)) for number, synonym in numbered),
    )
    connection.executemany(
        "INSERT INTO synonym_word VALUES (?, ?, ?)",
        sorted(
            (one, number, slot)
            for number, synonym in numbered
            for slot, stems in enumerate(synonym.slots)
            for one in stems
        ),
    )
    connection.executemany(
        "INSERT INTO synonym_form VALUES (?, ?, ?)",
        (
            (number, ordinal, known[form])
            for number, synonym in numbered
            for ordinal, form in enumerate(synonym.forms)
            if form in known
        ),
    )
