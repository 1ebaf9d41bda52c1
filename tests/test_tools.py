"""Tools as clients of every revision meet them: definitions, searches as text and JSON, mistakes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from serving import HANDSHAKES, MODERN, REVISIONS, Ask, Message, asking, call, texts
from support import GARDENING, build, markdown, write_files
from tokenizer import true_tokens

from orchestr8_sqlite.server.definitions import PROFILES, TOOLS
from orchestr8_sqlite.settings import Profile

FILES = {
    "skills/retry.md": markdown(
        "title: Retrying\ntags: [retry, http]\ncapabilities: [Bounding attempts]\nuseWhen: [Retrying a flaky call]",
        f"# Retrying\n\nSee orchestr8://skills/breaker.\n\n{'Wait longer each time. ' * 20}\n",
    ),
    "skills/breaker.md": markdown(
        "tags: [retry, breaker]\nuseWhen: [Stopping calls to a dead service]", f"# Breaker\n\n{'Stop. ' * 50}\n"
    ),
    "agents/api.md": markdown("useWhen: [Designing a REST API]", "# API\n\nDesign.\n"),
    "skills/pdf-forms/SKILL.md": markdown("name: pdf-forms\ndescription: Fill PDF forms", "# Forms\n\nFill.\n"),
}
WEAK = "retry cobol fortran pascal haskell erlang prolog"
"""Of this the library knows but the first word."""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tools")
    return build(write_files(folder / "library", {**FILES, **GARDENING}), folder / "index.db")


@pytest.fixture(scope="module")
def ask(index: Path) -> Iterator[Ask]:
    with asking(index) as ask:
        yield ask


@pytest.fixture(scope="module")
def asks(index: Path, ask: Ask) -> Iterator[dict[str, Ask]]:
    """Return a client of each revision."""
    with (
        asking(index, HANDSHAKES[0]) as oldest,
        asking(index, HANDSHAKES[1]) as old,
        asking(index, HANDSHAKES[2]) as new,
        asking(index, HANDSHAKES[3]) as newest,
    ):
        yield dict(zip(REVISIONS, (oldest, old, new, newest, ask), strict=True))


def search(ask: Ask, query: str, **arguments: object) -> tuple[str, Message]:
    """Return the text and the structured content of a search."""
    result = call(ask, "search", query=query, **arguments)
    assert not result["isError"]
    (text,) = texts(result)
    return text, result["structuredContent"]


def entries(text: str) -> list[str]:
    """Return the numbered entries of a list, each with the lines below it."""
    return re.findall(r"^\d+\. .*(?:\n   .*)*", text, re.MULTILINE)


def test_index_says_uris_and_sizes_in_both_forms(ask: Ask) -> None:
    text, content = search(ask, "retry calls", mode="index")
    matches = content["matches"]
    assert [match["uri"] for match in matches] == ["orchestr8://skills/retry", "orchestr8://skills/breaker"]
    assert content["total"] == 2
    assert "2 of 2" in text.split("\n")[0]
    for number, (entry, match) in enumerate(zip(entries(text), matches, strict=True), start=1):
        assert set(match) == {"uri", "tokens"}
        assert entry == f"{number}. {match['uri']} ~{match['tokens']}"


def test_catalog_says_what_helps_to_choose_in_both_forms(ask: Ask) -> None:
    text, content = search(ask, "retry calls", mode="catalog")
    first, second = content["matches"]
    assert first == {
        "uri": "orchestr8://skills/retry",
        "score": first["score"],
        "tokens": first["tokens"],
        "tags": ["retry", "http"],
        "gives": "Bounding attempts",
        "when": "Retrying a flaky call",
    }
    assert first["score"] > second["score"] > 0
    for entry, match in zip(entries(text), content["matches"], strict=True):
        for part in (match["uri"], f"· {match['score']:g} ·", f"~{match['tokens']}", match["when"], *match["tags"]):
            assert part in entry


def test_explanation_has_the_same_parts_in_both_forms(ask: Ask) -> None:
    text, content = search(ask, "retry calls", explain=True)
    for entry, match in zip(entries(text), content["matches"], strict=True):
        assert f"\n   why: {' + '.join(match['why'])}" in entry
        assert sum(float(part.split()[0]) for part in match["why"]) == pytest.approx(match["score"], abs=0.01)
    plain_text, plain = search(ask, "retry calls", mode="catalog")
    assert "why" not in json.dumps(plain)
    assert plain_text == "\n".join(line for line in text.split("\n") if not line.startswith("   why: "))


def test_full_mode_gives_the_same_contents_in_both_forms(ask: Ask) -> None:
    text, content = search(ask, "retry calls", mode="full")
    assert [match["uri"] for match in content["matches"]] == ["orchestr8://skills/retry", "orchestr8://skills/breaker"]
    assert content["matches"][0]["text"].startswith("# Retrying\n\nSee orchestr8://skills/breaker.")
    for part, match in zip(text.split("\n~~~~\n\n"), content["matches"], strict=True):
        head, _, body = part.partition("\n~~~~\n")
        assert match["uri"] in head
        assert f"{match['score']:g}" in head
        assert body.removesuffix("\n~~~~") == match["text"]


def test_full_mode_gives_even_the_smallest_contents(ask: Ask) -> None:
    text, content = search(ask, "designing a REST API", mode="full")
    assert "# API\n\nDesign." in text
    assert content["matches"][0]["text"].startswith("# API\n\nDesign.")


def test_words_that_the_library_lacks_are_said_in_both_forms(ask: Ask) -> None:
    text, content = search(ask, "retry a flaky call cobol")
    assert content["note"] == "Not in the library: cobol."
    assert content["note"] in text.split("\n")


@pytest.mark.parametrize("mode", ["index", "catalog", "full"])
@pytest.mark.parametrize("query", [WEAK, "zzyzx qqwwq"])
def test_nothing_fits_is_the_same_sentence_in_both_forms_and_no_error(ask: Ask, mode: str, query: str) -> None:
    text, content = search(ask, query, mode=mode)
    assert content == {"matches": [], "note": text}
    assert text.startswith(f"Nothing fits '{query}'; not covered: ")
    assert ("\nClosest, but weak (" in text) == (query == WEAK)
    assert text.count("\n") == (query == WEAK)


@pytest.mark.parametrize("mode", ["index", "catalog", "full"])
def test_answer_is_one_text_that_names_what_can_be_read(ask: Ask, mode: str) -> None:
    result = call(ask, "search", query="retry calls", mode=mode)
    ((text,), matches) = texts(result), result["structuredContent"]["matches"]
    assert len(result["content"]) == 1
    for match in matches:
        assert match["uri"] in text
        assert ask("resources/read", uri=match["uri"])["result"]["contents"][0]["text"]


CALLS: list[tuple[str, dict[str, object]]] = [
    ("search", {"query": "retry calls", "mode": "index"}),
    ("search", {"query": "retry calls", "explain": True}),
    ("search", {"query": "retry calls", "mode": "full"}),
    ("search", {"query": WEAK}),
    ("search", {"query": "retry calls", "maxTokens": 20}),
    ("load", {"uris": ["orchestr8://skills/retry", "orchestr8://agents/api"], "related": True}),
    ("load", {"uris": ["orchestr8://skills/retry"], "maxTokens": 20}),
    ("search_skill", {"query": "fill PDF forms"}),
    ("search_skill", {"query": "zzyzx"}),
    ("load_skill", {"name": "pdf-forms", "files": ["*"]}),
]


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
def test_structured_content_keeps_to_the_output_schema(ask: Ask, tool: str, arguments: dict[str, object]) -> None:
    schema = TOOLS[tool].output_schema
    assert schema is not None
    jsonschema.Draft202012Validator.check_schema(schema)
    content = call(ask, tool, **arguments)["structuredContent"]
    jsonschema.validate(content, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({}, schema)


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
def test_arguments_that_work_keep_to_the_input_schema(tool: str, arguments: dict[str, object]) -> None:
    schema = TOOLS[tool].input_schema
    jsonschema.validate(arguments, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({}, schema)


@pytest.mark.parametrize("revision", REVISIONS)
def test_structured_content_and_schemas_are_for_revisions_that_know_them(asks: dict[str, Ask], revision: str) -> None:
    ask, knows = asks[revision], revision >= "2025-06-18"
    for tool in ask("tools/list")["result"]["tools"]:
        assert ("outputSchema" in tool) == knows
        assert ("title" in tool) == knows
    for tool_name, arguments in CALLS:
        result = call(ask, tool_name, **arguments)
        assert ("structuredContent" in result) == knows
        if not knows:
            assert [content["type"] for content in result["content"]] == ["text"]


def test_every_revision_is_told_the_same_text(asks: dict[str, Ask]) -> None:
    for tool, arguments in CALLS:
        answers = {texts(call(ask, tool, **arguments))[0] for ask in asks.values()}
        assert len(answers) == 1


@pytest.mark.parametrize(
    ("profile", "offered"), [("library", ["search", "load"]), ("skills", ["search_skill", "load_skill"])]
)
def test_profile_offers_one_pair_of_tools_and_answers_the_other_by_name(
    index: Path, profile: str, offered: list[str]
) -> None:
    with asking(index, profile=Profile(profile)) as ask:
        assert [tool["name"] for tool in ask("tools/list")["result"]["tools"]] == offered
        for tool, arguments in CALLS:
            assert not call(ask, tool, **arguments)["isError"]


def test_skill_tools_say_that_a_library_has_no_skills(tmp_path: Path) -> None:
    without = {path: text for path, text in FILES.items() if "SKILL.md" not in path}
    plain = build(write_files(tmp_path / "library", without), tmp_path / "index.db")
    with asking(plain) as ask_plain:
        refused = ask_plain("tools/call", name="search_skills", arguments={})["error"]
        called = [call(ask_plain, "search_skill", query="pdf"), call(ask_plain, "load_skill", name="pdf-forms")]
    assert refused == {"code": -32602, "message": "There is no tool 'search_skills'; use one of search, load."}
    for result in called:
        assert result["isError"]
        assert texts(result) == ["The library has no Agent Skills; use `search` and `load`."]


def test_every_choice_of_a_tool_says_that_it_is_text() -> None:
    """Some models' interfaces refuse an `enum` without a type."""
    properties = [one for tool in TOOLS.values() for one in tool.input_schema["properties"].values()]
    choices = [one for one in (*properties, *(p.get("items", {}) for p in properties)) if "enum" in one]
    assert [choice.get("type") for choice in choices] == ["string", "string"]


