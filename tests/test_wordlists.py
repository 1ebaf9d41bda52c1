"""The word lists: the shipped ones are well formed, libraries add to them, and requests are helped by both."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import MakeLibrary, build, markdown, write_files

from orchestr8_sqlite.errors import LibraryError
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.library.roots import open_roots, own_synonyms
from orchestr8_sqlite.model.requests import MatchRequest
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.settings import Limits
from orchestr8_sqlite.text import wordlists
from orchestr8_sqlite.text.keywords import STOP_WORDS, extract_keywords, stem
from orchestr8_sqlite.text.wordlists import SHIPPED, Synonym, everyday_words, foreign_requests, read_synonyms

FILES = {
    "skills/k8s-rollouts.md": markdown("useWhen:\n  - Rolling out on Kubernetes"),
    "skills/ml-serving.md": markdown("tags: [ml]\nuseWhen:\n  - Serving models"),
    "skills/tuning.md": markdown("tags: [performance]\nuseWhen:\n  - Tuning queries"),
    **{f"guides/garden{number}.md": markdown("useWhen:\n  - Growing roses") for number in range(6)},
}
ReadOwn = Callable[[str], list[Synonym]]
CLASS_LINE = re.compile(r"\$(\w+) = \S+")


def answers(index: Path, query: str) -> list[str]:
    with Catalog.open(index) as catalog:
        return [candidate.id for candidate in find(catalog, MatchRequest(query)).candidates]


def shipped_lines(name: str) -> list[tuple[int, str]]:
    """Return (number, text) of the lines of a shipped file that are neither empty nor comments."""
    text = files("orchestr8_sqlite.text").joinpath("words", name).read_text(encoding="utf-8")
    lines = enumerate(text.split("\n"), start=1)
    return [(number, line) for number, line in lines if line and not line.startswith("# ") and line != "#"]


def own(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the word list of a library as a build reads it."""
    (root / "any.md").write_text("# Any\n")
    return own_synonyms(open_roots([root], Limits()))


@cache
def shipped() -> list[Synonym]:
    return read_synonyms([])


@pytest.fixture(scope="module")
def plain_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the index of FILES."""
    folder = tmp_path_factory.mktemp("plain")
    return build(write_files(folder / "library", FILES), folder / "index.db")


@pytest.fixture
def read_own(make_library: MakeLibrary) -> ReadOwn:
    """Return a function that reads a text as a library's own file and returns what it adds to the shipped ones."""
    return lambda text: read_synonyms(own(make_library({"synonyms.txt": text})))[len(shipped()) :]


def slots(*words: str) -> tuple[frozenset[str], ...]:
    """Return slots whose alternatives are joined by a slash."""
    return tuple(frozenset(word.split("/")) for word in words)


# The shipped files


def test_shipped_files_are_read_whole_and_each_synonym_once() -> None:
    read = shipped()
    assert len(read) == len(set(read)) > 5000
    assert any({"kubernet", stem("k8s")} <= one.slots[0] and one.how == "synonym" for one in read)
    assert any(one.slots == slots("type", "script") or "typescript" in one.forms for one in read)
    slow = [one for one in read if len(one.slots) == 1 and "slow" in one.slots[0] and one.how == "related"]
    assert any("perform" in one.forms for one in slow)
    assert all(1 <= len(one.slots) <= 4 and one.forms and all(one.forms) for one in read)


def test_no_line_of_the_shipped_files_uses_a_class_that_no_line_above_defines() -> None:
    for name in SHIPPED:
        defined: set[str] = set()
        for number, line in shipped_lines(name):
            if match := CLASS_LINE.fullmatch(line):
                defined.add(match[1])
            else:
                assert set(re.findall(r"\$(\w+)", line)) <= defined, f"{name}:{number}"
    assert "slow" in defined


def fruitless(name: str, mark: str) -> list[str]:
    """Return the lines with *mark* of a shipped file that yield nothing where they stand alone."""
    lines = shipped_lines(name)
    classes = [line for _, line in lines if CLASS_LINE.fullmatch(line)]
    given = [(number, line) for number, line in lines if mark in line and line not in classes]
    found = []
    for number, line in given:
        used = [one for one in classes if one.split()[0] in line.split()]
        if not list(wordlists._parse(name, "\n".join([*used, line]))):
            found.append(f"{name}:{number}: {line}")
    return found


