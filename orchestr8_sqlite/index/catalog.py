"""Opens an index read-only, checks that it is ours, and reads from it by name.

The file is opened as immutable: builds replace it as a whole and never change it, and reading creates no file beside
it. If you keep a `Catalog` open, call `is_current` to notice that the file was replaced.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from orchestr8_sqlite.errors import CatalogError, MissingIndex, RequestError, SettingsError
from orchestr8_sqlite.index.checksums import REBUILD, Comparison, comparison_of
from orchestr8_sqlite.index.connections import Identity, Reader, connect, identity_of, is_at
from orchestr8_sqlite.index.gathering import Step, gathered
from orchestr8_sqlite.settings import NEEDS_FILE, Address, Place

T = TypeVar("T")

APPLICATION_ID = 1_865_970_545
SCHEMA_MAJOR = 6
MINIMUM_SQLITE = (3, 37, 0)

COMMITS = "commits"
"""Row of `meta`: by root, the commits of its git checkouts, as JSON."""

REVIEWS = "reviews"
"""Row of `meta`: a digest of the reviews that a build heeded, empty if there are none."""

PINNED = "pinned"
"""Row of `meta`: the paths of the skills that listings begin with, as JSON."""

PAGE_CACHE = "PRAGMA cache_size = -20000"
"""Cache 20,000 KiB per connection: with SQLite's 2,000 a search of 2,294 fragments takes a third longer."""

SORT_IN_MEMORY = "PRAGMA temp_store = MEMORY"
"""Reading an index writes nothing, not even to sort."""

BUILD = "build it with: orchestr8-sqlite build ROOT -o INDEX"

FRAGMENT_COLUMNS = """
SELECT f.id, f.uri, f.category, f.name, f.title, f.description, f.token_estimate, f.size, s.mtime_ns
  FROM fragment f JOIN source s ON s.id = f.source_id
"""
FRAGMENT_BY_PATH = FRAGMENT_COLUMNS + " WHERE f.path = :path"
NEXT = "f.uri > :after ORDER BY f.uri LIMIT :limit"
FRAGMENTS_OF_CATEGORY = gathered(
    f"{FRAGMENT_COLUMNS} WHERE f.category = :category AND {NEXT}",
    order=[2],
)
FRAGMENTS_AFTER = gathered(
    f"{FRAGMENT_COLUMNS} WHERE {NEXT}",
    order=[2],
)
PATHS_LIKE = gathered(
    "SELECT path FROM fragment WHERE name = :name OR path LIKE :pattern ESCAPE '\\' ORDER BY path LIMIT :limit",
    order=[1],
)
ALL_PATHS = gathered(
    "SELECT path FROM fragment ORDER BY path LIMIT :limit",
    order=[1],
)
BODY = "SELECT body FROM fragment_body WHERE fragment_id = :id"
CATEGORY_COUNTS = gathered(
    "SELECT category, count(*) FROM fragment GROUP BY category ORDER BY category",
    added=1,
    order=[1],
)
TAGS = "SELECT t.fragment_id, t.ordinal, t.tag FROM json_each(:ids) CROSS JOIN tag t ON t.fragment_id = value"
CAPABILITIES = (
    "SELECT c.fragment_id, ordinal, text FROM json_each(:ids) CROSS JOIN capability c ON c.fragment_id = value"
)
NEIGHBOURS = gathered(
    """
SELECT t.uri FROM reference r JOIN fragment t ON t.id = r.target_id WHERE r.fragment_id = :id
 UNION
SELECT f.uri FROM reference r JOIN fragment f ON f.id = r.fragment_id WHERE r.target_id = :id
EXCEPT
SELECT uri FROM fragment WHERE id = :id
 ORDER BY 1
""",
    Step("reference", "SELECT fragment_id, target_id FROM reference WHERE fragment_id = :id OR target_id = :id"),
    Step(
        "fragment",
        "SELECT id, uri FROM fragment WHERE id IN "
        "(SELECT fragment_id FROM reference UNION ALL SELECT target_id FROM reference)",
    ),
)
ANY_SKILL = "SELECT 1 FROM skill_file LIMIT 1"
MOST_TAGS = 2000
ANY_NEAR_COPY = "SELECT 1 FROM near_copy LIMIT 1"
TAGS_BY_USE = gathered(
    "SELECT tag, count(*) FROM tag GROUP BY tag ORDER BY count(*) DESC, tag LIMIT :limit",
    added=1,
    order=[-2, 1],
)


