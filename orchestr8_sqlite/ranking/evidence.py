"""Writes the rows that tier 2 ranks by: which words a fragment holds, where, and what they weigh.

A fragment's rows depend only on its own texts and on the typical text lengths of the library, so they are written and
deleted with it. How rare a word is depends on all fragments: `count_words` counts that afterwards.
"""

import json
import math
import re
import sqlite3
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from orchestr8_sqlite.model.records import Fragment
from orchestr8_sqlite.ranking.weights import (
    CAPABILITY,
    DESCRIPTION,
    FIELD_WEIGHTS,
    LEAST_NORM,
    LENGTH_SHARE,
    NAME,
    SCENARIO,
    TAG,
    TITLE,
    TOPIC,
    thousandths,
    topic_rarity_of,
)
from orchestr8_sqlite.text.keywords import iterate_keywords, stem, words_beside

BODY = 0
Texts = Mapping[int, str]
"""Field (a bit, BODY for the body) → its text."""

Lengths = Mapping[int, float]
"""Field → its typical length in keywords."""

KEYWORDS = "SELECT text, id FROM keyword"
INSERT_KEYWORD = "INSERT INTO keyword (id, text, stem) VALUES (?, ?, ?)"
INSERT_POSTING = "INSERT INTO posting (keyword_id, fragment_id, ordinal) VALUES (?, ?, ?)"
INSERT_FIELDS = "INSERT INTO field_posting (keyword_id, fragment_id, fields, weight) VALUES (?, ?, ?, ?)"
INSERT_TOPIC = "INSERT INTO rank_topic (fragment_id, stem, share) VALUES (?, ?, ?)"
INSERT_LENGTHS = """
INSERT INTO rank_length (fragment_id, name, title, tag, capability, scenario, description, norm)
VALUES (?, ?, ?, ?, ?, ?, ?, 0)
"""
SET_NORM = "UPDATE rank_length SET norm = ? WHERE fragment_id = ?"
MEAN_LENGTHS = """
SELECT avg(name), avg(title), avg(tag), avg(capability), avg(scenario), avg(description) FROM rank_length
"""
INSERT_TEXT = """
INSERT INTO fragment_text (rowid, name, title, tags, capabilities, scenarios, description, body, also)
SELECT id, name, title, tags, capabilities, scenarios, description, body, also
  FROM fragment_searched WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id
"""
ERASE_TEXT = """
INSERT INTO fragment_text
       (fragment_text, rowid, name, title, tags, capabilities, scenarios, description, body, also)
SELECT 'delete', id, name, title, tags, capabilities, scenarios, description, body, also
  FROM fragment_searched WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id
"""
ERASE_POSTINGS = tuple(
    f"""
    DELETE FROM {table} WHERE fragment_id = :id AND keyword_id IN (
        SELECT k.id FROM json_each(:keywords) CROSS JOIN keyword k ON k.text = value)
    """
    for table in ("posting", "field_posting")
)
ERASE = tuple(
    f"DELETE FROM {table} WHERE fragment_id IN (SELECT value FROM json_each(:ids))"
    for table in ("rank_topic", "rank_length")
)
LINES = """
SELECT :tag, tag, ordinal FROM tag WHERE fragment_id = :id
UNION ALL SELECT :capability, text, ordinal FROM capability WHERE fragment_id = :id
UNION ALL SELECT :scenario, text, ordinal FROM scenario WHERE fragment_id = :id
ORDER BY 1, 3
"""
TEXTS = """
SELECT f.name, f.title, f.description, b.body FROM fragment f JOIN fragment_body b ON b.fragment_id = f.id
 WHERE f.id = :id
"""
COUNT_WORDS = (
    """
    UPDATE keyword
       SET scenario_count = (SELECT count(*) FROM posting p WHERE p.keyword_id = keyword.id),
           fragment_count = (SELECT count(*) FROM field_posting p WHERE p.keyword_id = keyword.id)
     WHERE :all OR stem IN (SELECT value FROM json_each(:stems))
    """,
    """
    INSERT INTO keyword_text (keyword_text, rowid, text)
    SELECT 'delete', id, text FROM keyword WHERE fragment_count = 0 AND id <= :last
    """,
    "DELETE FROM keyword WHERE fragment_count = 0",
    "INSERT INTO keyword_text (rowid, text) SELECT id, text FROM keyword WHERE id > :last",
    "DELETE FROM rank_stem WHERE :all OR stem IN (SELECT value FROM json_each(:stems))",
    """
    INSERT INTO rank_stem (stem, fragment_count, topic_count, topic_rarity)
    SELECT k.stem, max(max(k.fragment_count), coalesce((
               SELECT v.doc FROM fragment_vocabulary v WHERE v.term = k.stem), 0)), coalesce(t.fragments, 0), 0
      FROM keyword k
      LEFT JOIN (SELECT stem, count(*) AS fragments FROM rank_topic GROUP BY stem) t ON t.stem = k.stem
     WHERE :all OR k.stem IN (SELECT value FROM json_each(:stems))
     GROUP BY k.stem
    """,
    r"""
    UPDATE rank_stem
       SET fragment_count = max(fragment_count, (
               SELECT count(*) FROM fragment_text WHERE fragment_text MATCH '"' || replace(stem, '"', '""') || '"'))
     WHERE fragment_count > 1 AND stem GLOB '*[^a-z0-9]*' AND (:all OR stem IN (SELECT value FROM json_each(:stems)))
    """,
    "UPDATE rank_stem SET topic_rarity = topic_rarity(:fragments, topic_count) WHERE topic_count > 0",
)
"""Counts words over the whole library, or for some stems. The full text reads a word such as `node.js` as a phrase.
Phrases are counted in bodies only if the short texts of several fragments hold them: others are rare anyway (.001)."""