def test_every_need_of_the_shipped_files_yields_something() -> None:
    assert [line for name in SHIPPED for line in fruitless(name, "~")] == []


def test_every_name_of_the_shipped_files_yields_something() -> None:
    assert [line for name in SHIPPED for line in fruitless(name, "=")] == []


def test_every_slot_of_the_shipped_files_can_be_met() -> None:
    assert [one for one in shipped() if frozenset({""}) in one.slots] == []


def test_every_need_of_one_word_names_another_word() -> None:
    needs = [one for one in shipped() if one.how == "related" and len(one.slots) == 1]
    assert [one for one in needs if set(one.forms) <= one.slots[0] and len(one.slots[0]) == 1] == []


def test_everyday_words_are_keywords_each_once() -> None:
    words = [word for _, line in shipped_lines("everyday.txt") for word in line.split()]
    assert len(words) == len(set(words)) == len(everyday_words())
    assert {"help", "month", "trouble", "running"} <= everyday_words()
    assert [word for word in words if word in STOP_WORDS] == []
    assert [word for word in words if extract_keywords(word)[:1] != [word]] == []


def test_foreign_requests_are_lines_with_a_keyword_each() -> None:
    requests = foreign_requests()
    assert len(requests) == len(set(requests)) == len(shipped_lines("foreign.txt")) >= 200
    assert all(extract_keywords(request) for request in requests)
    assert not any(request.startswith("#") for request in requests)


# The form of a line


@given(
    st.text("abseingABS-./'+#19é再", max_size=7)
    | st.sampled_from(sorted(STOP_WORDS))
    | st.text("ab", min_size=60, max_size=70)
)
def test_word_of_a_list_is_read_as_the_same_word_of_a_text(word: str) -> None:
    keywords = extract_keywords(word)
    assert wordlists._form(word) == (stem(keywords[0]) if keywords else "")


def test_names_of_one_word_each_are_looked_for_by_any_of_them(read_own: ReadOwn) -> None:
    assert read_own("zeppelin = airship = blimp\n") == [
        Synonym(slots("zeppelin/airship/blimp"), ("zeppelin", "airship", "blimp"), "synonym")
    ]


def test_name_of_several_words_needs_them_all(read_own: ReadOwn) -> None:
    assert read_own("lta = zeppelin = lighter than air\n") == [
        Synonym(slots("lta/zeppelin"), ("lta", "zeppelin"), "synonym"),
        Synonym(slots("lighter", "air"), ("lta", "zeppelin"), "synonym"),
    ]


def test_need_has_slots_with_alternatives_and_forms_in_their_order(read_own: ReadOwn) -> None:
    assert read_own("zeppelins/blimp flying/flown ~ aeronautics, hot-air, mooring\n") == [
        Synonym(slots("zeppelin/blimp", "fly/flown"), ("aeronaut", "hot-air", "moor"), "related")
    ]


def test_stop_word_is_no_slot(read_own: ReadOwn) -> None:
    assert read_own("zeppelin of the air ~ mooring\n") == [Synonym(slots("zeppelin", "air"), ("moor",), "related")]


def test_class_stands_for_its_alternatives_below_its_line(read_own: ReadOwn) -> None:
    text = "$ship = zeppelin/blimp\n$ship/dirigible fly ~ mooring\nmoor $ship ~ mast\n"
    assert read_own(text) == [
        Synonym(slots("zeppelin/blimp/dirig", "fly"), ("moor",), "related"),
        Synonym(slots("moor", "zeppelin/blimp"), ("mast",), "related"),
    ]


def test_line_that_stands_twice_counts_once(read_own: ReadOwn) -> None:
    assert len(read_own("zeppelin = blimp\nzeppelin ~ mast\nzeppelin = blimp\nzeppelin ~ mast\n")) == 2


def test_comments_empty_lines_and_byte_order_marks_are_skipped(read_own: ReadOwn) -> None:
    assert len(read_own("\ufeff# ours\n\n#\n  \n# zeppelin = airship\nzeppelin = blimp\n")) == 1