class FragmentRow(NamedTuple):
    """What a listing shows of a fragment; `size` is in bytes, `mtime_ns` is the time of its source file."""

    id: int
    uri: str
    category: str
    name: str
    title: str
    description: str
    token_estimate: int
    size: int
    mtime_ns: int


class Catalog:
    """One open index. Use it in one thread at a time; close it or use it as a context manager.

    On exit the context manager raises `CatalogError` if the data that was read cannot be trusted: see `verify`.

    Use::

        with Catalog.open(path) as catalog:
            row = catalog.fragment("skills/retry")
            text = catalog.body(row.id)
    """

    def __init__(self, reader: Reader, place: Place, identity: Identity, comparison: Comparison | None = None) -> None:
        self.reader = reader
        self.place = place
        self.identity = identity
        self.comparison = comparison
        self._made: dict[str, Any] = {}
        self.meta: Mapping[str, str] = dict(reader.execute("SELECT key, value FROM meta"))

    @staticmethod
    def open(path: Place, *, is_finished: bool = True) -> "Catalog":
        """Return the open index at *path*, a file or an address of PostgreSQL.

        Args:
            is_finished: Whether the file has its checksum; an index under construction has none yet.

        Raises:
            MissingIndex: There is no file.
            CatalogError: The file is not our index, is known to be damaged, or has another major schema version.
        """
        if isinstance(path, Address):
            published: Catalog = _published().open_published(path)
            return published
        check_sqlite()
        try:
            db, identity = connect(path, comparison_of if is_finished else None)
        except FileNotFoundError:
            raise MissingIndex(f"There is no index at {path}; {BUILD}.") from None
        except (OSError, sqlite3.Error) as problem:
            what = (isinstance(problem, OSError) and problem.strerror) or problem
            raise CatalogError(f"The index {path} cannot be opened: {what}.") from None
        try:
            _check_header(db, path)
            comparison = comparison_of(path, identity) if is_finished else None
            if comparison is not None:
                comparison.require_no_fault()
            db.execute(PAGE_CACHE)
            db.execute(SORT_IN_MEMORY)
            return Catalog(db, path, identity, comparison)
        except (OSError, sqlite3.Error, UnicodeError) as problem:  # its message may not be UTF-8
            db.close()
            raise CatalogError(f"{path} is not a usable index ({problem}); {REBUILD}.") from None
        except CatalogError:
            db.close()
            raise

    @property
    def path(self) -> Path:
        """Return the path of the index.

        Raises:
            RequestError: It is not in a file.
        """
        if isinstance(self.place, Address):
            raise RequestError(NEEDS_FILE)
        return self.place

    @property
    def db(self) -> sqlite3.Connection:
        """Return the connection to the file of the index.

        Raises:
            RequestError: It is not in a file.
        """
        if not isinstance(self.reader, sqlite3.Connection):
            raise RequestError(NEEDS_FILE)
        return self.reader

    @property
    def generation(self) -> str:
        """Return the digest of everything the index was built from; it changes with the content."""
        return self.meta.get("generation", "")

    @property
    def size(self) -> int:
        """Return the number of fragments in the index."""
        return int(self.meta.get("fragments", 0))

    @property
    def least_coverage(self) -> float:
        """Return the least share of a request, 0 to 1, that an answer must cover; the build calibrates it."""
        return float(self.meta.get("least_coverage", 0))

    @property
    def commits(self) -> Mapping[str, Mapping[str, str]]:
        """Return, by root and folder, the commits of its git checkouts; "" is the checkout that contains the root."""
        commits: dict[str, dict[str, str]] = json.loads(self.meta.get(COMMITS, "{}"))
        return commits

    @property
    def language(self) -> str:
        """Return the English name of the library's language; empty if it was not recognized."""
        return self.meta.get("language", "")

    @property
    def has_skills(self) -> bool:
        """Tell whether the index has any Agent Skill, a fragment with a SKILL.md."""
        return self._once(ANY_SKILL, lambda: bool(self.rows(ANY_SKILL)))

    def is_current(self) -> bool:
        """Tell whether the path still leads to the open file."""
        return is_at(self.path, self.identity)

    def is_known_current(self) -> bool:
        """Tell whether that is known to be so, without waiting for anybody."""
        return self.is_current()

    @property
    def missing(self) -> Sequence[str]:
        """Return the places of the shards that have not answered this request, and that it goes on without."""
        return ()

    def rest(self) -> None:
        """Say that a request has ended."""

    @property
    def is_known_damaged(self) -> bool:
        """Tell whether the file is known to differ from what was built."""
        return self.comparison is not None and self.comparison.fault != ""

    def begin_to_verify(self) -> None:
        """Begin to compare the file with its checksum, however large it is."""
        if self.comparison is not None:
            self.comparison.begin()

    def verify(self, *, fully: bool = False) -> None:
        """Return if the file is not known to be damaged.

        A small file has been compared with its checksum by then, a larger one only if that was begun: see `checksums`.

        Args:
            fully: Wait for the comparison, however large the file is.

        Raises:
            CatalogError: The file differs from what was built.
        """
        if self.comparison is not None:
            self.comparison.require(fully=fully)

    def verify_after(self, error: BaseException | None) -> None:
        """Verify after work that ended with *error*: an unexpected error may come from damage.

        Raises:
            CatalogError: The file differs from what was built, was overwritten meanwhile, or SQLite cannot read it.
        """
        if self.comparison is not None:
            self.comparison.require_after(error)
        if isinstance(error, sqlite3.Error):
            raise self._unreadable(error)

    def close(self) -> None:
        """Close the file."""
        self.reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.verify_after(error)
        finally:
            self.close()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn SQLite's errors within the context into a `CatalogError`."""
        try:
            yield
        except sqlite3.Error as problem:
            raise self._unreadable(problem) from None

    def _unreadable(self, problem: sqlite3.Error) -> CatalogError:
        return CatalogError(f"The index {self.path} cannot be read ({problem}); {REBUILD}.")

    def rows(self, sql: str, parameters: Mapping[str, object] | None = None) -> list[Any]:
        """Return the rows of the statement *sql*.

        Raises:
            CatalogError: SQLite cannot read the index.
        """
        with self.reading():
            return self.reader.execute(sql, parameters or {}).fetchall()

    def fragment(self, path: str) -> FragmentRow | None:
        """Return the fragment with the id *path* (`skills/retry`), or None."""
        rows = self.rows(FRAGMENT_BY_PATH, {"path": path})
        return FragmentRow(*rows[0]) if rows else None

    def fragments(self, category: str | None = None, *, after: str = "", limit: int = 100) -> list[FragmentRow]:
        """Return up to *limit* fragments (of *category*) whose URIs sort after *after*, in URI order."""
        sql = FRAGMENTS_AFTER if category is None else FRAGMENTS_OF_CATEGORY
        rows = self.rows(sql, {"category": category, "after": after, "limit": limit})
        return [FragmentRow(*row) for row in rows]

    def body(self, fragment_id: int) -> str:
        """Return the Markdown text of a fragment."""
        return str(self.rows(BODY, {"id": fragment_id})[0][0])

    def lists(self, fragment_ids: Sequence[int]) -> dict[int, tuple[tuple[str, ...], tuple[str, ...]]]:
        """Return (tags, capabilities) of each fragment, in the author's order."""
        found: dict[int, tuple[list[str], list[str]]] = {id_: ([], []) for id_ in fragment_ids}
        for place, sql in enumerate((TAGS, CAPABILITIES)):
            for id_, _, text in sorted(self.rows(sql, {"ids": str(list(fragment_ids))})):
                found[id_][place].append(text)
        return {id_: (tuple(tags), tuple(capabilities)) for id_, (tags, capabilities) in found.items()}

    def neighbours(self, fragment_id: int) -> list[str]:
        """Return the URIs of the fragments that reference this one or that it references, in URI order."""
        return [row[0] for row in self.rows(NEIGHBOURS, {"id": fragment_id})]

    def category_counts(self) -> dict[str, int]:
        """Return the number of fragments by category, without empty categories."""
        return self._once(CATEGORY_COUNTS, lambda: dict(self.rows(CATEGORY_COUNTS))).copy()

    def similar_paths(self, path: str, limit: int = 2000) -> list[str]:
        """Return up to *limit* ids to suggest for the unknown *path*: those that contain its name, else any."""
        name = path.rpartition("/")[2]
        parameters = {"name": name, "pattern": f"%{escape_like(name)}%", "limit": limit}
        rows = self.rows(PATHS_LIKE, parameters)
        return [row[0] for row in rows or self.rows(ALL_PATHS, {"limit": limit})]

    @property
    def has_near_copies(self) -> bool:
        """Tell whether any fragments are near-copies of each other."""
        return self._once(ANY_NEAR_COPY, lambda: bool(self.rows(ANY_NEAR_COPY)))

    @property
    def frequent_tags(self) -> dict[str, list[str]]:
        """Return the MOST_TAGS most used tags, grouped by first letter, the most used first."""
        return self._once(TAGS_BY_USE, self._read_frequent_tags)

    def _read_frequent_tags(self) -> dict[str, list[str]]:
        tags: dict[str, list[str]] = {}
        for tag, _ in self.rows(TAGS_BY_USE, {"limit": MOST_TAGS}):
            tags.setdefault(tag[0], []).append(tag)
        return tags

    def _once(self, statement: str, make: Callable[[], T]) -> T:
        """Return what *make* returned at the first call for *statement*.

        A cached property of Python 3.11 holds a lock that all instances share: while one reads, the others would wait.
        """
        if statement not in self._made:
            self._made[statement] = make()
        made: T = self._made[statement]
        return made