TOUCHED = (
    """
    CREATE VIRTUAL TABLE IF NOT EXISTS temp.touched USING fts5 (
        name, title, tags, capabilities, scenarios, description, body, also,
        tokenize = "porter unicode61 remove_diacritics 2 tokenchars '+#'")
    """,
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.touched_term USING fts5vocab (temp, touched, row)",
    """
    INSERT INTO temp.touched (name, title, tags, capabilities, scenarios, description, body, also)
    SELECT name, title, tags, capabilities, scenarios, description, body, also
      FROM fragment_searched WHERE id IN (SELECT value FROM json_each(:ids))
    """,
)
"""The texts of added or deleted fragments, tokenized like the full text in schema.sql: only FTS5 knows its stems."""

TOUCHED_TERMS = "SELECT term FROM temp.touched_term"
PHRASES = "SELECT stem FROM rank_stem WHERE stem GLOB '*[^a-z0-9]*'"
TOUCHED_PHRASES = """
SELECT value FROM json_each(:phrases)
 WHERE EXISTS (SELECT 1 FROM temp.touched WHERE touched MATCH '"' || replace(value, '"', '""') || '"')
"""

TYPICAL = "typical_lengths"
"""Row of `meta`: the typical length of each field, by its bit."""

SET_TYPICAL = "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)"
ASCII_TOKEN = re.compile(r"[a-z0-9+#]+")
ORDINAL_BITS = 16
FIELD_BITS = len(FIELD_WEIGHTS)
ALL_FIELDS = (1 << FIELD_BITS) - 1


class Held(NamedTuple):
    """What a fragment holds.

    `keywords` are (keyword, bits of the fields that hold it, bits of the fields that hold any keyword of its stem); the
    last is 0 except for the first keyword of a stem. `scenarios` has the keywords of each scenario. `topics` are (stem
    of the name, title or a tag, its thousandths of the name). `lengths` are the numbers of keywords in each field, in
    the order of FIELD_WEIGHTS. `also` has the words that FTS5 would not find.
    """

    keywords: Sequence[tuple[str, int, int]]
    scenarios: Sequence[Sequence[str]]
    topics: Sequence[tuple[str, int]]
    lengths: tuple[int, ...]
    also: str


