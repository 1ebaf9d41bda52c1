"""`usage`: what a server's log says of the use of a library, and the draft of requests that nothing fits."""

import gzip
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import GARDENING, Invoke, build, markdown, write_files
from test_log import converse

from orchestr8_sqlite.evaluation.judgements import read_queries
from orchestr8_sqlite.usage.logs import read_logs
from orchestr8_sqlite.usage.report import report_of

Line = Mapping[str, Any]
RETRY, PDF, GONE = "orchestr8://skills/retry", "orchestr8://skills/pdf", "orchestr8://skills/gone"
MONDAY = datetime(2026, 11, 16, 9, tzinfo=UTC)
FILES = {
    "skills/retry.md": markdown("title: Retry\nuseWhen: [Retrying a flaky call]"),
    "skills/pdf.md": markdown("title: Pdf\nuseWhen: [Filling forms]"),
    **GARDENING,
}
numbers = itertools.count()


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("usage")
    return build(write_files(folder / "library", FILES), folder / "index.db")


def line(at: datetime, session: str = "a", **fields: object) -> dict[str, object]:
    """Return the line of a request as the server writes it."""
    time = at.isoformat(timespec="milliseconds")
    known = {"time": time, "level": "info", "message": "request", "request_id": f"{next(numbers):016x}"}
    return {**known, "session": session, "method": "tools/call", "id": 1, "latency_ms": 2.0, **fields}


def search(at: datetime, query: str | None, *uris: str, session: str = "a", **fields: object) -> dict[str, object]:
    asked = {} if query is None else {"query": query}
    listed = {"uris": [*uris]} if uris else {}
    usual = {"tool": "search", "mode": "index", "confident": True, "coverage": 1.0}
    return line(at, session, **{**usual, **asked, **listed, **fields})


def load(at: datetime, *uris: str, session: str = "a") -> dict[str, object]:
    return line(at, session, tool="load", loaded=[*uris])


def minutes(count: float) -> datetime:
    return MONDAY + timedelta(minutes=count)


def write(path: Path, *logged: Line | str) -> Path:
    path.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in logged))
    return path


@pytest.fixture
def used(invoke: Invoke, index: Path, tmp_path: Path) -> "Used":
    return Used(invoke, index, tmp_path / "server.log")


class Used:
    """Asks `usage --json` for the figures of logged lines."""

    def __init__(self, invoke: Invoke, index: Path, file: Path) -> None:
        self.invoke, self.index, self.file = invoke, index, file

    def __call__(self, *logged: Line | str) -> dict[str, Any]:
        code, out, err = self.invoke("usage", write(self.file, *logged), "--json", "--db", self.index)
        assert (code, err) == (0, "")
        figures: dict[str, Any] = json.loads(out)
        return figures


def test_load_belongs_to_the_last_search_of_its_session_that_listed_it(used: Used) -> None:
    figures = used(
        search(minutes(0), "first", RETRY, PDF),
        search(minutes(1), "second", PDF, RETRY),
        search(minutes(2), "third", GONE),
        search(minutes(3), "of another", RETRY, session="b"),
        load(minutes(4), RETRY),
        search(minutes(5), "too late", RETRY),
    )
    assert (figures["ranks"], figures["led"], figures["listed"], figures["rate"]) == ({"2": 1}, 1, 5, 0.2)
    assert (figures["loads"], figures["found"], figures["sessions"], figures["requests"]) == (1, 1, 2, 6)


def test_load_without_a_search_that_listed_it_within_the_hour_belongs_to_none(used: Used) -> None:
    figures = used(
        search(minutes(0), "x", RETRY),
        load(minutes(1), PDF),
        load(minutes(2), RETRY, session="b"),
        load(minutes(60.1), RETRY),
    )
    assert (figures["loads"], figures["found"], figures["led"], figures["ranks"]) == (3, 0, 0, {})


