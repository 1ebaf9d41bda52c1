"""The tables and views that SQL users see, and the ids of scenarios."""

import hashlib
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from dumps import check_full_texts
from hypothesis import given, settings
from strategies import libraries, open_in_memory, queries
from support import CorpusIndex, MakeCatalog, MakeLibrary, build, make_fragment, markdown, needs_shared, rows

import orchestr8_sqlite
from orchestr8_sqlite.builder import writer
from orchestr8_sqlite.builder.writer import create_schema
from orchestr8_sqlite.index.checksums import add_checksum
from orchestr8_sqlite.model.records import Fragment, Reference
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.settings import Settings
from orchestr8_sqlite.text.keywords import extract_keywords

SCHEMA = files("orchestr8_sqlite.index").joinpath("schema.sql").read_text(encoding="utf-8")
LIBRARY = set(
    """meta root source fragment fragment_body tag capability scenario keyword posting field_posting reference prompt
    prompt_argument skill skill_file diagnostic review near_copy library_query library_answer quick_lookup""".split()
)
"""Tables that say what the library says."""

RANKING = set("rank_stem rank_topic rank_length rank_synonym_word rank_synonym_form".split())
FULL_TEXT = {"fragment_text", "fragment_vocabulary", "keyword_text"}
VIEWS = set(
    """fragment_searched fragment_detail provenance keyword_detail field_detail score_evidence
    reference_detail unreviewed finding""".split()
)
MOST_TABLES = 37
"""Those that keep the full text included."""

COLUMN = re.compile(r"    (\w+) +(?:TEXT|INTEGER|REAL|BLOB)\b")
COLLIDING = ("Case 698659", "Case 24048258")
"""Scenarios of skills/retry whose SHA-256 share the first twelve hex digits and no more than these."""


@pytest.fixture
def empty() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        create_schema(connection)
        yield connection


def digest(fragment_id: str, text: str) -> str:
    return hashlib.sha256(f"{fragment_id}:{text}".encode()).hexdigest()


def test_every_table_of_the_contract_exists_and_is_strict(empty: sqlite3.Connection) -> None:
    listed = "SELECT name, type, strict FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite_%'"
    found = empty.execute(listed).fetchall()
    assert {name for name, kind, _ in found if kind == "table"} == LIBRARY | RANKING
    assert [name for name, kind, strict in found if kind == "table" and not strict] == []
    assert {name for name, kind, _ in found if kind == "virtual"} == FULL_TEXT
    assert {name for name, kind, _ in found if kind == "view"} == VIEWS
    assert len([name for name, kind, _ in found if kind != "view"]) <= MOST_TABLES


def test_every_column_has_a_comment(empty: sqlite3.Connection) -> None:
    """It stands in the file too, so `.schema` prints it; a comment may end on the lines after the column."""
    for table, sql in empty.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%STRICT%'"):
        parts = re.split(r"\n(?=    \w+ +(?:TEXT|INTEGER|REAL|BLOB)\b)", sql)
        said = {COLUMN.match(part)[1]: "--" in part for part in parts[1:]}  # type: ignore[index]
        names = [name for (name,) in empty.execute("SELECT name FROM pragma_table_info(?)", (table,))]
        assert said == dict.fromkeys(names, True), table


def test_every_table_and_view_has_a_comment(empty: sqlite3.Connection) -> None:
    made = re.findall(r"((?:^-- .*\n)*)^(CREATE (?:VIRTUAL TABLE|TABLE|VIEW) (\w+).*)$", SCHEMA, re.MULTILINE)
    said = {name: bool(before) or "  -- " in line for before, line, name in made}
    assert said == dict.fromkeys(LIBRARY | RANKING | FULL_TEXT | VIEWS, True)


def test_only_the_files_of_skills_are_bytes(empty: sqlite3.Connection) -> None:
    """Everything else can be read as it stands."""
    columns = "SELECT t.name, c.name FROM pragma_table_list t JOIN pragma_table_info(t.name) c WHERE c.type = 'BLOB'"
    tables = LIBRARY | RANKING
    assert [row for row in empty.execute(columns) if row[0] in tables] == [("skill_file", "content")]