def fragment_texts(fragment: Fragment) -> Texts:
    """Return the searched texts of a fragment."""
    lists = {TAG: fragment.tags, CAPABILITY: fragment.capabilities, SCENARIO: fragment.use_when}
    return searched_texts(fragment.name, fragment.title, fragment.description, fragment.body, lists)


def searched_texts(name: str, title: str, description: str, body: str, lists: Mapping[int, Sequence[str]]) -> Texts:
    """Return the searched texts: the name is split at hyphens and underscores, and each list becomes lines."""
    spaced = name.replace("-", " ").replace("_", " ")
    joined = {bit: "\n".join(line.replace("\n", " ") for line in lines) for bit, lines in lists.items()}
    return {NAME: spaced, TITLE: title, DESCRIPTION: description, BODY: body, **joined}


def hold(texts: Texts) -> Held:
    """Return what a fragment with these texts holds."""
    scenarios = [list(iterate_keywords(line)) for line in texts[SCENARIO].split("\n")] if texts[SCENARIO] else []
    fields: dict[str, int] = {}
    lengths = []
    for bit in FIELD_WEIGHTS:
        keywords = list(chain.from_iterable(scenarios) if bit == SCENARIO else iterate_keywords(texts[bit]))
        lengths.append(len(keywords))
        for keyword in dict.fromkeys(keywords):
            fields[keyword] = fields.get(keyword, 0) | bit
    by_keyword = {keyword: stem(keyword) for keyword in fields}
    stems: dict[str, int] = {}
    for keyword, bits in fields.items():
        one = by_keyword[keyword]
        stems[one] = stems.get(one, 0) | bits
    shares = _name_shares(texts[NAME])
    topics = [(one, shares.get(one, 0)) for one, bits in stems.items() if bits & TOPIC]
    firsts = dict(stems)
    held = [(keyword, bits, firsts.pop(by_keyword[keyword], 0)) for keyword, bits in fields.items()]
    beside = words_beside("\n".join(texts.values()))
    return Held(held, [list(dict.fromkeys(one)) for one in scenarios], topics, tuple(lengths), beside)


