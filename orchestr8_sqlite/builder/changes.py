"""Changed files of a library → a verdict on each file that the change affects."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from orchestr8_sqlite.builder.compare import Change, skills_of
from orchestr8_sqlite.builder.writer import prepare
from orchestr8_sqlite.library.agent_skills import SHARED_PATH
from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.library.parsing import UNCLOSED, Key, Outcome, Task, read_files
from orchestr8_sqlite.library.roots import Root
from orchestr8_sqlite.library.verdicts import COLLISION, COPY, OVERRIDDEN, Holding, Policy, Verdict, judge, name_of
from orchestr8_sqlite.model.records import Diagnostic, Fragment, Prompt, Severity

HUNG_ON_OTHERS = "SELECT DISTINCT root, path FROM diagnostic WHERE code IN (?, ?, ?, ?)"
"""Files that lost something because of what another file has, such as the same name."""

HELD_IDS = """
SELECT s.root, s.path FROM json_each(?) CROSS JOIN fragment f ON f.path = value JOIN source s ON s.id = f.source_id
"""
HELD_NAMES = """
SELECT s.root, s.path FROM json_each(?) CROSS JOIN prompt p ON p.name = value JOIN source s ON s.id = p.source_id
"""
IS_UNFINISHED = "SELECT 1 FROM diagnostic WHERE root = ? AND path = ? AND code = ?"
NAMES_OF = """
SELECT 'fragment', f.path FROM source s JOIN fragment f ON f.source_id = s.id WHERE s.root = ? AND s.path = ?
UNION ALL SELECT 'prompt', p.name FROM source s JOIN prompt p ON p.source_id = s.id WHERE s.root = ? AND s.path = ?
"""
SAID = """
SELECT severity, code, root, path, line, field, message, fix FROM diagnostic
 WHERE (root, path) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:keys))
