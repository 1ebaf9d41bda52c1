"""The corpora that are measured, the queries that they are asked, and what is made of the times."""

import hashlib
import random
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import frontmatter
import pytest
from answering import forgetful, ranking_statement
from clock import InProcess, medians, percentile, race, runs_for, take_turns, timed
from corpus import Corpus, make_corpus
from figures import Bound, Figure, compare, judge
from hardest import hardest_requests, measure_hardest, medians_of
from parts import PARTS, Shares, counting
from queries import make_queries, misspell
from report import Report, Run, quantity, read_report, render, renew
from sources import CATEGORIES, EmptyLibrary, read_sources
from support import MakeCatalog, MakeLibrary, make_fragment, markdown
from support import build as built
from zipf import invent_word

from orchestr8_sqlite.builder import build
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.requests import MatchRequest, Mode, Ranker

RESOURCES = Path(__file__).parents[1] / "resources"


SIZE = 160


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a library with five fragments of each category of the shipped one."""
    root = tmp_path_factory.mktemp("library")
    for category in CATEGORIES:
        (root / category).mkdir()
        for path in sorted((RESOURCES / category).glob("*.md"))[:5]:
            shutil.copyfile(path, root / category / path.name)
    return root


@pytest.fixture(scope="module")
def grown(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Return that library grown to SIZE fragments."""
    return make_corpus(library, SIZE, tmp_path_factory.mktemp("grown"), seed=1)


def files(corpus: Corpus) -> list[Path]:
    return sorted(corpus.root.rglob("*.md"))