@pytest.mark.parametrize(
    "line",
    ["kubernetes", "a = ", "~ performance", "slow ~", "slow ~ a, ,b", "alpha beta gamma delta epsilon ~ zeta", "= x"],
)
def test_line_of_another_form_stops_the_build_and_says_where(make_library: MakeLibrary, line: str) -> None:
    with pytest.raises(LibraryError, match=r"^library1/synonyms\.txt:2: expected .* found ") as problem:
        read_synonyms(own(make_library({"synonyms.txt": f"# ours\n{line}\n"})))
    assert repr(line.strip()) in str(problem.value)


def test_synonym_file_in_another_encoding_is_said(make_library: MakeLibrary) -> None:
    with pytest.raises(LibraryError, match="is not UTF-8"):
        read_synonyms(own(make_library({"synonyms.txt": b"caf\xe9 = bar\n"})))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"$a = {'retry/' * 4000}x\n" + "$a ~ cache\n" * 1000, "unfold to too many words"),
        (f"$a = {'retry/' * 4000}x\n{'$a' * 1000} ~ cache\n", "unfold to too many words"),
        ("a = b\n" * 200_000, "bytes, and 1,048,576 are read at most"),
        (f"one = {'x' * 100_000} = \n", "expected"),
    ],
)
def test_word_list_that_would_take_the_memory_is_one_short_sentence(
    make_library: MakeLibrary, text: str, said: str
) -> None:
    with pytest.raises(LibraryError, match=said) as problem:
        read_synonyms(own(make_library({"synonyms.txt": text})))
    assert len(str(problem.value)) < 200


# From the file to the answer


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("kubernetes", "skills/k8s-rollouts"),
        ("k8s", "skills/k8s-rollouts"),
        ("machine learning", "skills/ml-serving"),
        ("everything is so slow", "skills/tuning"),
    ],
)
def test_request_finds_what_is_called_otherwise(plain_index: Path, query: str, first: str) -> None:
    assert answers(plain_index, query)[0] == first


def test_library_adds_words_of_its_own(make_library: MakeLibrary, tmp_path: Path, plain_index: Path) -> None:
    own = "# ours\nzeppelin = kubernetes\n$dull = dull/boring\n$dull blimp ~ ml\n"
    index = build(make_library({**FILES, "synonyms.txt": own}), tmp_path / "index.db")
    assert answers(index, "zeppelin")[0] == "skills/k8s-rollouts"
    assert answers(index, "why are blimps so boring")[0] == "skills/ml-serving"
    assert answers(index, "blimps") == []
    assert answers(plain_index, "zeppelin") == answers(plain_index, "why are blimps so boring") == []


def test_name_itself_ranks_before_its_synonym(make_library: MakeLibrary, tmp_path: Path) -> None:
    files_ = {
        "skills/a.md": markdown("useWhen:\n  - Writing TypeScript"),
        "skills/b.md": markdown("useWhen:\n  - Writing ts"),
        **{path: text for path, text in FILES.items() if path.startswith("guides")},
    }
    assert answers(build(make_library(files_), tmp_path / "index.db"), "ts") == ["skills/b", "skills/a"]


def test_word_with_another_name_is_neither_a_typo_nor_unknown(make_library: MakeLibrary, tmp_path: Path) -> None:
    own = "zeppelin = kubernetes\n"
    root = make_library({**FILES, "skills/z.md": markdown("useWhen:\n  - Small zeppelina"), "synonyms.txt": own})
    with Catalog.open(build(root, tmp_path / "index.db")) as catalog:
        found = find(catalog, MatchRequest("zeppelin rollouts qqwwq"))
        assert (found.read_as, found.uncovered) == ({}, ("qqwwq",))
        assert "slow" not in find(catalog, MatchRequest("slow everything")).uncovered


def test_other_synonyms_make_another_generation(make_library: MakeLibrary, tmp_path: Path) -> None:
    root = make_library({**FILES, "synonyms.txt": "zeppelin = kubernetes\n"})
    generations = []
    for number, words in enumerate(("zeppelin", "zeppelin", "balloon")):
        (root / "synonyms.txt").write_text(f"{words} = kubernetes\n", encoding="utf-8")
        with Catalog.open(build(root, tmp_path / f"{number}.db")) as catalog:
            generations.append(catalog.generation)
    assert generations[0] == generations[1] != generations[2]
