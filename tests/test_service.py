"""Reading, searching and loading through one `Service`, as both doors do."""

import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import GARDENING, build, markdown, write_files

from orchestr8_sqlite.errors import CatalogError, RequestError, UnknownResource
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.index.checksums import add_checksum
from orchestr8_sqlite.model.requests import LookupResult, MatchRequest, Mode, Ranker
from orchestr8_sqlite.ranking import lookup
from orchestr8_sqlite.service import service as service_module
from orchestr8_sqlite.service.service import Answer, Service
from orchestr8_sqlite.settings import Settings
from orchestr8_sqlite.text.tokens import estimate_tokens

LONG = "".join(f"## Part {n}\n\n" + f"Plain words of part {n}. " * 60 + "\n\n" for n in range(6))
FILES = {
    "skills/retry.md": markdown(
        "title: Retry\ntags: [api]\nuseWhen: [Adding retry]", "# Retry\n\nSee orchestr8://skills/backoff.\n"
    ),
    "skills/backoff.md": markdown("title: Backoff\nuseWhen: [Adding retry with backoff]", "# Backoff\n\nWait.\n"),
    "agents/deep/helper.md": markdown("title: Helper\nuseWhen: [Asking for retry]", "# Helper\n\nHelps.\n"),
    "guides/long.md": markdown("title: Long\nuseWhen: [Reading long texts]", f"# Long\n\n{LONG}"),
    "prompts/workflows/new.md": markdown(
        "name: new-project\ndescription: Start\narguments: [{name: task, required: true}]", "Do ${task}.\n"
    ),
}
URIS = ["orchestr8://skills/retry", "orchestr8://guides/long", "orchestr8://agents/deep/helper"]


def make_index(folder: Path, files: dict[str, str]) -> Path:
    """Write *files* to an empty library and return its index; a second call replaces the index."""
    numbered = folder / f"library{len(list(folder.glob('library*')))}"
    return build(write_files(numbered, files), folder / "index.db")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_index(tmp_path_factory.mktemp("service"), FILES)


@pytest.fixture
def index(built: Path, tmp_path: Path) -> Path:
    """Return an index of FILES that the test may replace."""
    return Path(shutil.copy(built, tmp_path))


@pytest.fixture
def service(index: Path) -> Iterator[Service]:
    opened = Service(Settings(index, "info", 200))
    yield opened
    opened.close()


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> list[MatchRequest]:
    """Return the list of requests that were looked up and not answered from memory."""
    asked: list[MatchRequest] = []
    find = lookup.find

    def counted(catalog: Catalog, request: MatchRequest, *, lists: bool = True, scenarios: bool = True) -> LookupResult:
        asked.append(request)
        return find(catalog, request, lists=lists, scenarios=scenarios)

    monkeypatch.setattr(service_module, "find", counted)
    return asked


def test_static_uri_gives_the_text_without_front_matter(service: Service) -> None:
    text = "# Retry\n\nSee orchestr8://skills/backoff.\n"
    for uri in ("orchestr8://skills/retry", "@orchestr8://Skill/_fragments/retry", "@o8:orchestr8://skills/retry"):
        assert service.read(uri).text.strip() == text.strip()


def test_match_uri_gives_what_search_gives(service: Service) -> None:
    request = MatchRequest("retry", Mode.INDEX, categories=("agent",), max_results=5)
    read = service.read("orchestr8://agents/match?query=retry&mode=index")
    assert read == service.search(request)
    assert "orchestr8://agents/deep/helper" in read.text
    assert "orchestr8://skills" not in read.text


