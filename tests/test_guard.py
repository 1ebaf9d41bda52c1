"""Errors as each revision words them, and the one line of log that every request leaves."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import HANDSHAKES, MODERN, REVISIONS, Ask, Message, asking, call, texts
from support import GARDENING, build, markdown, write_files

from orchestr8_sqlite.errors import CatalogError
from orchestr8_sqlite.service.service import Service

FILES = {
    "skills/retry.md": markdown("title: Retry\nuseWhen: [Retrying a flaky call]"),
    "skills/pdf/SKILL.md": markdown("name: pdf\ndescription: Fill forms"),
    "prompts/workflows/fix.md": markdown("name: fix\narguments: [{name: what, required: true}]", "Fix ${what}.\n"),
    **GARDENING,
}
UNKNOWN_URI = "orchestr8://skills/retrying"
NOT_FOUND = dict.fromkeys(HANDSHAKES, -32002) | {MODERN: -32602}
"""The code for a resource that is not there. Source: each revision's specification, "Resources", error handling."""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("guard")
    return build(write_files(folder / "library", FILES), folder / "index.db")


@pytest.fixture(scope="module", params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def ask(index: Path, revision: str) -> Iterator[Ask]:
    with asking(index, revision) as ask:
        yield ask


@pytest.mark.parametrize(
    "uri", [UNKNOWN_URI, "orchestr8://skils/retry", "orchestr8://skills/pdf/none.png", "file:///etc/passwd", "test://x"]
)
def test_resource_that_is_not_there_has_the_code_of_the_revision_and_the_uri_beside_it(
    ask: Ask, revision: str, uri: str
) -> None:
    error = ask("resources/read", uri=uri)["error"]
    assert (error["code"], error["data"]) == (NOT_FOUND[revision], {"uri": uri})


def test_unknown_name_of_anything_else_is_invalid_params_and_names_the_nearest(ask: Ask) -> None:
    error = ask("prompts/get", name="fixx", arguments={})["error"]
    assert (error["code"], error["message"]) == (-32602, "There is no prompt 'fixx'. Nearest: fix.")


@pytest.mark.parametrize(
    ("method", "params", "advice"),
    [
        ("resources/read", {"uri": "orchestr8://match?query="}, "'query' is empty"),
        ("resources/read", {"uri": "orchestr8://match?qeury=x"}, "Did you mean 'query'?"),
        ("resources/read", {"uri": "orchestr8://skills/%2e%2e/x"}, "'..' segments"),
        ("resources/list", {"cursor": "x"}, "list again without it"),
        ("prompts/list", {"cursor": "x"}, "list again without it"),
        ("prompts/get", {"name": "fix", "arguments": {}}, "needs the argument 'what'"),
        ("prompts/get", {"name": "fix", "arguments": {"what": "x", "who": "y"}}, "its arguments: what"),
        ("tools/call", {"name": "serch", "arguments": {}}, "use one of search, load"),
        ("resources/read", {}, "uri: Field required"),
        ("tools/call", {"name": "search", "arguments": [1]}, "arguments: Input should be"),
    ],
)
def test_wrong_parameter_is_invalid_params_in_every_revision(
    ask: Ask, method: str, params: Message, advice: str
) -> None:
    error = ask(method, **params)["error"]
    assert error["code"] == -32602
    assert advice in error["message"]


def test_unknown_method_is_said_to_be_one(ask: Ask) -> None:
    assert ask("resources/remove")["error"]["code"] == -32601


def failing(problem: Exception) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise problem

    return fail


REQUESTS: list[tuple[str, Message]] = [
    ("resources/read", {"uri": "orchestr8://registry"}),
    ("prompts/get", {"name": "fix", "arguments": {"what": "x"}}),
    ("tools/call", {"name": "search", "arguments": {"query": "retry"}}),
    ("tools/call", {"name": "load", "arguments": {"uris": ["orchestr8://skills/retry"]}}),
    ("tools/call", {"name": "load_skill", "arguments": {"name": "pdf"}}),
]


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        (CatalogError("/secret/index.db is gone"), "The library's index cannot be read; see the server's log."),
        (ZeroDivisionError("SELECT * FROM /secret"), "Internal error; see the server's log."),
    ],
)
def test_failure_of_ours_is_an_internal_error_without_a_word_of_its_cause(
    ask: Ask,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    problem: Exception,
    sentence: str,
) -> None:
    for name in ("read", "prompt", "search", "load", "load_skill"):
        monkeypatch.setattr(Service, name, failing(problem))
    for method, params in REQUESTS:
        answer = ask(method, **params)
        if method == "tools/call" and isinstance(problem, CatalogError):
            assert (answer["result"]["isError"], texts(answer["result"])) == (True, [sentence])
        else:
            assert answer["error"] == {"code": -32603, "message": sentence}
    problems = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(problems) == len(REQUESTS)
    traced = [record for record in problems if record.exc_info]
    assert len(traced) == (len(REQUESTS) if isinstance(problem, ZeroDivisionError) else 0)