def test_uri_that_cannot_be_loaded_costs_its_own_entry_which_says_why(ask: Ask) -> None:
    result = call(ask, "load", uris=["orchestr8://skills/none", RETRY, "file:///etc/passwd"])
    assert not result["isError"]
    first, second, third = result["structuredContent"]["documents"]
    assert (first["uri"], first["text"]) == ("orchestr8://skills/none", "")
    assert first["note"].startswith("Not loaded: There is no orchestr8://skills/none. ")
    assert second["text"].startswith("# Retry")
    assert third["note"].startswith("Not loaded: Not an orchestr8 URI: send orchestr8://")
    (text,) = texts(result)
    assert text.startswith(f"## {first['uri']}\n{first['note']}\n\n## {RETRY}\n~~~~\n# Retry")
    assert text.endswith(f"## {third['uri']}\n{third['note']}")


def test_load_of_nothing_but_unknown_uris_is_an_error_with_a_line_for_each(ask: Ask) -> None:
    result = call(ask, "load", uris=["orchestr8://skills/none", "orchestr8://skils/retry"])
    (text,) = texts(result)
    assert result["isError"]
    first, second = text.splitlines()
    assert first.startswith("There is no orchestr8://skills/none.")
    assert "Did you mean 'skills'?" in second


@pytest.mark.parametrize("profile", Profile)
def test_tool_definitions_of_a_profile_cost_at_most_450_tokens(profile: Profile) -> None:
    definitions = [tool.model_dump(by_alias=True, exclude_none=True) for tool in PROFILES[profile]]
    assert true_tokens(json.dumps(definitions, separators=(",", ":"))) <= 450


