"""Agent Skills by name, and the files that lie beside their SKILL.md."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support import build, markdown, write_files

from orchestr8_sqlite.answers.bundles import documents_of, file_below, find_bundle, list_skills
from orchestr8_sqlite.answers.mediatypes import as_text, served_type
from orchestr8_sqlite.errors import RequestError, UnknownResource
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.requests import MatchRequest
from orchestr8_sqlite.ranking.lookup import find

FILES: dict[str, str | bytes] = {
    "skills/pdf/SKILL.md": markdown("name: pdf\ndescription: Fill forms", "# PDF\n\nFill.\n"),
    "skills/pdf/scripts/fill in.py": "print(1)\n",
    "skills/pdf/Zebra.txt": "Z\n",
    "skills/pdf/data.bin": b"\0\1\2",
    "skills/outer/SKILL.md": markdown("name: outer\ndescription: Holds another", "# Outer\n\nOut.\n"),
    "skills/outer/inner/SKILL.md": markdown("name: inner\ndescription: Lies in another", "# Inner\n\nIn.\n"),
    "skills/outer/inner/notes.txt": "notes\n",
    "skills/many/SKILL.md": markdown("name: many\ndescription: Holds many files", "# Many\n\nMany.\n"),
    **{f"skills/many/f{number:02}.txt": "x\n" for number in range(45)},
    "skills/alone/SKILL.md": markdown("name: alone\ndescription: Has no files", "# Alone\n\nOne.\n"),
    "skills/plain.md": "# Plain\n\nA fragment that is no Agent Skill.\n",
}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    folder = tmp_path_factory.mktemp("bundles")
    with Catalog.open(build(write_files(folder / "library", FILES), folder / "index.db")) as catalog:
        yield catalog


def test_bundle_has_the_files_but_its_skill_file_in_alphabetical_order(catalog: Catalog) -> None:
    bundle = find_bundle(catalog, "pdf")
    assert (bundle.path, bundle.skill.uri) == ("skills/pdf", "orchestr8://skills/pdf")
    assert bundle.files == (("Zebra.txt", 2), ("data.bin", 3), ("scripts/fill in.py", 9))
    assert bundle.uri("scripts/fill in.py") == "orchestr8://skills/pdf/scripts/fill%20in.py"


@pytest.mark.parametrize(
    "name",
    [
        "pdf",
        "orchestr8://skills/pdf",
        "@orchestr8://skill/pdf",
        "@o8:orchestr8://skills/pdf",
        "skill://pdf/SKILL.md",
        "skill://pdf",
        "@o8:skill://pdf/SKILL.md",
    ],
)
def test_bundle_is_found_by_name_and_by_any_spelling_of_its_uri(catalog: Catalog, name: str) -> None:
    assert find_bundle(catalog, name).path == "skills/pdf"


@pytest.mark.parametrize(
    "name",
    [
        "skill://none/SKILL.md",
        "skill://pdf/Zebra.txt",
        "pdff",
        "plain",
        "orchestr8://skills/plain",
        "orchestr8://skills",
        "orchestr8://",
        "",
    ],
)
def test_what_is_no_agent_skill_is_unknown(catalog: Catalog, name: str) -> None:
    with pytest.raises(UnknownResource, match="There is no skill"):
        find_bundle(catalog, name)


def test_unknown_name_is_answered_with_the_nearest(catalog: Catalog) -> None:
    with pytest.raises(UnknownResource, match=r"There is no skill 'iner'\. Nearest: inner"):
        find_bundle(catalog, "iner")


def test_nearest_name_is_found_in_any_case(catalog: Catalog) -> None:
    with pytest.raises(UnknownResource, match=r"There is no skill 'INNER'\. Nearest: inner"):
        find_bundle(catalog, "INNER")


def test_skill_file_among_the_wanted_ones_is_the_instructions(catalog: Catalog) -> None:
    documents = documents_of(catalog, find_bundle(catalog, "pdf"), ["SKILL.md", "Zebra.txt"])
    assert [document.uri for document in documents] == ["orchestr8://skills/pdf", "orchestr8://skills/pdf/Zebra.txt"]


def test_wanted_files_follow_the_instructions_each_once_in_alphabetical_order(catalog: Catalog) -> None:
    documents = documents_of(catalog, find_bundle(catalog, "pdf"), ["scripts/fill in.py", "Zebra.txt", "Zebra.txt"])
    assert [document.uri for document in documents] == [
        "orchestr8://skills/pdf",
        "orchestr8://skills/pdf/Zebra.txt",
        "orchestr8://skills/pdf/scripts/fill%20in.py",
    ]
    assert [document.body for document in documents[1:]] == ["Z\n", "print(1)\n"]
    assert documents[0].text.endswith("Files of this skill, for `files`: data.bin (3 bytes)")


def test_all_files_are_the_texts_and_binary_ones_are_named_by_their_uris(catalog: Catalog) -> None:
    documents = documents_of(catalog, find_bundle(catalog, "pdf"), ["*"])
    assert len(documents) == 3
    assert documents[0].text.endswith("data.bin is binary: read orchestr8://skills/pdf/data.bin")


def test_skill_without_files_is_its_instructions(catalog: Catalog) -> None:
    documents = documents_of(catalog, find_bundle(catalog, "alone"), ["*"])
    assert [document.body for document in documents] == ["# Alone\n\nOne."]


def test_skill_that_lies_in_another_is_among_the_files_of_both(catalog: Catalog) -> None:
    assert [path for path, _ in find_bundle(catalog, "outer").files] == ["inner/SKILL.md", "inner/notes.txt"]
    assert [path for path, _ in find_bundle(catalog, "inner").files] == ["notes.txt"]


def test_long_list_of_files_says_how_many_more_there_are(catalog: Catalog) -> None:
    documents = documents_of(catalog, find_bundle(catalog, "many"), [])
    assert documents[0].text.count(" bytes)") == 40
    assert documents[0].text.endswith("f39.txt (2 bytes); and 5 more")


@pytest.mark.parametrize("path", ["skill.md", "zebra.txt", "../plain.md", "/etc/passwd", "scripts", ""])
def test_path_that_is_not_listed_is_refused(catalog: Catalog, path: str) -> None:
    with pytest.raises(RequestError, match="has no file"):
        documents_of(catalog, find_bundle(catalog, "pdf"), [path])


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("skills/pdf/Zebra.txt", b"Z\n"),
        ("skills/pdf/scripts/fill in.py", b"print(1)\n"),
        ("skills/pdf/data.bin", b"\0\1\2"),
        ("skills/outer/inner/notes.txt", b"notes\n"),
        ("skills/pdf/SKILL.md", str(FILES["skills/pdf/SKILL.md"]).encode()),
        ("skills/outer/inner/SKILL.md", str(FILES["skills/outer/inner/SKILL.md"]).encode()),
        ("skills/pdf", None),
        ("skills/pdf/scripts", None),
        ("skills/pdf/none", None),
        ("skills/none/Zebra.txt", None),
        ("skills", None),
        ("", None),
    ],
)
def test_file_below_a_skill_is_its_bytes(catalog: Catalog, path: str, content: bytes | None) -> None:
    assert file_below(catalog, path) == content


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.md", "text/markdown"),
        ("a/b.py", "text/x-python"),
        ("logo.png", "image/png"),
        ("a.json", "application/json"),
        ("LICENSE", "text/plain"),
    ],
)
def test_type_of_a_file_is_told_by_its_name_else_by_its_content(path: str, expected: str) -> None:
    assert served_type(path, "text") == expected
    assert served_type("LICENSE", None) == "application/octet-stream"


@pytest.mark.parametrize(
    ("content", "text"), [(b"", ""), ("ü".encode(), "ü"), (b"a\0b", None), (b"\xff\xfe", None), (b"\x89PNG\r\n", None)]
)
def test_bytes_are_text_where_they_are_utf_8_without_nul(content: bytes, text: str | None) -> None:
    assert as_text(content) == text


def test_found_skills_are_listed_with_what_they_do(catalog: Catalog) -> None:
    result = find(catalog, MatchRequest("inner", agent_skills=True, min_score=0))
    text, content = list_skills(catalog, result)
    assert content["skills"][0] == {
        "uri": "orchestr8://skills/outer/inner",
        "name": "inner",
        "does": "Lies in another",
    }
    assert text.split("\n")[1] == "1. inner: Lies in another"


def test_no_found_skill_is_the_sentence_that_says_so(catalog: Catalog) -> None:
    text, content = list_skills(catalog, find(catalog, MatchRequest("zzyzx", agent_skills=True)))
    assert content == {"skills": [], "note": text}
    assert text.startswith("Nothing fits 'zzyzx'")


def test_skills_are_listed_as_far_as_the_budget_goes(catalog: Catalog) -> None:
    request = MatchRequest("skill holds files another forms", agent_skills=True, min_score=0, max_tokens=70)
    result = find(catalog, request)
    text, content = list_skills(catalog, result)
    assert 1 <= len(content["skills"]) < result.total
    assert f"# Skills: {len(content['skills'])} of {result.total}" in text
    assert Path(content["skills"][0]["uri"]).name == content["skills"][0]["name"]
