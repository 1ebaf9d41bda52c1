"""What must not change an answer: how the index came about, how the request is written, what it does not speak of."""

import itertools
import random
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from editing import some_library, some_words
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import Oracle, Standing
from strategies import (
    SPELLED,
    WORDS,
    libraries,
    open_in_memory,
    queries,
    topical_libraries,
    topical_queries,
    with_twins,
)
from support import MakeCatalog, make_fragment, write_files

from orchestr8_sqlite.builder.build import build_index
from orchestr8_sqlite.builder.job import How
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.parameters import make_request
from orchestr8_sqlite.model.records import Fragment
from orchestr8_sqlite.model.requests import LookupResult, MatchRequest, Mode, Ranker, Tier
from orchestr8_sqlite.ranking import holdout
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.settings import Settings
from orchestr8_sqlite.text.keywords import iterate_keywords


@pytest.fixture(autouse=True)
def small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let builds ask for some of the scenarios, as they do of large libraries: which ones no row number may decide."""
    monkeypatch.setattr(holdout, "SAMPLE", 25)


FOREIGN = ("knitting a scarf for winter", "retry poaching eggs", "kubernetes kuberntes zzyzx", "what is the")
"""Requests that a library of this kind answers in part or not at all."""


class Said(NamedTuple):
    """All that an answer says, but for the numbers of rows in its index."""

    text: str
    content: object
    tokens: int
    coverage: float
    least: float
    """What it has to cover."""


def said(index: Path, queries: Sequence[str]) -> dict[tuple[str, str, str], Said]:
    """Return what the index at a path answers to each query, by either ranker, as a list of both kinds."""
    with closing(Service(Settings(index, "error", 0))) as service, Catalog.open(index) as catalog:
        return {
            (query, mode, ranker): Said(
                answer.text, answer.content, answer.tokens, answer.result.coverage, catalog.least_coverage
            )
            for query in queries
            for mode in (Mode.INDEX, Mode.CATALOG)
            for ranker in Ranker
            if (answer := service.search(MatchRequest(query, mode, ranker=ranker))).result is not None
        }


def some_queries(choice: random.Random) -> list[str]:
    return [*FOREIGN, *(some_words(choice, 6) for _ in range(20))]


def units(root: Path) -> list[list[str]]:
    """Return the files of a library, those of a skill and those with one URI together."""
    by_uri: dict[str, list[str]] = {}
    for path in files_below(root):
        place = path.replace("_fragments/", "").removesuffix(".md")
        by_uri.setdefault(place.split("/")[1] if place.startswith("skills/pack") else place, []).append(path)
    return list(by_uri.values())


def files_below(root: Path) -> list[str]:
    return sorted(file.relative_to(root).as_posix() for file in root.rglob("*") if file.is_file())


def copied(source: Path, paths: Sequence[str], target: Path) -> Path:
    """Copy files below *source* to *target*, in that order, and return it."""
    return write_files(target, {path: (source / path).read_bytes() for path in paths})


def flat(parts: Sequence[Sequence[str]]) -> list[str]:
    return [path for part in parts for path in part]


SIZE = 40
"""Files that are chosen for a library, some of them twice."""

PARTS = 8
"""Builds in which one library becomes another."""

SEEDS = range(2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_answers_do_not_depend_on_the_order_or_the_folders_that_the_files_are_in(seed: int, tmp_path: Path) -> None:
    choice = random.Random(seed)
    root = some_library(choice, tmp_path / "whole", SIZE)
    queries = some_queries(choice)
    build_index([root], tmp_path / "whole.db", full=True)
    expected = said(tmp_path / "whole.db", queries)
    parts = units(root)
    choice.shuffle(parts)
    copied(root, flat(parts), tmp_path / "shuffled")
    halves = [copied(root, flat(parts[at::2]), tmp_path / f"half{at}") for at in range(2)]
    for name, roots in (("shuffled", [tmp_path / "shuffled"]), ("halves", halves), ("swapped", halves[::-1])):
        build_index(roots, tmp_path / f"{name}.db", full=True)
        found = said(tmp_path / f"{name}.db", queries)
        for key, one in expected.items():
            assert found[key] == one, (name, key)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_answers_do_not_depend_on_the_edits_that_led_to_the_library(seed: int, tmp_path: Path) -> None:
    """The last build finds more than a tenth changed, and so measures again what an answer must cover."""
    choice = random.Random(seed)
    root = some_library(choice, tmp_path / "whole", SIZE)
    queries = some_queries(choice)
    build_index([root], tmp_path / "whole.db", full=True)
    grown, index = some_library(choice, tmp_path / "grown", SIZE // 2), tmp_path / "grown.db"
    build_index([grown], index)
    paths = sorted({*files_below(root), *files_below(grown)})
    choice.shuffle(paths)
    hows = set()
    for few in (paths[at::PARTS] for at in range(PARTS)):
        write_files(grown, {path: (root / path).read_bytes() for path in few if (root / path).exists()})
        for path in few:
            if not (root / path).exists():
                (grown / path).unlink()
        hows.add(build_index([grown], index).how)
    assert How.UPDATED in hows
    assert files_below(grown) == files_below(root)
    found = said(index, queries)
    for key, one in said(tmp_path / "whole.db", queries).items():
        assert found[key] == one, key


# How the request is written

WRITTEN = [*WORDS, *SPELLED, "größe", "naïve", "σίσυφος", "ΐδιος", "ﬁle", "ＡＰＩ", "Ä/B", "zzyzx"]
WAYS: dict[str, Callable[[str], str]] = {
    "doubled spaces": lambda query: query.replace(" ", "  "),
    "other blanks": lambda query: query.replace(" ", "\t\u00a0\n"),
    "blanks around": lambda query: f" \u2003{query}\n ",
    "composed": lambda query: unicodedata.normalize("NFC", query),
    "decomposed": lambda query: unicodedata.normalize("NFD", query),
    "compatible": lambda query: unicodedata.normalize("NFKD", query),
    "capitals": str.upper,
    "decomposed capitals": lambda query: unicodedata.normalize("NFD", query).upper(),
    "titled": lambda query: " ".join(map(str.capitalize, query.split(" "))),
}
"""Other ways to write a request in words without capitals inside: those tell where a word has parts."""


@settings(max_examples=150)
@given(
    library=libraries() | topical_libraries(),
    words=st.lists(st.sampled_from(WRITTEN), min_size=1, max_size=5, unique=True),
    ranker=st.sampled_from(list(Ranker)),
)
def test_answers_do_not_depend_on_how_a_request_is_written(
    library: list[Fragment], words: list[str], ranker: Ranker
) -> None:
    query = " ".join(words).lower()
    spoken = make_fragment("spoken", "größe naïve σίσυφος ΐδιος file API ä/b", body="Größe, naïve, ΐδιος")
    with open_in_memory([*library, spoken]) as catalog:
        expected = without_request(answered(catalog, query, ranker))
        for way, write in WAYS.items():
            assert without_request(answered(catalog, write(query), ranker)) == expected, way


def answered(catalog: Catalog, query: str, ranker: Ranker = Ranker.DEFAULT) -> LookupResult:
    raw = {"query": query, "ranker": ranker.value, "minScore": 0, "maxResults": 100, "explain": True}
    return find(catalog, make_request(raw))


def without_request(result: LookupResult) -> LookupResult:
    return result._replace(request=MatchRequest(""))


# What the request does not speak of

STRANGE = ["".join(letters) for letters in itertools.product("qxvw", repeat=5)]
"""Words that are, hold, or resemble no word of the other fragments or of a request."""


def strangers(like: Sequence[Fragment], seed: int) -> list[Fragment]:
    """Return fragments as long as those of *like* in each text, in strange words alone."""
    choice = random.Random(seed)

    def strange(text: str) -> str:
        return " ".join(choice.choice(STRANGE) for _ in iterate_keywords(text))

    def scenarios(texts: Sequence[str]) -> Iterator[str]:
        for first, text in zip(choice.sample(STRANGE, len(texts)), texts, strict=True):  # no two of them are the same
            yield " ".join([first, *strange(text).split()[1:]])

    return [
        make_fragment(
            f"{choice.choice(STRANGE)}{number}",
            *scenarios(one.use_when),
            title=strange(one.title),
            description=strange(one.description),
            tags=tuple(dict.fromkeys(map(strange, one.tags))),
            capabilities=tuple(map(strange, one.capabilities)),
            body=strange(one.body),
        )
        for number, one in enumerate(like)
    ]


def listed(result: LookupResult) -> list[tuple[str, float, str | None]]:
    return [(one.uri, one.score, one.scenario) for one in result.candidates]


LIBRARIES = with_twins(topical_libraries() | libraries())
QUERIES = topical_queries() | queries()


@settings(max_examples=60)
@given(library=LIBRARIES, query=QUERIES, count=st.integers(1, 9), ranker=st.sampled_from(list(Ranker)))
def test_it_makes_no_difference_what_unrelated_fragments_say(
    library: list[Fragment], query: str, count: int, ranker: Ranker
) -> None:
    """They have as long texts, so words weigh the same, and there are as many of them, so words are as rare."""
    one, other = (strangers(library[:count], seed) for seed in (1, 2))
    with open_in_memory([*library, *one]) as catalog, open_in_memory([*library, *other]) as changed:
        assert without_request(answered(catalog, query, ranker)) == without_request(answered(changed, query, ranker))


@settings(max_examples=60)
@given(library=LIBRARIES, query=QUERIES, count=st.integers(1, 40))
def test_unrelated_fragments_change_nothing_of_what_the_classic_ranker_finds(
    library: list[Fragment], query: str, count: int
) -> None:
    more = strangers(random.Random(count).choices(library, k=count), 1)
    with open_in_memory(library) as catalog, open_in_memory([*library, *more]) as grown:
        before, after = (answered(one, query, Ranker.CLASSIC) for one in (catalog, grown))
    assert listed(after) == listed(before)
    assert (after.total, after.tier) == (before.total, before.tier)


@settings(max_examples=100)
@given(library=LIBRARIES, query=QUERIES, count=st.integers(1, 60))
def test_unrelated_fragments_move_none_above_another_that_earns_as_much_in_every_way(
    library: list[Fragment], query: str, count: int
) -> None:
    """By every form of every word, whatever each is worth; by the name; and by what the best have in common."""
    more = strangers(random.Random(count).choices(library, k=count), 1)
    oracle, grown = Oracle(library), Oracle([*library, *more])
    assume(oracle.typical == grown.typical)  # else the words of long texts weigh otherwise
    places = {uri: at for at, uri in enumerate(oracle.uris)}
    with open_in_memory([*library, *more]) as catalog:
        found = answered(catalog, query)
    words = oracle.words(query)
    forms = oracle.forms(words)
    forms += oracle.parts(words, forms) if found.tier is Tier.FUZZY else []
    learnt = {one.uri: {p.form for p in found.parts[one.fragment_id] if p.how == "learnt"} for one in found.candidates}
    assume(oracle.clear)
    for above, below in itertools.combinations(found.candidates, 2):
        if learnt[above.uri] <= learnt[below.uri] and leads(oracle, forms, places[below.uri], places[above.uri]):
            assert below.score == pytest.approx(above.score, abs=0.011), (above.uri, below.uri)


def leads(oracle: Oracle, forms: Sequence[Standing], one: int, other: int) -> bool:
    """Tell whether one fragment earns as much as another by each form, in short texts and bodies, and by its name.

    And it says no more in all: else the other may have the larger focus.
    """
    stems = {form.stem for form in forms}
    searched = {form.text for form in forms if form.how != "part"}
    return (
        all(weight(oracle, one, stem) >= weight(oracle, other, stem) for stem in stems)
        and all(oracle.is_in_body(one, text) for text in searched if oracle.is_in_body(other, text))
        and oracle.name_share(one, stems) >= oracle.name_share(other, stems)
        and oracle.norm(one) <= oracle.norm(other)
    )


def weight(oracle: Oracle, at: int, stem: str) -> int:
    return oracle.weight(at, stem) if any(stem in held for held in oracle.held[at].values()) else 0


def test_unrelated_fragments_can_move_one_above_another_that_earns_more_by_the_rarer_word(
    make_catalog: MakeCatalog,
) -> None:
    """Among six fragments a word that five hold says little; among a hundred both say much."""
    rare = make_fragment("a", title="Canary")
    common = [make_fragment("shard", title="Shard"), *(make_fragment(f"b{n}", "Any shard") for n in range(4))]
    few = answered(make_catalog(rare, *common), "canary shard")
    many = answered(make_catalog(rare, *common, *strangers([rare] * 94, 1)), "canary shard")
    assert [one.id for one in few.candidates[:2]] == ["skills/a", "skills/shard"]
    assert [one.id for one in many.candidates[:2]] == ["skills/shard", "skills/a"]
