"""Near-copies, such as one skill of several publishers: they take one place in an answer, which names the others."""

from pathlib import Path

import pytest
from dumps import assert_same_rows
from support import MakeLibrary, build, markdown, rows

from orchestr8_sqlite.answers.render import render, to_json
from orchestr8_sqlite.builder.build import build_index
from orchestr8_sqlite.evaluation.judgements import JudgedQuery, count_copies_once, document_names
from orchestr8_sqlite.evaluation.measures import run_queries, score_run
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.requests import LookupResult, MatchRequest, Mode, Ranker
from orchestr8_sqlite.ranking import weights
from orchestr8_sqlite.ranking.lookup import find

SAID = "Retry calls that fail, with backoff and jitter."
BODY = "Wait longer after each failure, add a random share, and stop after five attempts or when the caller gives up.\n"
PUBLISHERS = ("acme", "beta", "cove")


def skill(description: str, more: str = "", body: str = "# Text\n") -> str:
    return markdown(f"description: {description}\n{more}", body)


def groups(index: Path) -> list[list[str]]:
    """Return the groups of near-copies, as the index has them."""
    found: dict[str, list[str]] = {}
    for first, path in rows(
        index, "SELECT first_id, path FROM near_copy n JOIN fragment f ON f.id = n.fragment_id ORDER BY path"
    ):
        found.setdefault(str(first), []).append(str(path).removeprefix("skills/"))
    return sorted(found.values())


def ask(index: Path, query: str, **options: object) -> LookupResult:
    with Catalog.open(index) as catalog:
        return find(catalog, MatchRequest(query, **{"min_score": 0.0, **options}))  # type: ignore[arg-type]


def listed(result: LookupResult) -> list[tuple[str, list[str]]]:
    return [
        (one.uri.rpartition("skills/")[2], [uri.rpartition("skills/")[2] for uri in one.copies])
        for one in result.candidates
    ]


@pytest.fixture
def published(make_library: MakeLibrary, tmp_path: Path) -> Path:
    """Return an index of one skill under three publishers, and of others."""
    files = {f"skills/{who}/retry.md": skill(SAID, "tags: [net]" if who != "acme" else "") for who in PUBLISHERS}
    files |= {f"skills/other{number}.md": skill(f"Retry number {number} of something else.") for number in range(4)}
    return build(make_library(files), tmp_path / "index.db")


@pytest.mark.parametrize(
    ("one", "other", "are_copies"),
    [
        (("a/retry", SAID, BODY), ("b/retry", SAID, "# Another text\n"), True),
        (("a/retry", SAID, BODY), ("b/retry", "Retry calls which fail, with backoff and jitter.", "# Other\n"), True),
        (("a/retry", SAID, BODY), ("b/retry", "Ask a person what to do with a failed job.", "# Other\n"), False),
        (("a/retry", SAID, BODY), ("b/retry", "Ask a person what to do with a failed job.", BODY), True),
        (("a/retry", SAID, BODY), ("b/again", SAID, BODY), True),
        (("a/retry", SAID, BODY), ("b/again", SAID, "# Other\n"), False),
        (("a/retry", SAID, BODY), ("b/again", "Ask a person what to do with a failed job.", BODY), False),
        (("a/readme", "Read this.", "# A\n"), ("b/readme", "Read this.", "# B\n"), False),
        (("a/readme", "Read this first.", "# To do\n"), ("b/readme", "Other than that.", "# To do\n"), False),
    ],
)
def test_near_copies_agree_in_two_of_name_description_and_text(
    make_library: MakeLibrary, tmp_path: Path, one: tuple[str, str, str], other: tuple[str, str, str], are_copies: bool
) -> None:
    files = {f"skills/{name}.md": skill(said, body=body) for name, said, body in (one, other)}
    index = build(make_library(files), tmp_path / "index.db")
    assert groups(index) == ([sorted([one[0], other[0]])] if are_copies else [])


def test_what_many_fragments_share_makes_no_near_copies_of_them(make_library: MakeLibrary, tmp_path: Path) -> None:
    """A name and first sentence that come from a template say nothing of what differs."""
    files = {f"skills/p{number}/overview.md": skill(SAID, body=f"# Part {number}\n") for number in range(30)}
    assert groups(build(make_library(files), tmp_path / "index.db")) == []


