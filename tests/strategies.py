"""Random small libraries and queries for property tests, and their indexes in memory."""

import random
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from beginnings import begin_empty
from hypothesis import strategies as st
from support import make_fragment, write_fragments

from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.records import Fragment
from orchestr8_sqlite.ranking.typos import repair_typos
from orchestr8_sqlite.text.keywords import stem
from orchestr8_sqlite.text.wordlists import Synonym

WORDS = """retry retrying entry api apis rapid time timeout timeouts cache caching log logic login db mongodb ci circuit
    go goal golang error error-handling handling c++ node.js node ci/cd 再試行 試行 Müller setUserId user""".split()
"""Words that hold each other, in whole or in parts, and the spellings that are hard on a tokenizer."""

TAGS = ("api", "retry", "node", "error-handling", "golang")
NAMES = ("a", "b c", "b!c", "deep/one", "deep/Two", "ü", "z")
"""Names whose order as ids is not their order as URIs: a space sorts before `!`, its escape %20 behind."""

TOPICS = """kubernetes rollout backoff queue schema index shard proxy gateway token session cookie vault audit metric
    trace alert deploy canary lint parser grammar compiler kernel driver socket packet router help running wait month
    """.split()
"""Words of which few fragments hold the same ones; the last four are everyday words."""


SPELLED = "technology js ts o11y x509s Müller".split()
"""Words that FTS5 stems otherwise than we do, or reads without their accents."""

SLIPS = "kuberntes,sesions,compilre,kernal,retyr,timeot,go lang,log ic,com piler,sess,ompil,300k".split(",")
"""What stands for words of a library in a request: slips, the halves of a name, parts of words, a number."""


def open_in_memory(fragments: Sequence[Fragment]) -> Catalog:
    """Return the index of *fragments*, numbered in their order, which the caller closes."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    begin_empty(connection)
    write_fragments(connection, fragments, {})
    return Catalog(connection, Path(":memory:"), identity=(0, 0, 0))


def queries() -> st.SearchStrategy[str]:
    """Return requests, some of them with words that no library holds."""
    return st.lists(st.sampled_from([*WORDS, "zzyzx", "tries"]), min_size=1, max_size=4, unique=True).map(" ".join)


def some(choice: random.Random, words: Sequence[str], most: int) -> list[str]:
    """Return none to *most* of *words*, in any order."""
    return choice.sample(words, choice.randint(0, most))


def make_body(choice: random.Random) -> str:
    """Return Markdown with none to six sections of up to some hundred tokens."""
    sections = []
    for _ in range(choice.randint(0, 6)):
        words = " ".join(choice.sample(WORDS, 4))
        sections.append(f"{choice.choice(['#', '##', '###'])} {words}\n\n" + f"{words}. " * choice.randint(0, 60))
    return "\n\n".join(sections)


def make_any_fragment(choice: random.Random) -> Fragment:
    """Return a fragment with anything in every field."""
    return make_fragment(
        choice.choice(NAMES),
        *{" ".join(choice.sample(WORDS, choice.randint(1, 5))): None for _ in range(choice.randint(0, 3))},
        category=choice.choice(["agent", "skill", "skill", "example"]),
        title=" ".join(choice.sample(WORDS, 2)),
        description=" ".join(some(choice, WORDS, 4)),
        tags=tuple(some(choice, TAGS, 3)),
        capabilities=tuple(some(choice, WORDS, 3)),
        body=make_body(choice),
        token_estimate=choice.choice([None, 999, 1000]),
    )


POOL = [make_any_fragment(random.Random(number)) for number in range(300)]
"""Made once: drawing each field of each fragment would take most of a property test's time."""


def make_topical_fragment(choice: random.Random, number: int) -> Fragment:
    """Return a fragment with few words, so that most words are rare, and a name of several words."""
    words = [*TOPICS, *WORDS, *SPELLED]
    plain = [word for word in words if word.isascii() and word.isalnum()]
    name = "".join(word + choice.choice("-_") for word in choice.sample(plain, choice.randint(1, 3)))
    return make_fragment(
        f"{name}{number}" if choice.random() < 0.3 else f"{number % 7}/{name[:-1]}",
        *{" ".join(choice.sample(words, choice.randint(1, 4))): None for _ in range(choice.randint(0, 2))},
        category=choice.choice(["agent", "skill", "skill", "example"]),
        title=" ".join(choice.choices(words, k=choice.randint(1, 3))),
        description=" ".join(some(choice, words, 3)),
        tags=tuple(some(choice, TOPICS[:9], 2)),
        capabilities=tuple(some(choice, words, 2)),
        body=" ".join(choice.choices(words, k=choice.randint(0, 9))),
    )