def identity_at(place: Place) -> Identity | None:
    """Return what distinguishes the index at *place* from its predecessor; None if there is none, or nobody answers."""
    try:
        if isinstance(place, Address):
            identity: Identity = _published().identity_at(place)
            return identity
        return identity_of(place.stat())
    except (OSError, CatalogError):
        return None


def _published() -> ModuleType:
    """Return the module that reads from PostgreSQL, whose driver few have."""
    try:
        return import_module("orchestr8_sqlite.index.postgresql")
    except ModuleNotFoundError:
        raise SettingsError(
            "Reading from PostgreSQL needs the package psycopg: install orchestr8-sqlite[postgresql]."
        ) from None


def escape_like(text: str) -> str:
    """Return *text* with LIKE's wildcards escaped by backslashes."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def check_sqlite() -> None:
    """Raise CatalogError if Python's SQLite is too old."""
    if sqlite3.sqlite_version_info < MINIMUM_SQLITE:
        needed = ".".join(map(str, MINIMUM_SQLITE[:2]))
        raise CatalogError(f"SQLite {sqlite3.sqlite_version} is too old: {needed} or newer with FTS5 is needed.")


def _check_header(db: sqlite3.Connection, path: Path) -> None:
    application_id = db.execute("PRAGMA application_id").fetchone()[0]
    if application_id != APPLICATION_ID:
        raise CatalogError(f"{path} is a database, but not an orchestr8-sqlite index; {REBUILD}.")
    major = db.execute("PRAGMA user_version").fetchone()[0] // 10_000
    if major != SCHEMA_MAJOR:
        what = "newer" if major > SCHEMA_MAJOR else "older"
        todo = "upgrade orchestr8-sqlite" if major > SCHEMA_MAJOR else REBUILD
        raise CatalogError(f"{path} has the {what} schema version {major}, this program reads {SCHEMA_MAJOR}; {todo}.")
