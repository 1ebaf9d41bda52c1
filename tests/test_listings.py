"""The lists that a library answers with."""

import pytest
from support import MakeCatalog, make_fragment

from orchestr8_sqlite.answers.listings import category_list, registry
from orchestr8_sqlite.model.uris import Listing, Match, parse_uri
from orchestr8_sqlite.text.tokens import estimate_tokens


def test_registry_names_categories_that_have_fragments_and_how_to_ask(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a"),
        make_fragment("b"),
        make_fragment("c", category="best-practice"),
    )
    lines = registry(catalog).split("\n")
    assert lines[:3] == ["# Registry", "- orchestr8://best-practices (1)", "- orchestr8://skills (2)"]
    assert "orchestr8://match?query=…" in lines[3]
    for parameter in ("mode", "index|catalog|full", "categories", "tags", "maxResults", "maxTokens", "minScore"):
        assert parameter in lines[4]


def test_uris_of_the_registry_can_be_read(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a"), make_fragment("c", category="best-practice"))
    listed = [line.split()[1] for line in registry(catalog).split("\n") if line.startswith("- ")]
    assert [parse_uri(uri) for uri in listed] == [Listing("best-practice"), Listing("skill")]
    assert isinstance(parse_uri("orchestr8://best-practices/match?query=x"), Match)


def test_registry_of_an_empty_library_still_says_how_to_ask(make_catalog: MakeCatalog) -> None:
    assert "match?query=" in registry(make_catalog())


def test_category_lists_names_as_they_stand_in_uris_with_sizes_and_titles(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("retry", title="Retrying", token_estimate=650),
        make_fragment("deep/b c", title="Deep", token_estimate=7),
        make_fragment("other", category="agent"),
    )
    assert category_list(catalog, "skill").split("\n") == [
        "# skills: 2 fragments",
        "Read: orchestr8://skills/<name> · search: orchestr8://skills/match?query=…",
        "- deep/b%20c (~7): Deep",
        "- retry (~650): Retrying",
    ]


def test_category_without_fragments_is_an_empty_list(make_catalog: MakeCatalog) -> None:
    assert category_list(make_catalog(make_fragment("a")), "workflow").startswith("# workflows: 0 fragments\n")


@pytest.mark.parametrize("title", ["x\n- forged (~1): y", "long " * 50, "x\u2028# Registry"])
def test_title_of_others_stays_on_one_short_line(make_catalog: MakeCatalog, title: str) -> None:
    lines = category_list(make_catalog(make_fragment("a", title=title)), "skill").splitlines()
    assert len(lines) == 3
    assert len(lines[2]) <= 70


def test_long_list_keeps_3000_tokens_and_says_how_many_are_left_out(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(*(make_fragment(f"skill-number-{n:04}", title=f"Title {n}") for n in range(300)))
    text = category_list(catalog, "skill")
    assert estimate_tokens(text) <= 3050
    listed = [line for line in text.split("\n") if line.startswith("- ")]
    assert listed == sorted(listed)
    assert text.endswith(f"… and {300 - len(listed)} more; search to find them.")
    assert len(listed) > 100