def test_events_of_one_millisecond_happened_in_the_order_of_their_lines(
    invoke: Invoke, index: Path, tmp_path: Path
) -> None:
    older = write(tmp_path / "server.log.1", search(minutes(0), "x", RETRY), search(minutes(1), "y", PDF, RETRY))
    newer = write(tmp_path / "server.log", load(minutes(1), RETRY), search(minutes(1), "z", PDF, GONE, RETRY))
    for files in ((older, newer), (newer, older)):
        _, out, _ = invoke("usage", *files, "--json", "--db", index)
        assert json.loads(out)["ranks"] == {"2": 1}


def test_near_copy_has_the_rank_of_the_match_that_it_was_named_beside(used: Used) -> None:
    figures = used(search(minutes(0), "x", RETRY, PDF, also={GONE: 2}), load(minutes(1), GONE))
    assert figures["ranks"] == {"2": 1}


def test_search_in_full_mode_counts_as_answered_but_need_not_lead_to_a_load(used: Used) -> None:
    figures = used(search(minutes(0), "x", RETRY, mode="full"), search(minutes(1), "y"))
    assert (figures["answered"], figures["listed"], figures["rate"]) == (2, 0, None)


def test_fragments_are_counted_and_those_of_the_index_that_were_never_loaded_named(used: Used) -> None:
    figures = used(
        search(minutes(0), "x", RETRY, PDF),
        search(minutes(1), "y", PDF),
        search(minutes(2), "z", PDF, confident=False),
        load(minutes(3), RETRY, GONE),
        load(minutes(4), RETRY),
    )
    assert figures["fragments"] == [
        {"uri": RETRY, "loads": 2, "listed": 1},
        {"uri": GONE, "loads": 1, "listed": 0},
        {"uri": PDF, "loads": 0, "listed": 2},
    ]
    assert figures["notInIndex"] == [GONE]
    assert figures["neverLoaded"] == sorted([PDF, *(f"orchestr8://guides/g{number}" for number in range(20))])


def test_requests_that_nothing_fits_are_grouped_by_text_and_by_the_words_that_were_not_covered(used: Used) -> None:
    weak: Any = {"confident": False, "uncovered": ["ferry", "zanzibar"]}
    figures = used(
        search(minutes(0), "Zanzibar ferry", RETRY, **weak),
        search(minutes(1), "zanzibar FERRY", PDF, **weak, terms=["dhow"]),
        search(minutes(2), "ferry bread", confident=False, uncovered=["bread", "ferry"], filtered=True),
        search(minutes(3), "what now", confident=False),
        load(minutes(4), PDF),
    )
    assert [figures[name] for name in ("searches", "answered", "weak", "nothing")] == [4, 0, 2, 2]
    assert figures["uncovered"] == [
        {"word": "ferry", "times": 3, "queries": ["zanzibar FERRY", "ferry bread"]},
        {"word": "zanzibar", "times": 2, "queries": ["zanzibar FERRY"]},
        {"word": "", "times": 1, "queries": ["what now"]},
        {"word": "bread", "times": 1, "queries": ["ferry bread"]},
    ]
    first, second, third = figures["gaps"]
    assert first == {
        "query": "zanzibar FERRY",
        "terms": ["dhow"],
        "times": 2,
        "filtered": 0,
        "uncovered": ["ferry", "zanzibar"],
        "closest": [PDF],
        "last": "2026-11-16T09:01:00.000+00:00",
        "loads": 1,
    }
    assert [(gap["query"], gap["times"], gap["filtered"]) for gap in (second, third)] == [
        ("what now", 1, 0),
        ("ferry bread", 1, 1),
    ]
    assert (figures["weakLed"], figures["led"], figures["found"]) == (1, 0, 1)


def test_weeks_are_those_of_iso_8601_in_utc(used: Used) -> None:
    sunday = datetime(2026, 1, 4, 23, 59, tzinfo=UTC)
    in_tokyo = datetime.fromisoformat("2026-01-05T08:59:30+09:00")
    figures = used(
        search(sunday, "x", RETRY),
        search(in_tokyo, "y", RETRY),
        load(sunday + timedelta(minutes=2), RETRY),
        search(datetime(2024, 12, 30, tzinfo=UTC), "z", confident=False),
    )
    weeks = {week["week"]: (week["searches"], week["led"], week["loads"], week["nothing"]) for week in figures["weeks"]}
    assert weeks == {"2025-W01": (1, 0, 0, 1), "2026-W01": (2, 1, 0, 0), "2026-W02": (0, 0, 1, 0)}
    assert [*weeks] == sorted(weeks)
    assert (figures["first"], figures["last"]) == ("2024-12-30T00:00:00.000+00:00", "2026-01-05T00:01:00.000+00:00")