"""


class Following(NamedTuple):
    """What an update writes: `verdicts` on files, and `kept` ones, whose last good version stays in the index.

    The rows of `stale` files are outdated.
    """

    verdicts: Sequence[Verdict]
    kept: Sequence[Verdict]
    stale: frozenset[Key]


class Follower:
    """Judges the files that have changed since the library's index *db* was built.

    Args:
        category: Category of files in plain folders that do not state one.
        latest: Upper bound of recorded file times.
        keep: If the new version of a file is refused, keep its last good one.
        policy: Which files are left out.
    """

    def __init__(
        self,
        db: sqlite3.Connection,
        roots: Sequence[Root],
        category: str | None,
        latest: int | None,
        *,
        keep: bool,
        policy: Policy,
    ) -> None:
        self._db = db
        self._roots = roots
        self._category = category
        self._latest = latest
        self._keep = keep
        self._policy = policy

    def judge(self, change: Change) -> Following:
        """Return the verdicts on all files that *change* affects; nothing is written."""
        wanted = change.read
        if wanted or change.gone:
            wanted |= {*self._db.execute(HUNG_ON_OTHERS, (COLLISION, COPY, OVERRIDDEN, SHARED_PATH))} - change.gone
        outcomes = self._read(wanted, change.gone)
        names: dict[tuple[str, str], Holding] = {}
        verdicts: list[Verdict] = []
        kept: list[Verdict] = []

        def holder(record: Fragment | Prompt) -> Holding | None:
            return names.get(name_of(record))

        order = {root.label: number for number, root in enumerate(self._roots)}
        for key in sorted(outcomes, key=lambda key: (order[key[0]], key[1].split("/"))):
            verdict = judge(*outcomes[key], holder, self._policy)
            name = name_of(verdict.record) if verdict.record is not None else None
            good = good_name(self._db, verdict) if self._keep else None
            if good is not None and good not in names:
                name = good
                kept.append(_with_warning(verdict))
            else:
                verdicts.append(verdict)
            if name is not None:
                names[name] = Holding("/".join(key), verdict.source.sha256)
        stale = (change.read | change.gone | outcomes.keys()) - files_of(kept)
        return Following(verdicts, kept, frozenset(stale))

    def is_said(self, kept: Iterable[Verdict]) -> bool:
        """Tell whether the index has exactly the diagnostics of the files in *kept*."""
        kept = list(kept)
        said = (
            Diagnostic(Severity(row[0]), *row[1:])
            for row in self._db.execute(SAID, {"keys": json_keys(files_of(kept))})
        )
        saying = (diagnostic for verdict in kept for diagnostic in verdict.diagnostics)
        return sorted(said, key=Diagnostic.order) == sorted(saying, key=Diagnostic.order)

    def _read(self, wanted: Collection[Key], gone: Collection[Key]) -> dict[Key, tuple[Task, Outcome]]:
        """Return the content of the *wanted* files and of every file whose name one of them now uses."""
        outcomes: dict[Key, tuple[Task, Outcome]] = {}
        while wanted:
            wanted = self._with_skills(wanted) - outcomes.keys()
            paths: dict[str, set[str]] = defaultdict(set)
            for label, path in wanted:
                paths[label].add(path)
            tasks = [
                task for root in self._roots for task in root.tasks(self._category, self._latest, paths[root.label])
            ]
            read = dict(zip((task.key for task in tasks), read_files(tasks, prepare), strict=True))
            outcomes |= {task.key: (task, read[task.key]) for task in tasks}
            wanted = self._holders(read.values()) - outcomes.keys() - set(gone) - set(wanted)
        return outcomes

    def _with_skills(self, wanted: Collection[Key]) -> set[Key]:
        """Return *wanted* with the SKILL.md of each skill around one of the files, which has rows of that file too."""
        there = {root.label: [path for label, path in wanted if label == root.label] for root in self._roots}
        return {*wanted, *(key for root in self._roots for key in skills_of(root, there[root.label]))}

    def _holders(self, outcomes: Iterable[Outcome]) -> set[Key]:
        """Return the indexed files that already have the name of a record that was read."""
        records = [outcome.parsed.record for outcome in outcomes]
        ids = _json(record.id for record in records if isinstance(record, Fragment))
        names = _json(record.name for record in records if isinstance(record, Prompt))
        return {*self._db.execute(HELD_IDS, (ids,)), *self._db.execute(HELD_NAMES, (names,))}


def good_name(db: sqlite3.Connection, verdict: Verdict) -> tuple[str, str] | None:
    """Return the name of a file's version in the index *db* if that version must stay, else None."""
    key = (verdict.source.root, verdict.source.path)
    row: tuple[str, str] | None = db.execute(NAMES_OF, (*key, *key)).fetchone()
    if row is None or (verdict.record is not None and verdict.finished):
        return None
    was_unfinished = db.execute(IS_UNFINISHED, (*key, UNCLOSED)).fetchone() is not None
    return None if verdict.record is not None and was_unfinished else row


def _with_warning(verdict: Verdict) -> Verdict:
    """Return *verdict* with a warning that the previous version stays."""
    notes = Notes(verdict.source.root, verdict.source.path, [*verdict.diagnostics])
    notes.warn("kept", "the version before this one stays in the index", "correct the file and save it again")
    return verdict._replace(diagnostics=tuple(notes.diagnostics))


def places_of(verdicts: Iterable[Verdict]) -> set[Key]:
    """Return the files that were judged."""
    return {(verdict.source.root, verdict.source.path) for verdict in verdicts}


def files_of(verdicts: Iterable[Verdict]) -> set[Key]:
    """Return the files that were judged and the files bundled with them."""
    verdicts = list(verdicts)
    return places_of(verdicts) | {(source.root, source.path) for verdict in verdicts for source, _ in verdict.sources}


def json_keys(keys: Iterable[Key]) -> str:
    """Return files as a JSON list of pairs."""
    return json.dumps(sorted(keys), ensure_ascii=False)


def _json(values: Iterable[str]) -> str:
    return json.dumps(sorted(values), ensure_ascii=False)