def test_wrong_type_is_refused(empty: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        empty.execute("INSERT INTO keyword VALUES (1, 'retry', 'retri', 'many', 1)")


def test_what_serves_the_ranking_alone_is_asked_by_nothing_else() -> None:
    package = Path(orchestr8_sqlite.__file__).parent
    asking = {
        path.relative_to(package).parts[0]
        for path in package.rglob("*.py")
        if path.name != "gathering.py"  # which lists the tables of which a shard has a part
        and any(re.search(rf"\b{table}\b", path.read_text(encoding="utf-8")) for table in RANKING)
    }
    assert asking == {"builder", "ranking"}


def test_library_can_be_read_without_what_serves_the_ranking(make_library: MakeLibrary, tmp_path: Path) -> None:
    files = {
        "skills/retry.md": markdown("title: Retry\nuseWhen: [Retrying a call]", "# Retry\n\nWait.\n"),
        "prompts/ask.md": "Ask $ARGUMENTS.\n",
    }
    index = build(make_library(files), tmp_path / "index.db")

    def said() -> list[object]:
        with closing(Service(Settings(index, "error", 10))) as service, service.snapshots.snapshot():
            read = [service.read(uri).text for uri in ("orchestr8://skills/retry", "orchestr8://registry")]
            return [*read, service.catalog.fragments(), rows(index, "SELECT * FROM fragment_detail")]

    before = said()
    with closing(sqlite3.connect(index, isolation_level=None)) as db:
        for table in RANKING:
            db.execute(f"DELETE FROM {table}")
    add_checksum(index)
    assert said() == before


@pytest.mark.parametrize("field", ["title", "tags", "capabilities", "scenarios", "description", "body"])
def test_full_text_covers_the_field(make_catalog: MakeCatalog, field: str) -> None:
    fragment = make_fragment("a", "x")
    value = {"tags": ("zebra",), "capabilities": ("Zebra",), "scenarios": ("Zebra",)}.get(field, "A zebra")
    changed = replace(fragment, **{"use_when" if field == "scenarios" else field: value})  # type: ignore[arg-type]
    catalog = make_catalog(changed, make_fragment("b"))
    sql = f"SELECT rowid, snippet(fragment_text, -1, '[', ']', '…', 9) FROM fragment_text WHERE {field} MATCH 'zebras'"
    [(number, shown)] = catalog.db.execute(sql).fetchall()
    assert (number, shown.casefold().removeprefix("a ")) == (1, "[zebra]")


def test_full_text_finds_words_that_it_does_not_cut_itself(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", body="Call setUserId first; 再試行する。"), make_fragment("b", body="No.")
    )
    for word in ("user", "setuserid", "再試", "試行"):
        found = "SELECT rowid FROM fragment_text WHERE fragment_text MATCH ?"
        assert catalog.db.execute(found, (f'"{word}"',)).fetchall() == [(1,)], word


def test_vocabulary_counts_the_fragments_that_hold_a_stem(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Retrying it", body="Retries."), make_fragment("b", body="A retry."))
    assert catalog.db.execute("SELECT doc, cnt FROM fragment_vocabulary WHERE term = 'retri'").fetchall() == [(2, 3)]


def test_keywords_are_found_by_three_letters_in_a_row(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Tuning postgresql", "Using postgres"), make_fragment("b", "Progress"))
    found = "SELECT text FROM keyword_text WHERE keyword_text MATCH '\"gres\"' ORDER BY 1"
    assert catalog.db.execute(found).fetchall() == [("postgres",), ("postgresql",), ("progress",)]


@settings(max_examples=30)
@given(library=libraries())
def test_full_texts_are_what_the_rows_say(library: list[Fragment]) -> None:
    with open_in_memory(library) as catalog:
        for table in ("fragment_text", "keyword_text"):
            catalog.db.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('integrity-check', 1)")


def test_full_text_that_is_not_what_the_rows_say_would_be_noticed(make_library: MakeLibrary, tmp_path: Path) -> None:
    index = build(make_library({"skills/a.md": "# A\n\nText.\n"}), tmp_path / "index.db")
    check_full_texts(index)
    with closing(sqlite3.connect(index, isolation_level=None)) as db:
        db.execute("UPDATE fragment_body SET body = 'Other.'")
    with pytest.raises(sqlite3.DatabaseError, match="malformed"):
        check_full_texts(index)


def test_index_says_what_it_is(empty: sqlite3.Connection) -> None:
    values = [empty.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
    assert values == [int.from_bytes(b"o8sq", "big"), 6 * 10_000]


def test_fragment_detail_shows_a_fragment_with_its_lists(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Adding retry", "Tuning it", title="A", tags=("z", "b"), capabilities=("One", "Two"))
    )
    sql = "SELECT uri, category, title, tags, capabilities, scenarios, source FROM fragment_detail"
    lists = ("z, b", "One; Two", "Adding retry; Tuning it")
    assert catalog.db.execute(sql).fetchall() == [("orchestr8://skills/a", "skill", "A", *lists, "library/skills/a.md")]


def test_fragment_detail_keeps_a_fragment_without_lists(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a"))
    assert catalog.db.execute("SELECT uri FROM fragment_detail").fetchall() == [("orchestr8://skills/a",)]


def test_keyword_detail_shows_scenarios_and_fragments_of_a_keyword(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Adding retry", "Tuning retry"), make_fragment("b", "Other", tags=("retry",))
    )
    sql = "SELECT scenario, uri, scenario_count, fragment_count FROM keyword_detail WHERE keyword = 'retry' ORDER BY 1"
    assert catalog.db.execute(sql).fetchall() == [
        ("Adding retry", "orchestr8://skills/a", 2, 2),
        ("Tuning retry", "orchestr8://skills/a", 2, 2),
    ]


def test_reference_detail_shows_pointers_and_where_they_dangle(make_catalog: MakeCatalog) -> None:
    references = (Reference("skills/b", "uri", 7), Reference("skills/gone", "link", 9))
    catalog = make_catalog(replace(make_fragment("a"), references=references), make_fragment("b"))
    sql = "SELECT from_uri, to_uri, target, kind, line FROM reference_detail ORDER BY line"
    assert catalog.db.execute(sql).fetchall() == [
        ("orchestr8://skills/a", "orchestr8://skills/b", "skills/b", "uri", 7),
        ("orchestr8://skills/a", None, "skills/gone", "link", 9),
    ]


def test_score_evidence_explains_the_worked_example(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Adding retry with timeouts"), make_fragment("b", "Setting a timeout"))
    sql = (
        "SELECT keyword, how, matched, points FROM score_evidence WHERE uri LIKE '%/a' AND keyword IN (?, ?) ORDER BY 1"
    )
    assert catalog.db.execute(sql, ("retry", "timeout")).fetchall() == [
        ("retry", "exact", "retry", 20),
        ("timeout", "partial", "timeouts", 10),
    ]


def naive_points(scenario: str, keywords: list[str]) -> int:
    """Return the classic score of one scenario, 0 where it holds no keyword exactly."""
    held = extract_keywords(scenario)
    partial = [word for word in keywords if any(word in other or other in word for other in held)]
    exact = [word for word in keywords if word in held]
    return 10 * len(partial) + 10 * len(exact) if exact else 0


@settings(max_examples=25)
@given(library=libraries(), query=queries())
def test_score_evidence_adds_up_to_the_classic_score(library: list[Fragment], query: str) -> None:
    with open_in_memory(library) as catalog:
        known = {row[0] for row in catalog.db.execute("SELECT text FROM keyword")}
        keywords = [keyword for keyword in extract_keywords(query) if keyword in known]
        named = ", ".join(f"'{keyword}'" for keyword in keywords)
        explained = catalog.db.execute(example("score_evidence").replace("'retry', 'backoff'", named)).fetchall()
        uris = dict(catalog.db.execute("SELECT path, uri FROM fragment").fetchall())
    expected = [
        (-points, uris[fragment.id], text)
        for fragment in library
        for text in fragment.use_when
        if (points := naive_points(text, keywords))
    ]
    assert sorted((-points, uri, text) for uri, text, points in explained) == sorted(expected)


def example(view: str) -> str:
    """Return the statement that the comment of a view, or of the full text, gives."""
    said = re.search(rf"((?:^-- .*\n)+)CREATE (?:VIEW|VIRTUAL TABLE) {view}\b", SCHEMA, re.MULTILINE)
    assert said
    return re.sub(r"^-- ", "", said[1], flags=re.MULTILINE).partition(":\n")[2]


@pytest.mark.parametrize("name", ["fragment_text", "field_detail", "score_evidence"])
def test_statement_in_a_comment_has_rows(make_catalog: MakeCatalog, name: str) -> None:
    catalog = make_catalog(make_fragment("a", "Adding retry"), make_fragment("b", "Other"))
    assert [row[0] for row in catalog.db.execute(example(name))] == ["orchestr8://skills/a"]


SLOWEST = 0.2
"""Seconds of processor time that a view may take to answer on the largest corpus."""

ASKED = {
    **{
        view: f"SELECT * FROM {view}"
        for view in ("fragment_searched", "fragment_detail", "provenance", "unreviewed", "finding")
    },
    "reference_detail": "SELECT * FROM reference_detail",
    "keyword_detail": "SELECT * FROM keyword_detail WHERE keyword = 'retry'",
    "field_detail": example("field_detail"),
    "score_evidence": example("score_evidence"),
}
"""What is asked of each view: all of its rows, or of those with a row for each word what their comments say."""


@needs_shared
@pytest.mark.slow
def test_every_view_answers_at_once_on_a_library_of_thousands_of_skills(corpus_index: CorpusIndex) -> None:
    index = corpus_index("skills")
    assert rows(index, "SELECT count(*) >= 2294 FROM source") == [(1,)]
    assert ASKED.keys() == VIEWS
    for view, sql in ASKED.items():
        seconds = []
        for _ in range(3):
            started = time.process_time()
            assert rows(index, sql)
            seconds.append(time.process_time() - started)
        assert min(seconds) < SLOWEST, view
    check_full_texts(index)


@settings(max_examples=25)
@given(library=libraries())
def test_scenario_id_is_the_hash_of_path_and_text(library: list[Fragment]) -> None:
    with open_in_memory(library) as catalog:
        found = "SELECT s.scenario_id FROM scenario s JOIN fragment f ON f.id = s.fragment_id ORDER BY f.id, s.ordinal"
        ids = [id_ for (id_,) in catalog.db.execute(found)]
    assert ids == [f"scenario-{digest(one.id, text)[:12]}" for one in library for text in one.use_when]


def test_scenarios_with_the_same_twelve_digits_get_longer_ids(make_catalog: MakeCatalog) -> None:
    digests = [digest("skills/retry", text) for text in COLLIDING]
    assert digests[0][:12] == digests[1][:12]
    catalog = make_catalog(make_fragment("retry", *COLLIDING, "Another case"))
    rows = dict(catalog.db.execute("SELECT text, scenario_id FROM scenario").fetchall())
    assert len(set(rows.values())) == 3
    for text, hashed in zip(COLLIDING, digests, strict=True):
        assert len(rows[text]) > len("scenario-") + 12
        assert f"scenario-{hashed}".startswith(rows[text])
    assert rows["Another case"] == f"scenario-{digest('skills/retry', 'Another case')[:12]}"


def test_each_id_is_long_enough_to_name_one_scenario_and_no_longer(
    make_catalog: MakeCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one digit at least, scenarios share their beginnings more often than with twelve."""
    monkeypatch.setattr(writer, "SCENARIO_DIGITS", 1)
    texts = [f"Doing the {number}th thing" for number in range(40)]
    catalog = make_catalog(make_fragment("a", *texts))
    ids = {
        text: id_.removeprefix("scenario-")
        for text, id_ in catalog.db.execute("SELECT text, scenario_id FROM scenario")
    }
    digests = {text: digest("skills/a", text) for text in texts}
    for text, hashed in digests.items():
        others = [other for one, other in digests.items() if one != text]
        shared = max(next(at for at in range(64) if other[at] != hashed[at]) for other in others)
        assert ids[text] == hashed[: shared + 1]