def test_files_are_read_in_any_order_plain_or_compressed_and_each_request_once(
    invoke: Invoke, index: Path, tmp_path: Path
) -> None:
    newer = write(tmp_path / "server.log", load(minutes(1), RETRY))
    older = write(tmp_path / "server.log.1", search(minutes(0), "x", RETRY))
    packed = tmp_path / "server.log.2.gz"
    packed.write_bytes(gzip.compress(older.read_bytes()))
    empty = write(tmp_path / "server.log.3")
    for files in itertools.permutations([newer, older, packed, empty]):
        _, out, err = invoke("usage", *files, newer, "--json", "--db", index)
        figures = json.loads(out)
        assert (figures["requests"], figures["ranks"], figures["damaged"], err) == (2, {"1": 1}, {}, "")
        assert (figures["searches"], figures["loads"]) == (1, 1)


@pytest.mark.parametrize(
    "damaged",
    [
        '{"time": "2026-11-16T09:',
        "not JSON",
        "[1]",
        "\x00\x00",
        json.dumps({"message": "request", "request_id": "x"}),
        json.dumps({**line(MONDAY), "time": "yesterday"}),
        json.dumps({**line(MONDAY), "time": "2026-11-16T09:00:00"}),
        json.dumps({**line(MONDAY), "session": 7}),
        json.dumps(search(MONDAY, "x", uris="all")),
        json.dumps(search(MONDAY, "x", also=[RETRY])),
        json.dumps({**load(MONDAY), "loaded": [1]}),
        "[" * 100_000,
    ],
)
def test_damaged_line_is_counted_and_said_and_the_others_count(
    invoke: Invoke, index: Path, tmp_path: Path, damaged: str
) -> None:
    log = write(tmp_path / "server.log", search(minutes(0), "x", RETRY), damaged, load(minutes(1), RETRY))
    code, out, err = invoke("usage", log, "--json", "--db", index)
    assert (code, err) == (0, "server.log: 1 damaged line left out\n")
    figures = json.loads(out)
    assert (figures["requests"], figures["led"], figures["damaged"]) == (2, 1, {"server.log": 1})


def test_compressed_file_that_breaks_off_counts_up_to_there(invoke: Invoke, index: Path, tmp_path: Path) -> None:
    logged = "".join(json.dumps(search(minutes(n), f"query {n}", RETRY)) + "\n" for n in range(500)).encode()
    packed = tmp_path / "server.log.gz"
    packed.write_bytes(gzip.compress(logged)[:-200])
    _, out, _ = invoke("usage", packed, "--json", "--db", index)
    figures = json.loads(out)
    assert 100 < figures["searches"] < 500
    assert figures["damaged"]["server.log.gz"] in (1, 2)