def contents(corpus: Corpus) -> dict[str, str]:
    """Return path → digest of every file."""
    return {
        path.relative_to(corpus.root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files(corpus)
    }


def generated(corpus: Corpus) -> list[Path]:
    return [path for path in files(corpus) if path.parent.name.startswith("set-")]


def test_the_same_seed_grows_the_same_files_anywhere(library: Path, grown: Corpus, tmp_path: Path) -> None:
    again = make_corpus(library, SIZE, tmp_path, seed=1)
    assert contents(again) == contents(grown)
    assert again.documents.read_bytes() == grown.documents.read_bytes()


def test_another_seed_grows_other_files(library: Path, grown: Corpus, tmp_path: Path) -> None:
    other = make_corpus(library, SIZE, tmp_path, seed=2)
    same = contents(other).items() & contents(grown).items()
    assert all("/set-" not in path for path, _ in same)


def test_a_small_corpus_is_the_beginning_of_a_large_one(library: Path, grown: Corpus, tmp_path: Path) -> None:
    small = make_corpus(library, 80, tmp_path, seed=1)
    assert contents(small).items() <= contents(grown).items()


def test_a_corpus_has_as_many_fragments_as_asked_for_and_the_librarys_own_first(library: Path, grown: Corpus) -> None:
    own = [source.document.path for source in read_sources(library)]
    documents = [document["path"] for document in grown.read_documents()]
    assert len(files(grown)) == len(set(documents)) == SIZE
    assert documents[: len(own)] == own
    assert sum(path.stat().st_size for path in files(grown)) == grown.bytes


def test_some_files_of_a_corpus_are_spread_over_all_of_it(grown: Corpus) -> None:
    documents = [grown.root / str(document["path"]) for document in grown.read_documents()]
    assert grown.some_files(4) == [documents[number] for number in (0, SIZE // 4, SIZE // 2, SIZE // 4 * 3)]


def test_a_corpus_that_is_there_is_not_written_again(library: Path, tmp_path: Path) -> None:
    corpus = make_corpus(library, 40, tmp_path, seed=1)
    files(corpus)[0].write_text("kept")
    assert files(make_corpus(library, 40, tmp_path, seed=1))[0].read_text() == "kept"


def test_generated_front_matter_says_what_the_document_lists_say(grown: Corpus) -> None:
    documents = {str(document["path"]): document for document in grown.read_documents()}
    for path in generated(grown):
        metadata, body = frontmatter.parse(path.read_text(encoding="utf-8"))
        document = documents[path.relative_to(grown.root).as_posix()]
        assert metadata["tags"] == document["tags"]
        assert metadata.get("useWhen", []) == document["scenarios"]
        assert metadata.get("capabilities", []) == document["capabilities"]
        assert metadata["title"] == document["title"]
        assert body.startswith(f"# {document['title']}")


def test_generated_fragments_are_spread_over_the_categories_and_as_long_as_the_librarys(grown: Corpus) -> None:
    made = set(generated(grown))
    own = set(files(grown)) - made
    assert {path.relative_to(grown.root).parts[0] for path in made} == set(CATEGORIES)
    lengths = [sum(path.stat().st_size for path in paths) / len(paths) for paths in (own, made)]
    assert lengths[1] == pytest.approx(lengths[0], rel=0.2)


def test_short_bodies_make_files_of_about_a_kilobyte(library: Path, tmp_path: Path) -> None:
    corpus = make_corpus(library, SIZE, tmp_path, seed=1, short_from=0)
    bodies = [len(frontmatter.loads(path.read_text(encoding="utf-8")).content) for path in generated(corpus)]
    assert 400 < sum(bodies) / len(bodies) < 1_200


def words_of(paths: Sequence[Path]) -> set[str]:
    return {word for path in paths for word in re.findall("[a-z]{3,}", path.read_text(encoding="utf-8").casefold())}


def test_the_vocabulary_goes_on_growing_by_words_that_the_library_lacks_but_ever_slower(
    library: Path, tmp_path: Path
) -> None:
    corpus = make_corpus(library, 450, tmp_path, seed=1, short_from=0)
    known = words_of(list(library.rglob("*.md")))
    held = [words_of(generated(corpus)[:count]) for count in (100, 200, 400)]
    assert 0 < len(held[0] - known) < len(held[1] - known) < len(held[2] - known)
    assert len(held[2]) < 2 * len(held[1]) < 4 * len(held[0])


def test_fragments_with_the_same_title_have_names_of_their_own(make_library: MakeLibrary, tmp_path: Path) -> None:
    root = make_library({"skills/a.md": "---\ntitle: Retry\nuseWhen: [retry retry retry retry retry]\n---\n# Retry\n"})
    corpus = make_corpus(root, 60, tmp_path / "work", seed=1)
    titles = [document["title"] for document in corpus.read_documents()]
    assert len(set(titles)) < len(titles)
    assert len(files(corpus)) == 60


def test_new_words_differ_and_are_words(grown: Corpus) -> None:
    words = [invent_word(rank) for rank in range(20_000)]
    assert len(set(words)) > 0.99 * len(words)
    assert all(re.fullmatch("[a-z]{6,12}", word) for word in words)


def test_files_of_skills_prompts_and_files_without_front_matter_are_nothing_to_grow_from(
    make_library: MakeLibrary,
) -> None:
    root = make_library(
        {
            "skills/one.md": "---\ntitle: One\nuseWhen: [all is one]\n---\n# One\n",
            "skills/two/SKILL.md": "---\nname: two\n---\n# Two\n",
            "skills/two/references/three.md": "---\ntitle: Three\n---\n# Three\n",
            "prompts/four.md": "---\nname: four\n---\nFour\n",
            "notes/five.md": "---\ntitle: Five\n---\nFive\n",
            "skills/six.md": "No front matter\n",
        }
    )
    found = [(source.document.path, source.document.name) for source in read_sources(root)]
    assert found == [("skills/notes/five.md", "five"), ("skills/one.md", "one"), ("skills/two/SKILL.md", "two")]


def test_a_folder_without_fragments_is_refused(make_library: MakeLibrary) -> None:
    with pytest.raises(EmptyLibrary, match="holds no Markdown file with front matter"):
        read_sources(make_library({"skills/one.md": "No front matter\n"}))


def test_queries_differ_have_two_to_six_words_and_are_the_same_for_a_seed(grown: Corpus) -> None:
    queries = make_queries(grown.read_documents(), SIZE, seed=1)
    assert len(set(queries)) == 500
    assert {len(query.split()) for query in queries} == {2, 3, 4, 5, 6}
    assert queries == make_queries(grown.read_documents(), SIZE, seed=1)
    assert queries != make_queries(grown.read_documents(), SIZE, seed=2)


def test_most_queries_hold_words_of_the_corpus_and_some_hold_none(grown: Corpus) -> None:
    words = set(re.findall(r"\w+", grown.documents.read_text(encoding="utf-8").casefold()))
    queries = make_queries(grown.read_documents(), SIZE, seed=1)
    known = [sum(word in words for word in query.split()) for query in queries]
    assert sum(count >= 2 for count in known) > 400
    assert sum(count == 0 for count in known) > 10


def test_a_misspelt_word_is_at_most_one_letter_longer_or_shorter() -> None:
    chance = random.Random(1)
    spelled = {misspell("postgres", chance) for _ in range(200)}
    assert {len(word) for word in spelled} == {7, 8, 9}
    assert misspell("sql", chance) == "sql"


class Scripted:
    """A contender whose times are given, and who answers so many queries a turn."""

    def __init__(self, *rounds: Sequence[float]) -> None:
        self._rounds: Iterator[Sequence[float]] = iter([[0.0], *rounds])
        self.asked: list[int] = []

    def times(self, queries: Sequence[str], seconds: float) -> list[float]:  # noqa: ARG002
        self.asked.append(len(queries))
        return list(next(self._rounds))


def test_a_race_gives_the_median_of_each_query_over_all_rounds() -> None:
    columns = race({"a": Scripted([1, 10], [2, 30], [9, 20])}, ["x", "y"], runs=3)
    assert columns == {"a": [2, 20]}


def test_who_is_too_slow_for_all_queries_is_asked_the_first_ones_again() -> None:
    slow = Scripted([5.0], [7.0], [6.0])
    assert race({"slow": slow}, ["x", "y", "z"], runs=3) == {"slow": [6.0]}
    assert slow.asked == [3, 3, 1, 1]


def test_contenders_take_turns() -> None:
    order: list[str] = []
    race({"a": InProcess(lambda _: order.append("a")), "b": InProcess(lambda _: order.append("b"))}, ["x"], runs=2)
    assert order == ["a", "b"] * 3


def test_a_contender_stops_when_its_time_is_over_but_answers_once() -> None:
    assert len(InProcess(lambda _: None).times(["x", "y"], 0)) == 1


def test_a_contender_and_an_action_are_timed_by_the_clock_that_is_named() -> None:
    seconds = iter([1.0, 1.5, 7.0, 9.0])
    assert InProcess(lambda _: None, lambda: next(seconds)).times(["x"], 1) == [500.0]
    assert timed(lambda: None, lambda: next(seconds))() == 2.0


def test_turns_are_measured_by_their_medians() -> None:
    values = iter([3.0, 30.0, 1.0, 10.0, 2.0, 50.0])
    assert take_turns({"a": lambda: next(values), "b": lambda: next(values)}, 3) == {"a": 2.0, "b": 30.0}


def test_medians_cover_what_all_rounds_have() -> None:
    assert medians([[1, 2, 3], [3, 4], [2, 9, 9]]) == [2, 4]


@pytest.mark.parametrize(("seconds", "runs"), [(1, 5), (30, 5), (31, 3), (120, 3), (121, 1)])
def test_what_takes_long_runs_less_often(seconds: float, runs: int) -> None:
    assert runs_for(seconds) == runs


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_percentiles_are_values_that_were_measured(share: float, value: int) -> None:
    assert percentile(list(range(100, 0, -1)), share) == value


def test_times_are_compared_over_the_queries_that_both_have_answered() -> None:
    columns = {"ours": [1.0] * 150 + [9.0] * 150, "other": [4.0] * 299 + [8.0], "slow": [10.0, 20.0, 30.0]}
    figures = compare("search", 400, columns, "ours", ["other", "slow", "missing"], runs=5)
    found = {(figure.name, figure.against): (figure.value, figure.base, figure.queries) for figure in figures}
    assert found == {
        ("search, p50", ""): (1.0, None, 300),
        ("search, p50", "other"): (1.0, 4.0, 300),
        ("search, p50", "slow"): (1.0, 20.0, 3),
        ("search, p99", ""): (9.0, None, 300),
        ("search, p99", "other"): (9.0, 4.0, 300),
    }


def test_a_bound_is_held_up_to_its_limit_and_missed_by_a_share_of_it() -> None:
    bounds = [
        Bound("a", 400, 2.0, "floor"),
        Bound("b", 400, 10, unit="ms"),
        Bound("b", 5_000, 10, unit="ms"),
        Bound("never measured", 400, 1),
    ]
    figures = [
        Figure("a", 400, 3, "s", "floor", 1.0),
        Figure("a", 5_000, 9, "s", "floor", 1.0),
        Figure("a", 400, 1, "s"),
        Figure("b", 400, 10, "ms"),
        Figure("b", 5_000, 15, "ms"),
    ]
    verdicts = [(one.bound.name, one.bound.size, one.measured, str(one)) for one in judge(figures, bounds)]
    assert verdicts == [
        ("a", 400, 3.0, "missed by 50%"),
        ("b", 400, 10, "held"),
        ("b", 5_000, 15, "missed by 50%"),
        ("never measured", 400, None, "not measured"),
    ]


def test_the_ranking_statement_finds_what_the_search_finds(tmp_path: Path, make_library: MakeLibrary) -> None:
    texts = {f"skills/s{n}.md": markdown(f"useWhen: [Retrying call {n} with backoff]") for n in range(9)}
    index = built(make_library(texts), tmp_path / "index.db")
    with Catalog.open(index) as catalog, closing(forgetful(index)) as service:
        answer = ranking_statement(catalog, ["retry backoff"])("retry backoff")
        found = service.search(MatchRequest("retry backoff", mode=Mode.INDEX, max_results=5)).result
    assert found is not None
    assert isinstance(answer, list)
    assert [row[1] for row in answer] == [one.uri for one in found.candidates]


def test_the_hardest_requests_are_nearly_as_long_as_a_request_may_be(make_catalog: MakeCatalog) -> None:
    texts = (
        f"{one}{other} retries" for one in ("backoff", "timeout", "network") for other in map(invent_word, range(90))
    )
    catalog = make_catalog(*(make_fragment(f"f{number}", text) for number, text in enumerate(texts)))
    requests = hardest_requests(catalog.db)
    assert {request.ranker for request in requests.values()} == set(Ranker)
    for name, request in requests.items():
        assert 900 <= len(request.query) <= 1000 or "pairs" in name


def test_the_first_run_of_the_hardest_requests_counts_only_where_it_is_the_only_one() -> None:
    class Sleeper:
        def __init__(self, first: float) -> None:
            self.answers = [first, 2.0, 9.0, 4.0, 3.0, 1.0]

        def times(self, queries: Sequence[str], _seconds: float) -> list[float]:
            return [self.answers.pop(0) for _ in queries]

    assert medians_of(Sleeper(8.0), ["query"]) == ([3.0], 5)
    ten_minutes = 600_000.0
    assert medians_of(Sleeper(ten_minutes), ["query"]) == ([ten_minutes], 1)


def test_the_hardest_request_of_a_ranker_is_the_one_that_takes_longest(
    make_library: MakeLibrary, tmp_path: Path
) -> None:
    index = built(make_library({"skills/retry.md": markdown("tags: [retry]")}), tmp_path / "index.db")
    times = {figure.name: figure.value for figure in measure_hardest(1, index) if not figure.against}
    for ranker in Ranker:
        most = times.pop(f"hardest request, {ranker.value}")
        assert most == max(value for name, value in times.items() if name.endswith(f", {ranker.value}"))


def test_common_words_are_those_of_most_fragments_and_the_rare_tag_one_of_few(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "retry backoff", tags=("often",)),
        make_fragment("b", "retry", tags=("often",)),
        make_fragment("c", "cache", tags=("seldom",)),
    )
    request = hardest_requests(catalog.db)["common words, a rare tag, default"]
    assert request.query.split()[:2] in (["often", "retry"], ["retry", "often"])
    assert request.tags == ("seldom",)


def test_a_document_without_the_marks_of_the_report_is_not_written() -> None:
    with pytest.raises(ValueError, match="not enough values"):
        renew("# Title", "new")


def test_time_of_a_part_of_a_build_is_counted_for_the_innermost_part_alone() -> None:
    now = iter([0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0, 127.0])
    shares = Shares(lambda: next(now))
    inner = shares.of("inner", lambda: None)

    def work() -> None:
        inner()
        inner()

    shares.of("outer", work)()
    shares.of("inner", lambda: None)()
    assert shares.seconds == {"outer": 1.0 + 4.0 + 16.0, "inner": 2.0 + 8.0 + 64.0}


def test_all_parts_of_a_build_are_found_and_add_up(make_library: MakeLibrary, tmp_path: Path) -> None:
    root = make_library(
        {
            **{
                f"skills/one{n}.md": markdown(f"useWhen: [Retrying call {n}]", f"# One {n}\n\nText.\n")
                for n in range(30)
            },
            "prompts/workflows/fix.md": markdown("name: fix", "Fix it.\n"),
        }
    )
    with counting() as shares:
        started = time.process_time()
        build.build_index([root], tmp_path / "index.db")
        whole = time.process_time() - started
    assert {part for part, seconds in shares.seconds.items() if seconds > 0} == set(PARTS)
    assert sum(shares.seconds.values()) == pytest.approx(whole, rel=0.02)


def a_run(size: int, *figures: Figure) -> Run:
    return Run(size, "yesterday at abc", 60, figures, {"tantivy": "it is not there"})


def test_a_report_shows_ratios_first_and_replaces_the_one_before() -> None:
    compared = Figure("ranking statement, p50", 50_000, 0.8, "ms", "FTS5 bm25", 2.0, runs=5)
    text = render(Report("Here.", "resources", 1, [a_run(50_000, compared, Figure("tier 3", 50_000, 4.0, "ms"))]))
    assert text.index("| ranking statement, p50 | FTS5 bm25 | **0.4** (0.8 / 2 ms) |") < text.index("### Values")
    assert "| ranking statement, p50 | FTS5 bm25 | 50,000 | ≤ 0.4 | 0.4 | held |" in text
    assert "50,000: yesterday at abc, 1 min." in text
    assert "tantivy was not measured: it is not there" in text
    document = "# Title\n<!-- written by `make bench` from here -->\n\nold\n\n<!-- to here -->\nend\n"
    renewed = renew(document, "new")
    assert renewed == document.replace("old", "new")
    assert renew(renewed, "new") == renewed


def test_a_table_has_columns_for_the_sizes_that_it_shows_figures_of() -> None:
    small, saved = Figure("build", 413, 3.0, "s", "floor", 2.0), Figure("saved file, answered", 2_294, 300.0, "ms")
    text = render(Report("Here.", "resources", 1, [a_run(413, small), a_run(2_294, saved)]))
    assert "| figure | beside | 413 |" in text
    assert "| figure | unit | 2,294 |" in text


def test_sizes_that_were_not_measured_again_stay_in_the_report_of_the_same_library_and_machine(tmp_path: Path) -> None:
    small = Figure("default search, p50", 5_000, 2.0, "ms", runs=5)
    old, new = (Figure("default search, p50", 50_000, cost, "ms", "floor", 2.0) for cost in (9.0, 6.0))
    path = tmp_path / "performance.json"
    report = read_report(path, "Here.", "resources", 1)
    assert report.runs == []
    report.with_run(a_run(50_000, old)).with_run(a_run(5_000, small)).write(path)
    report = read_report(path, "Here.", "resources", 1).with_run(a_run(50_000, new))
    assert [run.size for run in report.runs] == [5_000, 50_000]
    assert report.figures[:2] == [small, new]
    report.write(path)
    assert read_report(path, "Here.", "resources", 1).figures == report.figures
    assert [read_report(path, *other).runs for other in (("There.", "resources", 1), ("Here.", "mine", 1))] == [[], []]
    assert read_report(path, "Here.", "resources", 2).runs == []


@pytest.mark.parametrize(
    ("value", "text"), [(12345.6, "12,346"), (99.96, "100"), (1.234, "1.23"), (0.0123, "0.0123"), (0.00012, "0.0001")]
)
def test_quantities_have_three_digits_that_count(value: float, text: str) -> None:
    assert quantity(value) == text