def _name_shares(name: str) -> dict[str, int]:
    """Return each stem's share of a name, in thousandths of the letters: longer words say more."""
    stems = dict.fromkeys(map(stem, iterate_keywords(name)))
    letters = sum(map(len, stems))
    return {one: (1000 * len(one) + letters // 2) // letters for one in stems}


class FieldWeights(dict[int, int]):
    """Bits of fields → what a word earns if these fields of a fragment hold it, in thousandths of its rarity.

    Args:
        lengths: The number of keywords in each field, in the order of FIELD_WEIGHTS: words in longer fields say less.
        typical: The typical lengths to compare them with.
    """

    def __init__(self, lengths: Sequence[int], typical: Lengths) -> None:
        super().__init__({0: 0})
        self._given = {
            bit: weight / (1 - LENGTH_SHARE + LENGTH_SHARE * length / typical[bit])
            for (bit, weight), length in zip(FIELD_WEIGHTS.items(), lengths, strict=True)
        }

    def __missing__(self, bits: int) -> int:
        total = 0.0
        for bit, points in self._given.items():  # not `sum`: its rounding differs between versions of Python
            if bits & bit:
                total += points
        weight = self[bits] = thousandths(total)
        return weight


def typical_lengths(db: sqlite3.Connection) -> Lengths:
    """Return the mean length of each field, rounded to a power of two: a single fragment seldom changes that."""
    means = db.execute(MEAN_LENGTHS).fetchone()
    return {bit: 2.0 ** round(math.log2(mean)) if mean else 1.0 for bit, mean in zip(FIELD_WEIGHTS, means, strict=True)}


def keyword_ids(db: sqlite3.Connection) -> dict[str, int]:
    """Return the keywords of an index with their numbers."""
    return dict(db.execute(KEYWORDS))


def read_typical_lengths(meta: Mapping[str, str]) -> Lengths:
    """Return the typical lengths by which the words of an index were weighed."""
    lengths: dict[str, float] = json.loads(meta[TYPICAL])
    return {int(bit): length for bit, length in lengths.items()}


class EvidenceWriter:
    """Writes what fragments hold, after the fragments' own rows. Close it when done.

    Until then the postings stay in memory, eight bytes each: inserting in key order is fastest, and what a word weighs
    depends on the lengths of all texts.
    """

    def __init__(self, db: sqlite3.Connection, ids: dict[str, int] | None = None) -> None:
        """Write through *db*; *ids* are the numbers of its keywords, if they were read before."""
        self._db = db
        self._ids = keyword_ids(db) if ids is None else ids
        self._following = max(self._ids.values(), default=0) + 1
        self._added: list[tuple[int, str, str]] = []
        self._fields: defaultdict[int, array[int]] = defaultdict(lambda: array("Q"))
        self._scenarios: defaultdict[int, array[int]] = defaultdict(lambda: array("Q"))
        self._lengths: dict[int, tuple[int, ...]] = {}

    def add(self, held: Iterable[tuple[int, Held]]) -> None:
        """Take what fragments hold, each with the fragment's number."""
        rows = list(held)
        self._db.executemany(INSERT_TOPIC, ((number, *topic) for number, one in rows for topic in one.topics))
        self._db.executemany(INSERT_LENGTHS, ((number, *one.lengths) for number, one in rows))
        for number, one in rows:
            self._lengths[number] = one.lengths
            for text, fields, stem_fields in one.keywords:
                self._fields[self._number(text)].append((number << FIELD_BITS | stem_fields) << FIELD_BITS | fields)
            for ordinal, keywords in enumerate(one.scenarios):
                for text in keywords:
                    self._scenarios[self._ids[text]].append(number << ORDINAL_BITS | ordinal)

    def _number(self, text: str) -> int:
        number = self._ids.get(text)
        if number is None:
            number = self._ids[text] = self._following
            self._following += 1
            self._added.append((number, text, stem(text)))
        return number

    @property
    def last(self) -> int:
        """Return the highest number of a keyword that this writer did not add."""
        return self._following - 1 - len(self._added)

    def close(self, typical: Lengths) -> None:
        """Write the postings of everything taken, weighed by the *typical* text lengths."""
        self._db.executemany(INSERT_KEYWORD, self._added)
        squares = Counter[int]()
        self._db.executemany(INSERT_FIELDS, self._field_rows(typical, squares))
        norms = ((max(LEAST_NORM, round(math.sqrt(squares[number]))), number) for number in self._lengths)
        self._db.executemany(SET_NORM, norms)
        self._db.executemany(INSERT_POSTING, self._scenario_rows())
        self._db.execute(SET_TYPICAL, (TYPICAL, json.dumps(typical)))

    def _field_rows(self, typical: Lengths, squares: Counter[int]) -> Iterator[tuple[int, int, int, int]]:
        """Yield the rows of `field_posting`; add the square of each weight to its fragment's in *squares*."""
        weights = {number: FieldWeights(lengths, typical) for number, lengths in self._lengths.items()}
        for keyword in sorted(self._fields):
            for packed in self._fields[keyword]:
                held = packed >> FIELD_BITS
                number = held >> FIELD_BITS
                weight = weights[number][held & ALL_FIELDS]
                squares[number] += weight * weight
                yield keyword, number, packed & ALL_FIELDS, weight

    def _scenario_rows(self) -> Iterator[tuple[int, int, int]]:
        for keyword in sorted(self._scenarios):
            for packed in self._scenarios[keyword]:
                yield keyword, packed >> ORDINAL_BITS, packed & (1 << ORDINAL_BITS) - 1


def erase_evidence(db: sqlite3.Connection, numbers: Collection[int]) -> None:
    """Delete what fragments hold; call this before their own rows are deleted.

    Their texts tell which postings to delete: scanning all postings would take longer the larger the library is.
    """
    ids = {"ids": str(list(numbers))}
    for number in numbers:
        texts = read_texts(db, number)
        keywords = {keyword for field, text in texts.items() if field != BODY for keyword in iterate_keywords(text)}
        for statement in ERASE_POSTINGS:
            db.execute(statement, {"id": number, "keywords": json.dumps(sorted(keywords))})
    for statement in ERASE:
        db.execute(statement, ids)


def write_full_text(db: sqlite3.Connection, numbers: Collection[int]) -> None:
    """Add fragments to the full text; their own rows must be written before."""
    db.execute(INSERT_TEXT, {"ids": str(list(numbers))})


def erase_full_text(db: sqlite3.Connection, numbers: Collection[int]) -> None:
    """Delete fragments from the full text; call this before their own rows change."""
    db.execute(ERASE_TEXT, {"ids": str(list(numbers))})


def read_texts(db: sqlite3.Connection, number: int) -> Texts:
    """Return the searched texts of a fragment, read from its rows."""
    name, title, description, body = db.execute(TEXTS, {"id": number}).fetchone()
    lines: dict[int, list[str]] = {TAG: [], CAPABILITY: [], SCENARIO: []}
    numbers = {"id": number, "tag": TAG, "capability": CAPABILITY, "scenario": SCENARIO}
    for field, text, _ in db.execute(LINES, numbers):
        lines[field].append(text)
    return searched_texts(name, title, description, body, lines)


def count_words(db: sqlite3.Connection, last: int, touched: set[str] | None = None) -> None:
    """Count the scenarios and fragments that hold each word, and delete the words that none holds.

    Args:
        last: The highest number of a keyword that is not new.
        touched: What `touch_words` returned for all added and deleted fragments, to count only their words again; None
            counts all words.
    """
    stems = set() if touched is None else {*touched, *_touched_stems(db)}
    db.create_function("topic_rarity", 2, _topic_rarity, deterministic=True)
    parameters = {
        "fragments": db.execute("SELECT count(*) FROM fragment").fetchone()[0],
        "last": last,
        "all": touched is None,
        "stems": json.dumps(sorted(stems)),
    }
    for statement in COUNT_WORDS:
        db.execute(statement, parameters)


def touch_words(db: sqlite3.Connection, numbers: Collection[int]) -> set[str]:
    """Record texts of fragments, just added or soon deleted, for `count_words`; return the stems of their keywords."""
    for statement in TOUCHED:
        db.execute(statement, {"ids": str(list(numbers))})
    texts = (text for number in numbers for field, text in read_texts(db, number).items() if field != BODY)
    return {stem(word) for text in texts for word in iterate_keywords(text)}


def _touched_stems(db: sqlite3.Connection) -> Iterator[str]:
    """Yield the full text's stems of the touched texts, and the stems in them that it reads as phrases."""
    terms = [term for (term,) in db.execute(TOUCHED_TERMS)]
    yield from terms
    beginnings = {term[:2] for term in terms}
    phrases = [one for (one,) in db.execute(PHRASES) if _may_be_among(one, beginnings)]
    yield from (one for (one,) in db.execute(TOUCHED_PHRASES, {"phrases": json.dumps(phrases)}))


def _may_be_among(phrase: str, beginnings: Collection[str]) -> bool:
    """Tell whether each word of *phrase* may have a stem with one of *beginnings*; `ies` has the stem `i`."""
    words = ASCII_TOKEN.findall(phrase) if phrase.isascii() else ()
    return all(word[:2] in beginnings or word[0] in beginnings for word in words)


def _topic_rarity(size: int, count: int) -> int:
    return round(1000 * topic_rarity_of(size, count)) if count else 0
