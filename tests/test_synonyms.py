"""The synonym files: the shipped one is well formed, libraries add to it, and requests are helped by both."""

from pathlib import Path

import pytest
from support import MakeLibrary, build, markdown

from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.errors import LibraryError
from orchestr8_sqlite.lookup import find
from orchestr8_sqlite.model import MatchRequest
from orchestr8_sqlite.synonyms import read_synonyms

FILES = {
    "skills/k8s-rollouts.md": markdown("useWhen:\n  - Rolling out on Kubernetes"),
    "skills/ml-serving.md": markdown("tags: [ml]\nuseWhen:\n  - Serving models"),
    "skills/tuning.md": markdown("tags: [performance]\nuseWhen:\n  - Tuning queries"),
    **{f"guides/garden{number}.md": markdown("useWhen:\n  - Growing roses") for number in range(6)},
}


def answers(index: Path, query: str) -> list[str]:
    with Catalog.open(index) as catalog:
        return [candidate.id for candidate in find(catalog, MatchRequest(query)).candidates]


def test_shipped_file_is_read_whole_and_never_maps_a_word_to_itself() -> None:
    rows = read_synonyms([])
    assert {("k8s", "kubernetes", "synonym"), ("kubernetes", "k8s", "synonym")} <= set(rows)
    assert ("slow", "performance", "related") in rows
    assert ("performance", "slow", "related") not in rows
    assert all(words != form for words, form, _ in rows)
    assert rows == sorted(set(rows))


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("kubernetes", "skills/k8s-rollouts"),
        ("machine learning", "skills/ml-serving"),
        ("everything is so slow", "skills/tuning"),
    ],
)
def test_request_finds_what_is_called_otherwise(
    make_library: MakeLibrary, tmp_path: Path, query: str, first: str
) -> None:
    assert answers(build(make_library(FILES), tmp_path / "index.db"), query)[0] == first


def test_library_adds_words_of_its_own(make_library: MakeLibrary, tmp_path: Path) -> None:
    root = make_library({**FILES, "synonyms.txt": "# ours\nzeppelin = kubernetes\n"})
    assert answers(build(root, tmp_path / "index.db"), "zeppelin")[0] == "skills/k8s-rollouts"
    assert answers(build(make_library(FILES), tmp_path / "plain.db"), "zeppelin") == []


@pytest.mark.parametrize("line", ["kubernetes", "a = ", "~ performance", "slow ~"])
def test_line_of_another_form_stops_the_build_and_says_where(make_library: MakeLibrary, line: str) -> None:
    with pytest.raises(LibraryError, match=r"library1/synonyms\.txt:2: expected"):
        read_synonyms([make_library({"synonyms.txt": f"# ours\n{line}\n"})])


def test_name_itself_ranks_before_its_synonym(make_library: MakeLibrary, tmp_path: Path) -> None:
    files = {
        "skills/a.md": markdown("useWhen:\n  - Writing TypeScript"),
        "skills/b.md": markdown("useWhen:\n  - Writing ts"),
        **{path: text for path, text in FILES.items() if path.startswith("guides")},
    }
    assert answers(build(make_library(files), tmp_path / "index.db"), "ts") == ["skills/b", "skills/a"]


def test_word_with_another_name_is_neither_a_typo_nor_unknown(make_library: MakeLibrary, tmp_path: Path) -> None:
    root = make_library({**FILES, "skills/k3s.md": markdown("useWhen:\n  - Small k3s clusters")})
    with Catalog.open(build(root, tmp_path / "index.db")) as catalog:
        found = find(catalog, MatchRequest("container rollouts on authn kubernetes"))
        assert (found.read_as, found.uncovered) == ({}, ("container", "authn"))
        named = find(catalog, MatchRequest("slow everything"))
        assert "slow" not in named.uncovered


def test_other_synonyms_make_another_generation(make_library: MakeLibrary, tmp_path: Path) -> None:
    root = make_library({**FILES, "synonyms.txt": "zeppelin = kubernetes\n"})
    generations = []
    for number, words in enumerate(("zeppelin", "zeppelin", "balloon")):
        (root / "synonyms.txt").write_text(f"{words} = kubernetes\n", encoding="utf-8")
        with Catalog.open(build(root, tmp_path / f"{number}.db")) as catalog:
            generations.append(catalog.generation)
    assert generations[0] == generations[1] != generations[2]


def test_synonym_file_in_another_encoding_is_said(make_library: MakeLibrary) -> None:
    with pytest.raises(LibraryError, match="is not UTF-8"):
        read_synonyms([make_library({"synonyms.txt": b"caf\xe9 = bar\n"})])