def test_log_as_text_is_refused_in_one_sentence(invoke: Invoke, index: Path, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(converse(index, LOG_FORMAT="text").stderr)
    code, out, err = invoke("usage", log, "--db", index)
    assert (code, out) == (2, "")
    assert err == "server.log is not a log in JSON: set ORCHESTR8_LOG_FILE or LOG_FORMAT=json.\n"


def test_lines_of_other_events_and_requests_count_only_as_requests(used: Used) -> None:
    figures = used(
        {"time": "2026-11-16T09:00:00.000+00:00", "level": "info", "message": "serving", "version": "1"},
        line(MONDAY, method="tools/list"),
        line(MONDAY, tool="search", mistake="'mode' must be one of index, catalog, full, not 'brief'."),
    )
    assert (figures["requests"], figures["searches"], figures["loads"], figures["weeks"]) == (2, 0, 0, [])


# The draft


GAPS = [
    search(minutes(0), "Zanzibar ferry", RETRY, confident=False, uncovered=["ferry"], terms=["dhow"]),
    search(minutes(1), "zanzibar ferry", RETRY, confident=False, uncovered=["ferry"], terms=["dhow"]),
    search(minutes(2), 'bread "rising"', confident=False, uncovered=["bread"]),
    search(minutes(3), "only of skills", confident=False, filtered=True),
    search(minutes(4), "well answered", RETRY),
]


def test_draft_is_a_list_of_queries_that_a_library_and_eval_read(invoke: Invoke, index: Path, tmp_path: Path) -> None:
    log, draft = write(tmp_path / "server.log", *GAPS), tmp_path / "library" / "queries.jsonl"
    write_files(tmp_path / "library", FILES)
    code, out, err = invoke("usage", log, "--draft", draft, "--db", index)
    assert (code, err) == (0, "")
    assert out.endswith(f"\n{draft}: 2 requests to judge\n")
    drafted = [json.loads(line) for line in draft.read_text(encoding="utf-8").splitlines()]
    assert [(one["text"], one["documents"], one.get("terms")) for one in drafted] == [
        ("zanzibar ferry", [], ["dhow"]),
        ('bread "rising"', [], None),
    ]
    assert (drafted[0]["asked"], drafted[0]["uncovered"], drafted[0]["closest"]) == (2, ["ferry"], ["skills/retry"])
    assert [(one.text, one.terms) for one in read_queries(draft)] == [
        ("zanzibar ferry", ("dhow",)),
        ('bread "rising"', ()),
    ]
    judged = [{**one, "documents": ["skills/pdf"]} if number else one for number, one in enumerate(drafted)]
    draft.write_text("".join(json.dumps(one) + "\n" for one in judged))
    code, _, err = invoke("build", draft.parent, "-o", tmp_path / "judged.db", "--strict")
    assert (code, "queries" in err) == (0, False), err
    _, out, _ = invoke("sql", "SELECT text FROM library_query ORDER BY 1", "--db", tmp_path / "judged.db", "--json")
    assert [row["text"] for row in json.loads(out)] == ['bread "rising"', "zanzibar ferry"]


def test_draft_never_overwrites_a_file(invoke: Invoke, index: Path, tmp_path: Path) -> None:
    log, draft = write(tmp_path / "server.log", *GAPS), tmp_path / "queries.jsonl"
    draft.write_text("judged")
    code, _, err = invoke("usage", log, "--draft", draft, "--db", index)
    assert (code, err) == (2, f"{draft} is there already, maybe judged: name a new file.\n")
    assert draft.read_text() == "judged"


@pytest.mark.parametrize("query", ["sha256:9f86d081884c7d65", None])
def test_draft_needs_the_texts_of_requests(invoke: Invoke, index: Path, tmp_path: Path, query: str | None) -> None:
    log, draft = write(tmp_path / "server.log", search(MONDAY, query, confident=False)), tmp_path / "queries.jsonl"
    code, _, err = invoke("usage", log, "--draft", draft, "--db", index)
    assert code == 2
    assert err == "The log has no texts of such requests: ORCHESTR8_LOG_QUERIES=on lets a server write them.\n"
    assert not draft.exists()


# A whole log


def test_log_of_a_server_gives_the_figures_of_what_was_asked(invoke: Invoke, index: Path, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    asked = [{"name": "search", "arguments": {"query": query}} for query in ("retrying a call", "Zanzibar ferry")]
    said = [{"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": one} for n, one in enumerate(asked, start=1)]
    converse(index, *said, ORCHESTR8_LOG_FILE=str(log), ORCHESTR8_LOG_QUERIES="on")
    code, out, err = invoke("usage", log, "--db", index, "--show", "2")
    assert (code, err) == (0, "")
    shown = out.splitlines()
    assert shown[0].startswith("3 requests from ")
    assert shown[1] == "2 searches: 1 answered; nothing fitted: 0 weak, 1 without anything close"
    assert shown[2] == "answers that led to a load: 0 of 1 answer with a list (0.0%)"
    assert f"never loaded: 22 of 22 fragments in {index}" in shown
    assert "zanzibar\t1\tZanzibar ferry" in shown
    assert "… and 20 more; list all with: --show 22" in shown


TIMES = st.integers(0, 60).map(lambda step: MONDAY + timedelta(minutes=step * 7 % 420, days=step % 15))
URIS = st.lists(st.sampled_from([RETRY, PDF, GONE]), unique=True, max_size=3)
EVENTS = st.one_of(
    st.builds(
        lambda at, query, uris, session, confident, mode: search(
            at, query, *uris, session=session, confident=confident, mode=mode, uncovered=[] if confident else [query]
        ),
        TIMES,
        st.sampled_from(["Fix CI", "fix ci", "bread"]),
        URIS,
        st.sampled_from("ab"),
        st.booleans(),
        st.sampled_from(["index", "full"]),
    ),
    st.builds(lambda at, uris, session: load(at, *uris, session=session), TIMES, URIS, st.sampled_from("ab")),
)


@settings(max_examples=150)
@given(st.lists(EVENTS, max_size=30), st.data())
def test_figures_are_those_of_a_naive_count(
    tmp_path_factory: pytest.TempPathFactory, events: list[dict[str, Any]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("naive")
    events.sort(key=lambda event: str(event["time"]))
    cut = data.draw(st.integers(0, len(events)))
    files = [write(folder / name, *part) for name, part in (("one", events[:cut]), ("two", events[cut:]))]
    if len({event["time"] for event in events[: cut + 1]}) > 1:
        files.reverse()
    report = report_of(read_logs(files), {RETRY, PDF})
    naive = Naive(events)
    assert report.whole.searches == len(naive.searches)
    assert report.whole.answered == sum(one["confident"] for one in naive.searches)
    assert report.whole.weak == sum(not one["confident"] and bool(one.get("uris")) for one in naive.searches)
    assert report.ranks == Counter(one["uris"].index(uri) + 1 for uri, one in naive.origins)
    assert report.whole.found == len(naive.origins)
    assert (report.whole.led, report.whole.asked) == (len(naive.led), len(naive.listing))
    for use in report.fragments:
        assert use.loads == sum(one["loaded"].count(use.uri) for one in naive.loads)
    assert [*report.never] == sorted(
        uri for uri in (RETRY, PDF) if all(uri not in one["loaded"] for one in naive.loads)
    )
    gaps = Counter(one["query"].lower() for one in naive.searches if not one["confident"])
    assert {str(gap.query).lower(): gap.times for gap in report.gaps} == gaps
    weeks = {datetime.fromisoformat(one["time"]).strftime("%G-W%V") for one in events}
    assert [*report.weeks] == sorted(weeks)
    for week, counts in report.weeks.items():
        in_week = [one for one in naive.led if datetime.fromisoformat(one["time"]).strftime("%G-W%V") == week]
        assert counts.led == len(in_week)


class Naive:
    """Counts by going through everything again and again."""

    def __init__(self, events: Sequence[Mapping[str, Any]]) -> None:
        self.events = events
        self.searches = [event for event in events if "confident" in event]
        self.loads = [event for event in events if "loaded" in event]
        self.listing = [one for one in self.searches if one["confident"] and one.get("uris") and one["mode"] != "full"]
        self.origins = [
            (uri, one) for event in self.loads for uri in event["loaded"] for one in self._origin(event, uri)
        ]
        self.led = [one for one in self.listing if any(one is other for _, other in self.origins)]

    def _origin(self, load: Mapping[str, Any], uri: str) -> Iterator[Mapping[str, Any]]:
        """Yield the search that *uri* of a load belongs to, if there is one."""
        for one in reversed(self.events[: self.events.index(load)]):
            if "confident" in one and one["session"] == load["session"] and uri in one.get("uris", ()):
                if datetime.fromisoformat(load["time"]) - datetime.fromisoformat(one["time"]) <= timedelta(hours=1):
                    yield one
                return
