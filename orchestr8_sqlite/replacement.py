"""The fragments that an update replaces: as the index has them, beside what their files hold now."""

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Self

from orchestr8_sqlite.content import Fragment, SourceFile
from orchestr8_sqlite.evidence import Held, HeldKeywords, topics_of
from orchestr8_sqlite.following import json_keys
from orchestr8_sqlite.fragment_rows import Prepared, prepare
from orchestr8_sqlite.library.parsing import Key
from orchestr8_sqlite.library.verdicts import Verdict
from orchestr8_sqlite.tiers.fuzzy import SHORT_TOKENS
from orchestr8_sqlite.vocabulary import CLASSIC_FIELDS

COLUMNS = """
SELECT f.id, f.path, f.category, f.name, f.title, f.description, f.token_estimate, b.body, s.root, s.path, a.text
"""
FRAGMENTS_OF = f"""
{COLUMNS}
  FROM json_each(:keys) key
 CROSS JOIN source s ON s.root = json_extract(key.value, '$[0]') AND s.path = json_extract(key.value, '$[1]')
  JOIN fragment f ON f.source_id = s.id
  JOIN fragment_body b ON b.fragment_id = f.id
  LEFT JOIN author_id a ON a.fragment_id = f.id
"""
ALL_FRAGMENTS = f"""
{COLUMNS}
  FROM fragment f
  JOIN source s ON s.id = f.source_id
  JOIN fragment_body b ON b.fragment_id = f.id
  LEFT JOIN author_id a ON a.fragment_id = f.id
 ORDER BY f.id
"""
TAGS = "SELECT tag FROM tag WHERE fragment_id = ? ORDER BY ordinal"
CAPABILITIES = "SELECT text FROM capability WHERE fragment_id = ? ORDER BY ordinal"
SCENARIOS = "SELECT id, scenario_id, text FROM scenario WHERE fragment_id = ? ORDER BY ordinal"


class Stored(NamedTuple):
    """A fragment of an index with all of its texts, its number, and the id that its front matter gives.

    `scenarios` are the numbers of the rows of its scenarios, and their ids.
    """

    number: int
    fragment: Fragment
    scenarios: Sequence[tuple[int, str]]
    author_id: str | None


class Replaced(NamedTuple):
    """A fragment as it was and as it is; None where it was not there, or is not any more."""

    number: int
    before: Stored | None
    after: Verdict | None
    was: Prepared | None
    now: Prepared | None

    @classmethod
    def of(cls, number: int, before: Stored | None, after: Verdict | None) -> Self:
        """Return it with what its rows are made of."""
        was = prepare(before.fragment) if before else None
        return cls(number, before, after, was, after.prepared if after else None)

    @property
    def record(self) -> Fragment | None:
        """Return the fragment as it is."""
        return self.after.record if self.after and isinstance(self.after.record, Fragment) else None

    @property
    def held(self) -> tuple[int, Held | None, Held | None]:
        """Return its number, what it held and what it holds."""
        return self.number, self.was and self.was.held, self.now and self.now.held

    @property
    def has_same_scenarios(self) -> bool:
        """Tell whether its scenarios are what they were."""
        return bool(self.before and self.record and self.before.fragment.use_when == self.record.use_when)

    @property
    def has_same_texts(self) -> bool:
        """Tell whether its row of full text is what it was."""
        return bool(self.was and self.now and self.was.texts == self.now.texts)

    @property
    def changed_topics(self) -> frozenset[str]:
        """Return the stems that came or went where it stands what it is about."""
        before, after = (set(topics_of(one.held).split()) if one else set() for one in (self.was, self.now))
        return frozenset(before ^ after)

    def classic_keywords(self) -> frozenset[str]:
        """Return all keywords by which the classic ranker finds what is other than it was, nothing where nothing is."""
        before = _classic_view(self.before.fragment, self.was.keywords) if self.before and self.was else None
        after = _classic_view(self.record, self.now.keywords) if self.record and self.now else None
        if before == after:
            return frozenset()
        return frozenset(keyword for view in (before, after) if view for keyword in view.fields)


class _ClassicView(NamedTuple):
    """All that the classic ranker knows of a fragment, beside its id."""

    category: str
    is_short: bool
    scenarios: Sequence[str]
    fields: Mapping[str, int]


def _classic_view(fragment: Fragment, keywords: HeldKeywords) -> _ClassicView:
    fields = {text: mask & CLASSIC_FIELDS for text, mask in keywords.fields.items() if mask & CLASSIC_FIELDS}
    return _ClassicView(fragment.category, fragment.token_estimate < SHORT_TOKENS, fragment.use_when, fields)


def read_fragments(db: sqlite3.Connection, files: Collection[Key] | None = None) -> Iterator[Stored]:
    """Yield the fragments that an index has of *files*, or all; nothing of it may be changed meanwhile."""
    found = db.execute(ALL_FRAGMENTS) if files is None else db.execute(FRAGMENTS_OF, {"keys": json_keys(files)})
    for row in found:
        yield _stored(db, *row)


def _stored(
    db: sqlite3.Connection, number: int, id_: str, category: str, name: str, title: str, description: str,
    tokens: int, body: str, root: str, path: str, author_id: str | None,
) -> Stored:  # fmt: skip
    tags, capabilities = (tuple(text for (text,) in db.execute(lines, (number,))) for lines in (TAGS, CAPABILITIES))
    scenarios = db.execute(SCENARIOS, (number,)).fetchall()
    fragment = Fragment(
        id=id_, category=category, name=name, title=title, description=description, version=None, tags=tags,
        capabilities=capabilities, use_when=tuple(text for *_, text in scenarios), author_tokens=None,
        token_estimate=tokens, metadata={}, body=body, references=(), source=SourceFile(root, path, 0, 0, ""),
    )  # fmt: skip
    return Stored(number, fragment, [(row, scenario_id) for row, scenario_id, _ in scenarios], author_id)