TOPICAL_POOL = [make_topical_fragment(random.Random(number), number) for number in range(200)]


def topical_libraries(*, most: int = 30) -> st.SearchStrategy[list[Fragment]]:
    """Return one to *most* fragments with few words each."""
    return st.lists(
        st.sampled_from(TOPICAL_POOL), min_size=1, max_size=most, unique_by=lambda fragment: fragment.id
    ) | st.lists(
        st.sampled_from(TOPICAL_POOL), min_size=most - 5, max_size=most, unique_by=lambda fragment: fragment.id
    )


def topical_queries() -> st.SearchStrategy[str]:
    """Return requests of one to eight words, some of them everyday words and some that no library holds."""
    words = st.sampled_from([*TOPICS, *TOPICS, *WORDS, *SPELLED, *SLIPS, "zzyzx", "tries", "qvr-queue"])
    return st.lists(words, min_size=1, max_size=8, unique=True).map(" ".join)


def synonyms(query: str) -> st.SearchStrategy[tuple[Synonym, ...]]:
    """Return some synonyms, most of which words of *query* meet, for words that topical libraries are made of."""
    asked = st.sampled_from([stem(word) for word in [*query.split(), *query.split(), "zzyzx"]])
    meant = st.sampled_from([stem(word) for word in (*TOPICS, "zzyzx")])
    return st.lists(
        st.builds(
            Synonym,
            st.lists(st.frozensets(asked, min_size=1, max_size=3), min_size=1, max_size=2).map(tuple),
            st.lists(meant, min_size=1, max_size=3, unique=True).map(tuple),
            st.sampled_from(["synonym", "related"]),
        ),
        max_size=3,
    ).map(tuple)


def with_synonyms(drawn: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, tuple[Synonym, ...]]]:
    """Return requests with synonyms that they may meet."""
    return drawn.flatmap(lambda query: st.tuples(st.just(query), synonyms(query)))


def libraries(*, most: int = 9) -> st.SearchStrategy[list[Fragment]]:
    """Return one to *most* fragments."""
    return st.lists(st.sampled_from(POOL), min_size=1, max_size=most, unique_by=lambda fragment: fragment.id)


def with_twins(drawn: st.SearchStrategy[list[Fragment]]) -> st.SearchStrategy[list[Fragment]]:
    """Return libraries in which some fragments stand a second time below another folder: they earn the same."""

    def double(library: list[Fragment], chosen: set[int]) -> list[Fragment]:
        twins = [make_twin(library[place % len(library)]) for place in sorted(chosen)]
        return [*{one.id: one for one in twins}.values(), *library]

    return st.builds(double, drawn, st.sets(st.integers(0, 30), max_size=9))


def make_twin(fragment: Fragment) -> Fragment:
    """Return the same fragment below a folder that sorts behind most names."""
    folder, _, rest = fragment.id.partition("/")
    id_ = f"{folder}/twin/{rest}"
    return replace(fragment, id=id_, source=replace(fragment.source, path=f"{id_}.md"))


def filters() -> st.SearchStrategy[dict[str, object]]:
    """Return options of a request: categories, tags, limit and score bound."""
    return st.fixed_dictionaries(
        {
            "categories": st.sampled_from([(), (), ("skill",), ("agent", "skill"), ("guide",)]),
            "tags": st.sampled_from([(), (), ("api",), ("api", "retry")]),
            "max_results": st.sampled_from([1, 2, 100]),
            "min_score": st.sampled_from([0.0, 10.0, 25.0, 40.0]),
        }
    )


def repaired(catalog: Catalog, words: list[str]) -> dict[str, str]:
    """Return what each word is taken for, where it is taken for a typo."""
    return {word: text for word, text, *_ in repair_typos(catalog.db, words)}