def logged(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """Return the fields of the lines that requests left, but for the handshake and what differs by chance."""
    lines = [vars(record) for record in caplog.records if record.getMessage() == "request"]
    assert all(line["levelname"] == "INFO" for line in lines)
    return [line for line in lines if line["method"] != "initialize"]


@pytest.fixture(params=[HANDSHAKES[3], MODERN])
def heard(request: pytest.FixtureRequest, index: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Ask]:
    """Return a client of a server whose log is kept."""
    caplog.set_level(logging.INFO, logger="orchestr8_sqlite")
    with asking(index, request.param) as ask:
        yield ask


def test_every_request_leaves_exactly_one_line_with_its_method_id_and_milliseconds(
    heard: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    methods = ["tools/list", "resources/list", "prompts/list", "resources/templates/list", "nonsense/method"]
    ids = [heard(method)["id"] for method in methods]
    lines = logged(caplog)
    assert [(line["method"], line["id"]) for line in lines] == list(zip(methods, ids, strict=True))
    assert all(0 < line["latency_ms"] < 10_000 for line in lines)


def test_search_leaves_its_query_tier_results_and_tokens(heard: Ask, caplog: pytest.LogCaptureFixture) -> None:
    result = call(heard, "search", query="retrying calls", mode="index")
    (line,) = logged(caplog)
    assert (line["tool"], line["query"], line["results"]) == ("search", "retrying calls", 1)
    assert line["tier"] in ("quick", "index", "fuzzy")
    assert line["tokens"] > 0
    assert len(result["structuredContent"]["matches"]) == 1


def test_repeated_search_is_said_to_come_from_memory(heard: Ask, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        call(heard, "search", query="retrying calls")
    first, second = logged(caplog)
    assert first["tier"] != "cache"
    assert second["tier"] == "cache"
    assert (second["query"], second["tokens"]) == (first["query"], first["tokens"])


def test_repeated_search_leaves_its_results_too(heard: Ask, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        call(heard, "search", query="retrying calls")
    assert [line.get("results") for line in logged(caplog)] == [1, 1]


def test_repeated_search_for_skills_is_said_to_come_from_memory(heard: Ask, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        call(heard, "search_skill", query="fill forms")
    assert logged(caplog)[1]["tier"] == "cache"


def test_search_by_uri_leaves_what_a_search_leaves(heard: Ask, caplog: pytest.LogCaptureFixture) -> None:
    heard("resources/read", uri="orchestr8://match?query=retrying+calls")
    (line,) = logged(caplog)
    assert (line.get("query"), line.get("results")) == ("retrying calls", 1)
    assert line.get("tier") in ("quick", "index", "fuzzy")


def test_read_leaves_its_uri_and_tokens(heard: Ask, caplog: pytest.LogCaptureFixture) -> None:
    heard("resources/read", uri="orchestr8://skills/retry")
    (line,) = logged(caplog)
    assert line["uri"] == "orchestr8://skills/retry"
    assert line["tokens"] > 0


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("tools/call", {"name": "serch", "arguments": {}}, -32602),
        ("tools/call", {"name": "search", "arguments": [1]}, -32602),
        ("prompts/get", {"name": "fixx"}, -32602),
        ("nonsense/method", {}, -32601),
        ("resources/list", {"cursor": "x"}, -32602),
    ],
)
def test_failure_leaves_the_code_that_the_client_got(
    heard: Ask, caplog: pytest.LogCaptureFixture, method: str, params: Message, code: int
) -> None:
    assert heard(method, **params)["error"]["code"] == code
    (line,) = logged(caplog)
    assert line["error"] == code


def test_mistake_in_arguments_leaves_what_the_client_was_told(heard: Ask, caplog: pytest.LogCaptureFixture) -> None:
    told = call(heard, "search", query="x", mode="brief")["content"][0]["text"]
    (line,) = logged(caplog)
    assert line["mistake"] == told
    assert "error" not in vars(caplog.records[-1])


def test_notification_leaves_no_line(index: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="orchestr8_sqlite")
    with asking(index, HANDSHAKES[3]) as ask:  # the handshake ends with a notification
        ask("ping")
    lines = [vars(record)["method"] for record in caplog.records if record.getMessage() == "request"]
    assert lines == ["initialize", "ping"]