WEAK = "backoff cobol fortran pascal haskell erlang prolog"
"""Of this the index knows but the first word."""


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Return a service over FILES among others, enough to measure what an answer must cover."""
    opened = Service(Settings(make_index(tmp_path_factory.mktemp("larger"), {**FILES, **GARDENING}), "info", 200))
    yield opened
    opened.close()


def test_weak_answer_is_said_by_uri_and_search_and_from_memory(larger: Service) -> None:
    for mode in Mode:
        answer = larger.search(MatchRequest(WEAK, mode))
        assert answer.result is not None
        assert not answer.result.confident
        assert answer.text.startswith(f"Nothing fits '{WEAK}'; not covered: cobol, fortran, ")
        assert "\nClosest, but weak (" in answer.text
        assert "Wait." not in answer.text
        assert larger.search(MatchRequest(WEAK, mode)) == answer
    assert larger.read(f"orchestr8://match?query={WEAK.replace(' ', '+')}").text.startswith("Nothing fits")


def test_match_uri_explains_on_request(service: Service) -> None:
    plain = service.read("orchestr8://match?query=retry")
    answer = service.read("orchestr8://match?query=retry&explain=true")
    assert answer == service.search(MatchRequest("retry", explain=True))
    assert answer.text.count("   why: ") == 3
    assert "why: " not in plain.text
    assert service.read("orchestr8://match?query=retry&explain=false") == plain


@pytest.mark.parametrize("value", ["yes", "1", "", "TRUE"])
def test_match_uri_with_another_value_of_explain_is_told_what_to_send(service: Service, value: str) -> None:
    with pytest.raises(RequestError, match=f"'explain' must be true or false, not '{value}'"):
        service.read(f"orchestr8://match?query=retry&explain={value}")


@pytest.mark.parametrize("uri", ["orchestr8://", "orchestr8://registry"])
def test_registry_names_the_categories_their_counts_and_how_to_ask(service: Service, uri: str) -> None:
    text = service.read(uri).text
    for part in ("orchestr8://agents (1)", "orchestr8://skills (2)", "orchestr8://guides (1)", "match?query="):
        assert part in text


def test_category_list_names_its_fragments(service: Service) -> None:
    text = service.read("orchestr8://skills").text
    assert "backoff" in text
    assert "retry" in text
    assert "helper" not in text


def test_long_category_list_says_how_many_it_leaves_out(tmp_path: Path) -> None:
    count = 300
    files = {f"skills/some-skill-{n:03}.md": f"# Some skill number {n}\n\nText about it.\n" for n in range(count)}
    service = Service(Settings(make_index(tmp_path, files), "info", 10))
    answer = service.read("orchestr8://skills")
    service.close()
    listed = sum(line.startswith("- some-skill-") for line in answer.text.split("\n"))
    assert f"{count - listed} more" in answer.text
    assert answer.tokens <= 3100


def test_token_count_of_an_answer_is_that_of_its_text(service: Service) -> None:
    for uri in [*URIS, "orchestr8://", "orchestr8://skills", "orchestr8://match?query=retry"]:
        answer = service.read(uri)
        assert answer.tokens == estimate_tokens(answer.text)


@pytest.mark.parametrize(
    ("uri", "nearest"),
    [("orchestr8://skills/retri", "orchestr8://skills/retry"), ("orchestr8://agents/helper", "agents/deep/helper")],
)
def test_unknown_uri_names_the_nearest(service: Service, uri: str, nearest: str) -> None:
    with pytest.raises(UnknownResource) as caught:
        service.read(uri)
    assert uri in str(caught.value)
    assert nearest in str(caught.value)


def test_unknown_prompt_names_the_nearest(service: Service) -> None:
    with pytest.raises(UnknownResource, match="new-project"):
        service.prompt("new-projct", {"task": "x"})


def test_prompt_is_found_and_filled(service: Service) -> None:
    row, text = service.prompt("new-project", {"task": "it"})
    assert (row.name, text.strip()) == ("new-project", "Do it.")


def test_load_of_several_gives_each_whole_under_its_uri_in_the_order_asked(service: Service) -> None:
    text = service.load(URIS).text
    places = [text.index(uri) for uri in ("## " + URIS[0], "## " + URIS[1], "## " + URIS[2])]
    assert places == sorted(places)
    for uri in URIS:
        assert service.read(uri).text.rstrip() in text


def test_load_of_the_same_text_twice_gives_it_once_however_it_is_named(service: Service) -> None:
    name = URIS[0].rpartition("/")[2]
    for again in (URIS[0], name, f" {name}\n"):
        assert service.load([URIS[0], again]) == service.load([again, URIS[0]]) == service.load([URIS[0]])
    assert service.load([name, "no-such", f"{name} "]).text == service.load([URIS[0], "no-such"]).text


@pytest.mark.parametrize("count", [0, 21])
def test_load_takes_1_to_20_uris(service: Service, count: int) -> None:
    with pytest.raises(RequestError, match="1 to 20"):
        service.load([f"orchestr8://skills/s{n}" for n in range(count)])


def test_load_of_one_unknown_among_known_says_so_beside_the_known(service: Service) -> None:
    known, unknown = service.load([URIS[1], "orchestr8://skills/retyr"]).content["documents"]
    assert known["text"]
    assert "Nearest: orchestr8://skills/retry" in unknown["note"]


def test_load_of_an_unknown_uri_alone_is_an_error(service: Service) -> None:
    with pytest.raises(UnknownResource, match="skills/retry"):
        service.load(["orchestr8://skills/retyr"])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    uris=st.lists(st.sampled_from(URIS), min_size=1, unique=True),
    budget=st.integers(1, 200) | st.integers(200, 4000),
    related=st.booleans(),
)
def test_load_keeps_one_budget_over_all_uris(service: Service, uris: list[str], budget: int, related: bool) -> None:
    assert estimate_tokens(service.load(uris, max_tokens=budget, related=related).text) <= budget


def test_load_cuts_nothing_where_all_fits_the_budget(service: Service) -> None:
    whole = service.load(URIS)
    assert service.load(URIS, max_tokens=round(whole.tokens * 1.2) + 30).text == whole.text


def test_load_says_what_was_cut_and_where_the_whole_text_is(service: Service) -> None:
    answer = service.load(["orchestr8://guides/long"], max_tokens=500)
    last = answer.text.split("\n")[-1]
    assert "left out" in last
    assert "orchestr8://guides/long" in last


def test_related_names_the_neighbours_in_both_directions(service: Service) -> None:
    there = service.load(["orchestr8://skills/retry"], related=True).text
    back = service.load(["orchestr8://skills/backoff"], related=True).text
    assert there.endswith("Related: orchestr8://skills/backoff")
    assert back.endswith("Related: orchestr8://skills/retry")
    assert "Related" not in service.load(["orchestr8://agents/deep/helper"], related=True).text


def test_same_request_is_answered_from_memory(service: Service, lookups: list[MatchRequest]) -> None:
    request = MatchRequest("retry")
    assert service.search(request) == service.search(request)
    assert lookups == [request]


@pytest.mark.parametrize(
    "options",
    [
        {"mode": Mode.INDEX},
        {"mode": Mode.FULL},
        {"categories": ("agent",)},
        {"tags": ("api",)},
        {"max_results": 1},
        {"max_tokens": 60},
        {"min_score": 1000.0},
        {"ranker": Ranker.CLASSIC},
        {"explain": True},
        {"query": "backoff"},
        {"terms": ("backoff",)},
    ],
)
def test_no_answer_is_replayed_for_another_request(index: Path, options: dict[str, object]) -> None:
    def asked_in(requests: list[MatchRequest]) -> dict[MatchRequest, Answer]:
        service = Service(Settings(index, "info", 200))
        answers = {request: service.search(request) for request in requests}
        service.close()
        return answers

    plain = MatchRequest("retry", min_score=0)
    other = plain._replace(**options)  # type: ignore[arg-type]
    together = asked_in([plain, other])
    assert together[other] == asked_in([other])[other]
    assert together[other].text != together[plain].text


def test_whole_result_tells_of_each_match_what_the_text_leaves_out(service: Service) -> None:
    request = MatchRequest("wait retry", mode=Mode.INDEX, min_score=0)
    whole, plain = service.search(request, whole=True), service.search(request)
    assert whole.text == plain.text
    assert whole.result is not None
    retry = next(candidate for candidate in whole.result.candidates if candidate.id == "skills/retry")
    assert retry.scenario is not None
    assert retry.tags


def test_memory_is_bounded(index: Path, lookups: list[MatchRequest]) -> None:
    service = Service(Settings(index, "info", 2))
    for query in ("retry", "backoff", "helper", "retry"):
        service.search(MatchRequest(query))
    service.close()
    assert len(lookups) == 4


def test_replaced_index_is_noticed_at_the_next_request(service: Service, tmp_path: Path) -> None:
    request = MatchRequest("retry", min_score=0)
    assert "skills/retry" in service.search(request).text
    make_index(tmp_path, {"skills/new-retry.md": markdown("title: New\nuseWhen: [Adding retry]", "# New\n\nText.\n")})
    assert "skills/new-retry" in service.search(request).text
    assert service.read("orchestr8://skills/new-retry").text.startswith("# New")
    with pytest.raises(UnknownResource):
        service.read("orchestr8://skills/retry")


def test_thread_that_opens_slowly_does_not_bring_back_the_index_before(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, replaced = threading.Event(), threading.Event()
    really_open = Catalog.open

    def open_slowly(path: Path) -> Catalog:
        catalog = really_open(path)
        opened.set()
        assert replaced.wait(10)
        return catalog

    service.read("orchestr8://registry")
    make_index(tmp_path, {"skills/other.md": markdown("title: Other"), "agents/one.md": markdown("title: One")})
    monkeypatch.setattr(Catalog, "open", open_slowly)
    slow = threading.Thread(target=lambda: service.read("orchestr8://registry"))
    slow.start()
    assert opened.wait(10)
    monkeypatch.setattr(Catalog, "open", really_open)
    make_index(tmp_path, {"skills/other.md": markdown("title: Other")})
    service.read("orchestr8://registry")
    replaced.set()
    slow.join()
    with Catalog.open(service.place) as catalog:
        assert service.snapshots.generation == catalog.generation
        assert service.snapshots.unchanged_edition() == (catalog.identity, catalog.generation)


def test_answer_is_judged_anew_where_only_what_it_must_cover_was_measured_anew(service: Service, index: Path) -> None:
    request = MatchRequest("retry cobol fortran")
    assert not service.search(request).text.startswith("Nothing fits")
    settled = Path(shutil.copy(index, index.with_suffix(".settled")))
    connection = sqlite3.connect(settled)
    connection.execute("UPDATE meta SET value = '1.0' WHERE key = 'least_coverage'")
    connection.commit()
    connection.close()
    add_checksum(settled)
    settled.replace(index)
    assert service.search(request).text.startswith("Nothing fits 'retry cobol fortran'")


def test_missing_index_is_said_and_a_later_one_is_used(tmp_path: Path) -> None:
    service = Service(Settings(tmp_path / "index.db", "info", 200))
    with pytest.raises(CatalogError, match="There is no index"):
        service.read("orchestr8://")
    make_index(tmp_path, FILES)
    assert "skills" in service.read("orchestr8://").text
    service.close()


def test_removed_index_is_said_even_for_an_answer_in_memory(service: Service, index: Path) -> None:
    service.search(MatchRequest("retry"))
    index.rename(index.with_suffix(".gone"))
    with pytest.raises(CatalogError):
        service.search(MatchRequest("retry"))


def in_threads(count: int, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)


def test_threads_get_the_answers_of_their_own_requests(service: Service) -> None:
    queries = ["retry", "backoff", "helper", "reading long texts"]
    expected = {query: service.search(MatchRequest(query)).text for query in queries}
    got: dict[int, list[tuple[str, str]]] = {}

    def work(number: int) -> None:
        order = queries[number:] + queries[:number]
        got[number] = [(query, service.search(MatchRequest(query)).text) for query in order * 3]
        got[number].append(("", service.read("orchestr8://skills/retry").text))

    in_threads(4, work)
    assert sorted(got) == [0, 1, 2, 3]
    for answers in got.values():
        assert all(text == expected[query] for query, text in answers[:-1])
        assert answers[-1][1].startswith("# Retry")


def damage(path: Path, table: str) -> None:
    """Take *table* out of the index at *path*."""
    connection = sqlite3.connect(path)
    connection.execute(f"DROP TABLE {table}")
    connection.commit()
    connection.close()
    add_checksum(path)


@pytest.mark.parametrize("table", ["tag", "quick_lookup", "rank_synonym_word", "field_posting"])
def test_damaged_index_is_one_sentence(index: Path, table: str) -> None:
    damage(index, table)
    service = Service(Settings(index, "info", 10))
    with pytest.raises(CatalogError, match=rf"cannot be read \(no such table: {table}\); build it again"):
        service.search(MatchRequest("retry calls"))
    service.close()