def test_tools_are_announced_as_read_only(ask: Ask) -> None:
    for tool in ask("tools/list")["result"]["tools"]:
        assert tool["annotations"] == {"readOnlyHint": True, "idempotentHint": True}


@pytest.mark.parametrize("revision", [HANDSHAKES[3], MODERN])
def test_cursor_of_the_tools_list_is_refused_as_there_is_one_page_only(asks: dict[str, Ask], revision: str) -> None:
    assert asks[revision]("tools/list", cursor="bm9wZQ==")["error"]["code"] == -32602


RETRY = "orchestr8://skills/retry"


@pytest.mark.parametrize(
    ("tool", "arguments", "advice"),
    [
        ("search", {}, "'query' is missing: say in a few words"),
        ("search", {"query": 3}, "'query' must be text"),
        ("search", {"query": " \n"}, "'query' is empty: say in a few words"),
        ("search", {"query": "x" * 65_537}, "at most 65,536 are read; shorten it"),
        ("search", {"query": "x", "mode": "brief"}, "'mode' must be one of index, catalog, full"),
        ("search", {"query": "x", "mode": 3}, "'mode' must be one of index, catalog, full"),
        ("search", {"query": "x", "categories": ["agnets"]}, "Did you mean 'agents'?"),
        ("search", {"query": "x", "categories": [3]}, "'categories' must be"),
        ("search", {"query": "x", "tags": 3}, "'tags' must be a comma-separated text or a list of texts"),
        ("search", {"query": "x", "maxResults": 0}, "'maxResults' must be a whole number from 1 to 100, not 0"),
        ("search", {"query": "x", "maxResults": 101}, "whole number from 1 to 100, not 101"),
        ("search", {"query": "x", "maxResults": 1.5}, "whole number from 1 to 100, not 1.5"),
        ("search", {"query": "x", "maxResults": True}, "whole number from 1 to 100, not True"),
        ("search", {"query": "x", "maxTokens": "many"}, "whole number from 1 to 200,000, not 'many'"),
        ("search", {"query": "x", "minScore": -1}, "'minScore' must be a number from 0 "),
        ("search", {"query": "x", "explain": "yes"}, "'explain' must be true or false, not 'yes'."),
        ("search", {"query": "x", "limit": 3}, "Unknown parameter 'limit'"),
        ("search", {"query": "x", "maxResult": 3}, "Did you mean 'maxResults'?"),
        ("load", {}, "'uris' is missing: send a list of URIs"),
        ("load", {"uris": []}, "Give 1 to 20 URIs"),
        ("load", {"uris": [RETRY] * 21}, "Give 1 to 20 URIs, not 21"),
        ("load", {"uris": [3]}, "'uris' must be a list of texts"),
        ("load", {"uris": {"uri": RETRY}}, "'uris' must be a list of texts"),
        ("load", {"uris": ["orchestr8://skills/retri"]}, "Nearest: orchestr8://skills/retry"),
        ("load", {"uris": ["file:///etc/passwd"]}, "Not an orchestr8 URI: send orchestr8://"),
        ("load", {"uris": ["orchestr8://skills/../../x"]}, "must not hold empty, '.' or '..' segments"),
        ("load", {"uris": ["orchestr8://skils/retry"]}, "Did you mean 'skills'?"),
        ("load", {"uris": [RETRY], "maxTokens": 0}, "whole number from 1 to 200,000, not 0"),
        ("load", {"uris": [RETRY], "related": 3}, "'related' must be true or false"),
        ("load", {"uri": RETRY}, "Unknown parameter 'uri'. Did you mean 'uris'?"),
    ],
)
@pytest.mark.parametrize("revision", [HANDSHAKES[0], HANDSHAKES[3], MODERN])
def test_mistake_is_a_tool_error_that_says_what_to_send(
    asks: dict[str, Ask], revision: str, tool: str, arguments: dict[str, object], advice: str
) -> None:
    result = call(asks[revision], tool, **arguments)
    assert result["isError"]
    (text,) = texts(result)
    assert advice in text
    assert "structuredContent" not in result
    assert "\n" not in text