def test_near_copies_of_near_copies_are_one_group(make_library: MakeLibrary, tmp_path: Path) -> None:
    said = "one two three four five six seven eight"
    steps = {"a": said, "b": f"{said} nine ten", "c": f"{said} nine ten eleven twelve"}
    files = {f"skills/{who}/retry.md": skill(text) for who, text in steps.items()}
    assert groups(build(make_library(files), tmp_path / "index.db")) == [["a/retry", "b/retry", "c/retry"]]


def test_near_copies_take_one_place_which_names_the_others(published: Path) -> None:
    found = ask(published, "retry calls backoff")
    assert listed(found)[0] == ("beta/retry", ["acme/retry", "cove/retry"])
    assert [name for name, _ in listed(found)[1:]] == ["other0", "other1", "other2", "other3"]
    assert found.total == 7


def test_copies_that_a_filter_leaves_out_do_not_count(published: Path) -> None:
    assert listed(ask(published, "retry backoff", tags=("net",)))[0] == ("beta/retry", ["cove/retry"])


def test_places_that_near_copies_leave_are_taken_by_what_comes_next(
    published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where no more fragments than these were looked at closely."""
    monkeypatch.setattr(weights, "RAISED", 3)
    assert [name for name, _ in listed(ask(published, "retry calls backoff", max_results=3))][1:] == [
        "other0",
        "other1",
    ]


def test_classic_ranker_lists_near_copies_by_themselves(published: Path) -> None:
    found = listed(ask(published, "net", ranker=Ranker.CLASSIC))
    assert found == [("beta/retry", []), ("cove/retry", [])]


def test_line_of_an_answer_names_the_copies(published: Path) -> None:
    other = "orchestr8://skills/acme/retry, orchestr8://skills/cove/retry"
    for mode in (Mode.INDEX, Mode.CATALOG):
        result = ask(published, "retry calls backoff", mode=mode)
        rendering = render(result, lambda _: "")
        [line] = [line for line in rendering.text.split("\n") if line.startswith("1. ")]
        assert line.startswith("1. orchestr8://skills/beta/retry ")
        assert line.endswith(f" (also: {other})")
        assert rendering.content["matches"][0]["also"] == other.split(", ")
        assert "also" not in rendering.content["matches"][1]
    matches = to_json(result)["matches"]
    assert isinstance(matches, list)
    assert [match["also"] for match in matches[:2]] == [other.split(", "), []]


def test_line_names_few_of_many_copies_and_json_all(make_library: MakeLibrary, tmp_path: Path) -> None:
    files = {f"skills/p{number}/retry.md": skill(SAID) for number in range(9)}
    result = ask(build(make_library(files), tmp_path / "index.db"), "retry calls", mode=Mode.INDEX)
    assert render(result, lambda _: "").text.count("orchestr8://skills/") == 4
    assert len(result.candidates[0].copies) == 8


def test_update_groups_as_a_build_from_nothing_does(make_library: MakeLibrary, tmp_path: Path) -> None:
    index, scratch = tmp_path / "index.db", tmp_path / "scratch.db"
    files = {f"skills/{who}/retry.md": skill(SAID) for who in PUBLISHERS}
    root = make_library(files | {f"skills/s{number}.md": skill(f"Say {number}.") for number in range(30)})
    build_index([root], index)
    for change in (
        (root / "skills/acme/retry.md").unlink,
        lambda: (root / "skills/cove/retry.md").write_text(skill("Quite another thing than before.")),
        lambda: (root / "skills/aaa.md").write_text(skill(SAID)),
        lambda: (root / "skills/cove/retry.md").write_text(skill(SAID)),
    ):
        change()
        assert build_index([root], index).how.value == "updated"
        build_index([root], scratch, full=True)
        assert_same_rows(index, scratch)
    assert groups(index) == [["beta/retry", "cove/retry"]]


def test_judgement_of_a_copy_counts_for_the_place_that_names_it(published: Path) -> None:
    query = JudgedQuery("q", "retry calls backoff", "ALL")
    qrels = {"q": {"skills/acme/retry": 1, "skills/cove/retry": 2}}
    with Catalog.open(published) as catalog:
        judged, names = count_copies_once(catalog, qrels, document_names(catalog, qrels))
        for ranker in Ranker:
            [score] = score_run([query], judged, run_queries(catalog, [query], names, ranker).run)
            assert (score.means["nDCG@10"], score.means["recall@5"], score.means["success@1"]) == (1, 1, 1)
    assert judged == {"q": {"skills/acme/retry": 2}}
