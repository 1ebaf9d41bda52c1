"""The tools `load`, `search_skill` and `load_skill`: documents, neighbours, Agent Skills with their files."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import HANDSHAKES, MODERN, Ask, Message, asking, call, texts
from support import build, markdown, write_files

LOGO = b"\x89PNG\r\n\x1a\n\0\0\xff\xfe"
FIELDS = "# Fields\n\nNames of fields.\n"
FILL = "print('fill')\n"
FILES: dict[str, str | bytes] = {
    "skills/pdf-forms/SKILL.md": markdown("name: pdf-forms\ndescription: Fill PDF forms", "# PDF forms\n\nFill.\n"),
    "skills/pdf-forms/scripts/fill.py": FILL,
    "skills/pdf-forms/references/fields.md": FIELDS,
    "skills/pdf-forms/assets/logo.png": LOGO,
    "skills/odd-folder/SKILL.md": markdown(
        "name: invoice-reader\ndescription: Read PDF invoices", "# Invoices\n\nRead.\n"
    ),
    "skills/a/deploy/SKILL.md": markdown("name: deploy\ndescription: Ship to staging", "# Deploy\n\nStaging.\n"),
    "skills/b/deploy/SKILL.md": markdown("name: deploy\ndescription: Ship to production", "# Deploy\n\nProduction.\n"),
    "guides/pdf.md": markdown("tags: [pdf]", "# PDF guide\n\nSee orchestr8://skills/pdf-forms.\n"),
}
SKILL = "orchestr8://skills/pdf-forms"
IMAGE = f"{SKILL}/assets/logo.png"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("skills")
    return build(write_files(folder / "library", FILES), folder / "index.db")


@pytest.fixture(scope="module")
def ask(index: Path) -> Iterator[Ask]:
    with asking(index) as ask:
        yield ask


@pytest.fixture(scope="module")
def ask_old(index: Path) -> Iterator[Ask]:
    with asking(index, HANDSHAKES[1]) as ask:
        yield ask


def load(ask: Ask, tool: str, **arguments: object) -> tuple[str, list[Message], list[Message]]:
    """Return the text of an answer, its documents as JSON, and its links."""
    result = call(ask, tool, **arguments)
    assert not result["isError"], result
    links = [content for content in result["content"] if content["type"] == "resource_link"]
    documents = [{**one} for one in result["structuredContent"]["documents"]]
    for document in documents:
        document.pop("source", "")  # tests/test_provenance.py looks at it
    return texts(result)[0], documents, links


def test_load_of_one_is_its_text_in_both_forms(ask: Ask) -> None:
    text, documents, links = load(ask, "load", uris=["orchestr8://guides/pdf"])
    assert text == "# PDF guide\n\nSee orchestr8://skills/pdf-forms."
    assert documents == [{"uri": "orchestr8://guides/pdf", "text": text}]
    assert links == []


def test_load_of_several_has_each_under_its_uri_in_the_order_asked(ask: Ask) -> None:
    uris = ["orchestr8://skills/b/deploy", "orchestr8://guides/pdf", "orchestr8://skills/a/deploy"]
    text, documents, _ = load(ask, "load", uris=uris)
    assert [document["uri"] for document in documents] == uris
    assert documents[0]["text"].strip() == "# Deploy\n\nProduction."
    assert text == "\n\n".join(f"## {one['uri']}\n~~~~\n{one['text']}\n~~~~" for one in documents)


def test_related_ones_are_named_in_both_forms_and_linked(ask: Ask) -> None:
    text, documents, links = load(ask, "load", uris=["orchestr8://guides/pdf"], related=True)
    assert text == f"~~~~\n{documents[0]['text']}\n~~~~\nRelated: {SKILL}"
    assert documents[0]["note"] == f"Related: {SKILL}"
    assert [(link["uri"], link["name"]) for link in links] == [(SKILL, "pdf-forms")]


def test_a_search_and_a_list_can_be_loaded(ask: Ask) -> None:
    uris = ["orchestr8://match?query=pdf&mode=index", "orchestr8://skills"]
    _, documents, _ = load(ask, "load", uris=uris)
    assert SKILL in documents[0]["text"]
    assert "- pdf-forms (~" in documents[1]["text"]


def test_bundled_file_is_loaded_by_its_uri_and_a_binary_one_is_named(ask: Ask) -> None:
    _, documents, _ = load(ask, "load", uris=[f"{SKILL}/scripts/fill.py", IMAGE])
    assert documents[0]["text"] == FILL
    assert documents[1]["text"] == f"[image/png, 12 bytes: no text; read {IMAGE} as a resource]"


def test_bundled_file_has_no_neighbours_but_is_loaded(ask: Ask) -> None:
    _, documents, _ = load(ask, "load", uris=[f"{SKILL}/scripts/fill.py", "orchestr8://guides/pdf"], related=True)
    assert documents[0]["text"] == FILL
    assert documents[1]["note"] == f"Related: {SKILL}"


def test_search_skill_finds_skills_alone_by_name_and_what_they_do(ask: Ask) -> None:
    result = call(ask, "search_skill", query="pdf")
    skills = result["structuredContent"]["skills"]
    assert {skill["uri"] for skill in skills} == {SKILL, "orchestr8://skills/odd-folder"}
    assert {"uri": SKILL, "name": "pdf-forms", "does": "Fill PDF forms"} in skills
    lines = texts(result)[0].split("\n")
    assert lines[0] == "# Skills: 2 of 2, best first"
    assert lines[1:3] == [f"{n}. {skill['name']}: {skill['does']}" for n, skill in enumerate(skills, start=1)]
    assert "`load_skill`" in lines[-1]
    assert [content["uri"] for content in result["content"][1:]] == [skill["uri"] for skill in skills]


def test_search_skill_lists_as_many_as_asked_for(ask: Ask) -> None:
    result = call(ask, "search_skill", query="pdf", maxResults=1)
    assert len(result["structuredContent"]["skills"]) == 1
    assert result["structuredContent"]["total"] == 2
    assert texts(result)[0].startswith("# Skills: 1 of 2, ")


def test_search_skill_says_when_no_skill_fits(ask: Ask) -> None:
    result = call(ask, "search_skill", query="zzyzx")
    (text,) = texts(result)
    assert text == "Nothing fits 'zzyzx'; not covered: zzyzx. Search again with expert `terms`."
    assert result["structuredContent"] == {"skills": [], "note": text}


def test_every_skill_that_is_found_can_be_loaded_by_what_the_answer_says(ask: Ask) -> None:
    for query in ("pdf", "ship to staging"):
        for skill in call(ask, "search_skill", query=query)["structuredContent"]["skills"]:
            assert load(ask, "load_skill", name=skill["uri"])[1][0]["uri"] == skill["uri"]


def test_load_skill_gives_the_instructions_and_lists_the_files(ask: Ask) -> None:
    text, documents, links = load(ask, "load_skill", name="pdf-forms")
    listed = "assets/logo.png (12 bytes); references/fields.md (27 bytes); scripts/fill.py (14 bytes)"
    note = f"Files of this skill, for `files`: {listed}"
    assert text == f"~~~~\n# PDF forms\n\nFill.\n~~~~\n{note}"
    assert documents == [{"uri": SKILL, "text": "# PDF forms\n\nFill.", "note": note}]
    assert links == []


@pytest.mark.parametrize("files", [["*"], ["scripts/fill.py", "assets/logo.png", "references/fields.md"]])
def test_load_skill_appends_files_alphabetically_and_links_binary_ones(ask: Ask, files: list[str]) -> None:
    text, documents, links = load(ask, "load_skill", name="pdf-forms", files=files)
    assert [(document["uri"], document["text"]) for document in documents[1:]] == [
        (f"{SKILL}/references/fields.md", FIELDS),
        (f"{SKILL}/scripts/fill.py", FILL),
    ]
    assert documents[0]["text"] == "# PDF forms\n\nFill."
    assert documents[0]["note"] == f"assets/logo.png is binary: read {IMAGE}"
    assert text.index("# PDF forms") < text.index(FIELDS) < text.index(FILL)
    assert [(link["uri"], link["mimeType"], link["annotations"]) for link in links] == [
        (IMAGE, "image/png", {"audience": ["user"]})
    ]


def test_load_skill_with_one_file_still_lists_the_others(ask: Ask) -> None:
    text, documents, _ = load(ask, "load_skill", name="pdf-forms", files=["scripts/fill.py", "scripts/fill.py"])
    assert len(documents) == 2
    assert "assets/logo.png (12 bytes); references/fields.md (27 bytes)\n" in text
    assert "scripts/fill.py (" not in text


@pytest.mark.parametrize("revision", ["old", MODERN])
def test_binary_file_is_read_as_the_same_bytes(ask: Ask, ask_old: Ask, revision: str) -> None:
    (content,) = (ask if revision == MODERN else ask_old)("resources/read", uri=IMAGE)["result"]["contents"]
    assert base64.b64decode(content["blob"]) == LOGO
    assert (content["uri"], content["mimeType"]) == (IMAGE, "image/png")
    assert "text" not in content


def test_text_file_is_read_as_text_with_its_type(ask: Ask) -> None:
    (content,) = ask("resources/read", uri=f"{SKILL}/scripts/fill.py")["result"]["contents"]
    assert content == {"uri": f"{SKILL}/scripts/fill.py", "mimeType": "text/x-python", "text": FILL}
    (raw,) = ask("resources/read", uri=f"{SKILL}/SKILL.md")["result"]["contents"]
    assert raw["text"].encode() == str(FILES["skills/pdf-forms/SKILL.md"]).encode()


@pytest.mark.parametrize("name", ["invoice-reader", "odd-folder", "orchestr8://skills/odd-folder", " odd-folder "])
def test_skill_is_loaded_by_its_name_by_its_folder_and_by_its_uri(ask: Ask, name: str) -> None:
    _, documents, _ = load(ask, "load_skill", name=name)
    assert documents == [{"uri": "orchestr8://skills/odd-folder", "text": "# Invoices\n\nRead."}]


def test_old_revision_gets_the_files_in_the_text(ask_old: Ask) -> None:
    result = call(ask_old, "load_skill", name="pdf-forms", files=["*"])
    (content,) = result["content"]
    for part in (FIELDS, FILL, IMAGE):
        assert part in content["text"]


@pytest.mark.parametrize(
    ("tool", "arguments", "advice"),
    [
        ("search_skill", {}, "'query' is missing"),
        ("search_skill", {"query": ["pdf"]}, "'query' must be text"),
        ("search_skill", {"query": "pdf", "maxResults": 0}, "whole number from 1 to 100, not 0"),
        ("search_skill", {"query": "pdf", "maxResults": "all"}, "whole number from 1 to 100, not 'all'"),
        (
            "search_skill",
            {"query": "pdf", "mode": "index"},
            "Unknown parameter 'mode'. Known: query, terms, maxResults",
        ),
        ("load_skill", {}, "send the name of a skill, as `search_skill` gives it"),
        ("load_skill", {"name": ""}, "send the name of a skill, as `search_skill` gives it"),
        ("load_skill", {"name": 3}, "'name' must be text, not 3"),
        ("load_skill", {"name": " "}, "send the name of a skill, as `search_skill` gives it"),
        ("load_skill", {"name": "pdf-form"}, "There is no skill 'pdf-form'. Nearest: pdf-forms"),
        ("load_skill", {"name": "qqqq"}, "Find one with `search_skill`."),
        ("load_skill", {"name": "orchestr8://guides/pdf"}, "There is no skill 'orchestr8://guides/pdf'"),
        ("load_skill", {"name": "orchestr8://match?query=x"}, "There is no skill"),
        ("load_skill", {"name": "file:///etc/passwd"}, "Not an orchestr8 URI: send orchestr8://"),
        (
            "load_skill",
            {"name": "deploy"},
            "2 skills are named 'deploy'; give the URI of one: orchestr8://skills/a/deploy, orchestr8://skills/b/d",
        ),
        ("load_skill", {"name": "pdf-forms", "files": ["scripts/fil.py"]}, "Nearest: scripts/fill.py"),
        ("load_skill", {"name": "pdf-forms", "files": ["../../etc/passwd"]}, "has no file '../../etc/passwd'"),
        ("load_skill", {"name": "pdf-forms", "files": 3}, "'files' must be a list of texts"),
        ("load_skill", {"name": "pdf-forms", "maxTokens": "few"}, "whole number from 1 to 200,000, not 'few'"),
        ("load_skill", {"skill": "pdf-forms"}, "Unknown parameter 'skill'. Known: name, files, maxTokens"),
    ],
)
@pytest.mark.parametrize("era", ["old", MODERN])
def test_mistake_is_a_tool_error_that_says_what_to_send(
    ask: Ask, ask_old: Ask, era: str, tool: str, arguments: dict[str, object], advice: str
) -> None:
    result = call(ask if era == MODERN else ask_old, tool, **arguments)
    assert result["isError"]
    (text,) = texts(result)
    assert advice in text
