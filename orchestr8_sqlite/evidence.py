"""Which words a fragment holds, where, and how much that earns: the tables that the default ranker reads."""

import math
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from orchestr8_sqlite.keywords import count_stems
from orchestr8_sqlite.model import Fragment
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


def fragment_texts(fragment: Fragment) -> Texts:
    """Return the texts of a fragment that are searched."""
    lists = {TAG: fragment.tags, CAPABILITY: fragment.capabilities, SCENARIO: fragment.use_when}
    return searched_texts(fragment.name, fragment.title, fragment.description, fragment.body, lists)


def searched_texts(name: str, title: str, description: str, body: str, lists: Mapping[int, Sequence[str]]) -> Texts:
    """Return the texts that are searched; a name is searched by its parts, *lists* by their lines."""
    spaced = name.replace("-", " ").replace("_", " ")
    joined = {field: "\n".join(lines) for field, lines in lists.items()}
    return {NAME: spaced, TITLE: title, DESCRIPTION: description, BODY: body, **joined}


def average_lengths(fragments: Iterable[Texts]) -> dict[int, float]:
    """Return the mean number of keywords of each field but the body."""
    totals: Counter[int] = Counter()
    number = 0
    for texts in fragments:
        number += 1
        for field in FIELD_WEIGHTS:
            totals[field] += sum(count_stems(texts[field]).values())
    return {field: totals[field] / max(1, number) for field in FIELD_WEIGHTS}


def weigh(texts: Texts, averages: Mapping[int, float]) -> Iterator[tuple[str, int, int]]:
    """Yield (stem, fields, weight) of every stem of a fragment; weight in thousandths of the stem's rarity."""
    fields: dict[str, int] = {}
    evidence: dict[str, float] = {}
    for field, weight in FIELD_WEIGHTS.items():
        stems = count_stems(texts[field])
        relative = sum(stems.values()) / averages[field] if averages[field] else 1.0
        given = weight / (1 - weights.LENGTH_SHARE + weights.LENGTH_SHARE * relative)
        for one in stems:
            fields[one] = fields.get(one, 0) | field
            evidence[one] = evidence.get(one, 0.0) + given
    for one, count in count_stems(texts[BODY]).items():
        given = weights.BODY_WEIGHT * count / (count + weights.BODY_SATURATION)
        evidence[one] = evidence.get(one, 0.0) + given
    for one, total in evidence.items():
        yield one, fields.get(one, 0), round(1000 * total / (total + weights.SATURATION))


def write_evidence(connection: sqlite3.Connection, fragments: Sequence[Fragment]) -> None:
    """Write term, evidence, body_evidence and topic."""
    averages = average_lengths(fragment_texts(fragment) for fragment in fragments)
    terms: dict[str, int] = {}
    counts: Counter[int] = Counter()
    topics: Counter[int] = Counter()
    connection.execute(UNSORTED)
    for number, fragment in enumerate(fragments, start=1):
        rows = [
            (terms.setdefault(one, len(terms) + 1), number, fields, weight)
            for one, fields, weight in weigh(fragment_texts(fragment), averages)
        ]
        counts.update(term_id for term_id, *_ in rows)
        topics.update(term_id for term_id, _, fields, _ in rows if fields & TOPIC)
        connection.executemany("INSERT INTO temp.held VALUES (?, ?, ?, ?)", rows)
    size = len(fragments)
    connection.executemany(
        "INSERT INTO term VALUES (?, ?, ?, ?, ?)",
        (
            (id_, one, counts[id_], rarity_of(size, counts[id_]), math.log((size + 0.5) / (topics[id_] + 0.5)))
            for one, id_ in terms.items()
        ),
    )
    for statement in FILL:
        connection.execute(statement)
    connection.execute("DROP TABLE temp.held")
    connection.executemany(
        "INSERT INTO meta VALUES (?, ?)",
        ((f"average_length_{field}", repr(length)) for field, length in sorted(averages.items())),
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
