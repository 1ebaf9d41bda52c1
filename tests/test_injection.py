"""Whatever is asked is words to search for: no error of SQLite, no operator, and an end in bounded time."""

import json
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from nasty import LONG, QUERIES, nasty_query, seeded
from servers import INITIALIZE, INITIALIZED, lines, request, start
from serving import Ask, asking, call, texts
from support import GARDENING, Invoke, build, markdown, write_files

from orchestr8_sqlite.answers.prompts import PromptRow, fill_prompt
from orchestr8_sqlite.errors import RequestError, UnknownResource
from orchestr8_sqlite.model.parameters import make_request
from orchestr8_sqlite.model.requests import MatchRequest, Mode, PromptArgument, Ranker
from orchestr8_sqlite.model.uris import Match, Read, parse_uri
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.settings import Settings

SEED = 20261123
SLOWEST = 5.0
"""Seconds that one answer may take here, on a busy machine too; a thousandth is usual."""

LIBRARY = {
    "skills/retry.md": markdown("tags: [retry]\nuseWhen:\n  - Retrying a flaky call", "# Retry title\n\nNear body.\n"),
    "skills/backoff.md": markdown("tags: [backoff]\nuseWhen:\n  - Adding backoff to retry", "# Backoff\n\nBody.\n"),
    "skills/near.md": markdown("useWhen:\n  - Finding what is near in the body of a title", "# Near\n\nTitle.\n"),
    "skills/cafe.md": markdown("useWhen:\n  - Opening a café", "# Café\n\nCoffee.\n"),
    "prompts/fix.md": "---\nname: fix\narguments:\n  - name: symptom\n---\nFix ${symptom}.\n",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("injection")
    return build(write_files(folder / "library", {**LIBRARY, **GARDENING}), folder / "index.db")


@pytest.fixture(scope="module")
def service(index: Path) -> Iterator[Service]:
    with closing(Service(Settings(index, "info", 10))) as service:
        yield service


@pytest.fixture(scope="module")
def ask(index: Path) -> Iterator[Ask]:
    with asking(index) as ask:
        yield ask


def searched(service: Service, raw: Mapping[str, object]) -> str:
    return service.search(make_request(raw)).text


def read(service: Service, uri: str) -> str:
    return service.read(uri).text


def answered(ask: Callable[[], str]) -> str:
    """Return what *ask* returns, or the sentence by which it is refused."""
    try:
        return ask()
    except RequestError as refused:
        return str(refused)


def found(service: Service, query: str, ranker: Ranker) -> list[tuple[str, float]]:
    """Return (URI, score) of each match."""
    result = service.search(MatchRequest(query, Mode.INDEX, min_score=0, ranker=ranker)).result
    assert result is not None
    return [(candidate.uri, candidate.score) for candidate in result.candidates]


@pytest.mark.parametrize("ranker", Ranker)
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("retry AND backoff", "retry backoff"),
        ("retry NOT backoff", "retry backoff"),
        ("retry OR backoff", "retry backoff"),
        ('"retry backoff"', "retry backoff"),
        ('"backoff" "retry"', "backoff retry"),
        ("'retry' 'backoff'", "retry backoff"),
        ("NEAR(retry backoff, 2)", "near retry backoff 2"),
        ("retry*", "retry"),
        ("ret*", "ret"),
        ("^retry", "retry"),
        ("title: retry", "title retry"),
        ("title : retry", "title retry"),
        ("{title body} : retry", "title body retry"),
        ("- title : retry", "title retry"),
        ("-backoff retry", "backoff retry"),
        ("retry + backoff", "retry backoff"),
        ("(retry OR (backoff))", "retry backoff"),
        ("((((", "("),
        ("retry\0backoff", "retry backoff"),
        ("retry%", "retry"),
        ("retry?1 :query @query $query", "retry 1 query query query"),
        ("' OR 1=1 --", "1"),
        ("retry' UNION SELECT uri FROM fragment --", "retry union select uri from fragment"),
        ("\u202eretry\u202c \u2066backoff\u2069", "retry backoff"),
        ("\x1b retry \x9b backoff", "retry backoff"),
        ("cafe\u0301", "caf\u00e9"),
        ("\uff52\uff45\uff54\uff52\uff59", "retry"),
        ("RETRY", "retry"),
    ],
)
def test_signs_of_a_query_language_are_no_more_than_the_words_between_them(
    service: Service, query: str, words: str, ranker: Ranker
) -> None:
    assert found(service, query, ranker) == found(service, words, ranker)


@pytest.mark.parametrize("ranker", Ranker)
def test_any_query_is_answered_in_bounded_time(service: Service, ranker: Ranker) -> None:
    for query in [*QUERIES, *seeded(nasty_query, 150, SEED)]:
        started = time.monotonic()
        raw = {"query": query, "ranker": ranker.value, "explain": True, "minScore": 0}
        said = answered(partial(searched, service, raw))
        said.encode()
        assert time.monotonic() - started < SLOWEST, query


@pytest.mark.parametrize("name", ["tags", "categories", "mode", "ranker", "maxTokens", "minScore", "explain"])
def test_any_value_of_any_parameter_is_answered_or_refused_in_a_sentence(service: Service, name: str) -> None:
    for value in QUERIES:
        raw = {"query": "retry", name: value}
        assert answered(partial(searched, service, raw))


def test_any_uri_is_read_or_refused_in_a_sentence(service: Service) -> None:
    for text in QUERIES:
        for uri in (text, f"orchestr8://{text}", f"orchestr8://skills/{text}", f"orchestr8://match?query={text}"):
            said = answered(partial(read, service, uri))
            assert "sqlite" not in said.casefold() or "sqlite" in text


@pytest.mark.parametrize("size", [65_537, 10_000_000])
@pytest.mark.parametrize("filling", ["x", "retry ", " ", '"', "\u0301", "\u518d"])
def test_a_query_far_beyond_the_limit_is_refused_before_it_is_taken_apart(filling: str, size: int) -> None:
    query = (filling * (size // len(filling) + 1))[:size]
    tracemalloc.start()
    try:
        with pytest.raises(RequestError, match=rf"^'query' has {size:,} characters, at most 65,536 are read; "):
            make_request({"query": query})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000


@pytest.mark.parametrize("name", ["tags", "categories"])
@pytest.mark.parametrize("value", ["x" * 10_000_000, "x," * 5_000_000, ["x" * 1_000] * 10_000])
def test_a_filter_far_beyond_the_limit_is_refused(name: str, value: object) -> None:
    with pytest.raises(RequestError, match=rf"^'{name}' has more than 65,536 characters; name fewer\.$"):
        make_request({"query": "retry", name: value})


def test_a_query_at_the_limit_is_answered_whatever_it_is_made_of(service: Service) -> None:
    for text in LONG:
        service.search(make_request({"query": (text * 100)[:65_536]}))


def test_half_of_a_surrogate_pair_is_no_word_and_no_error(service: Service) -> None:
    for ranker in Ranker:
        request = make_request({"query": "retry \ud800", "tags": ["retry"], "ranker": ranker.value})
        assert "\ud800" not in service.search(request).text
    with pytest.raises(RequestError):
        service.read("orchestr8://skills/\udfff")
    with pytest.raises(UnknownResource):
        service.read("skill://retry/\udfff")
    with pytest.raises(UnknownResource):
        service.load_skill("retry\udfff")
    with pytest.raises(UnknownResource):
        service.prompt("fix\udfff", {})
    with pytest.raises(RequestError, match="Unknown category"):
        make_request({"query": "retry", "categories": "\ud800"})


def test_any_query_is_answered_by_the_tool(ask: Ask) -> None:
    for query in QUERIES:
        if "\ud800" in query:
            continue
        result = call(ask, "search", query=query)
        (text,) = texts(result)
        assert text
        for secret in ("SELECT ", "sqlite3", "fts5", "Traceback", "syntax error"):
            assert secret in query or secret not in text


def test_any_prompt_value_and_completion_is_answered(ask: Ask) -> None:
    for value in QUERIES:
        if "\ud800" in value:
            continue
        filled = ask("prompts/get", name="fix", arguments={"symptom": value})
        assert filled["result"]["messages"][0]["content"]["text"].rstrip() == f"Fix {value}.".rstrip()
        ref = {"type": "ref/prompt", "name": "fix"}
        assert "result" in ask("completion/complete", ref=ref, argument={"name": "symptom", "value": value})


@pytest.mark.parametrize("query", [q for q in QUERIES if q and "\0" not in q and not q.startswith("-")][::4])
def test_any_query_is_answered_on_the_command_line(invoke: Invoke, index: Path, query: str) -> None:
    code, out, err = invoke("search", "--db", index, "--", query)
    assert code in (0, 2)
    assert len(err.splitlines()) <= 1
    assert bool(out) != bool(err)


def test_lines_of_10_mb_and_halves_of_pairs_are_answered_and_the_next_request_too(index: Path) -> None:
    long = json.dumps(request(2, "tools/call", name="search", arguments={"query": "x" * 10_000_000})).encode()
    half = b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"search","arguments":{"query":"\\ud800"}}}'
    padded = request(4, "tools/call", name="search", arguments={"query": "retry " * 500_000})
    last = request(5, "tools/call", name="search", arguments={"query": "retry"})
    server = start(index)
    output, log = server.communicate(lines(INITIALIZE, INITIALIZED, long, half, padded, last), timeout=60)
    assert server.returncode == 0
    assert b"Traceback" not in log
    answers = [json.loads(line) for line in output.splitlines()]
    errors = [answer["error"]["message"] for answer in answers if "error" in answer]
    assert errors == [
        "A message may have at most 4,194,304 bytes.",
        "The line is not a JSON-RPC 2.0 request or notification.",
    ]
    by_id = {answer["id"]: answer["result"] for answer in answers if "result" in answer}
    assert by_id[4]["content"][0]["text"].startswith("'query' has 3,000,000 characters, at most 65,536 are read; ")
    assert "orchestr8://skills/retry" in by_id[5]["content"][0]["text"]


VALUES = [
    "{{other}}",
    "${other}",
    "$ARGUMENTS",
    "$1",
    "$&",
    r"\g<0>",
    "{other}",
    "%25",
    "&mode=full&query=other",
    "#",
    "?query=x",
    " orchestr8://skills/forged",
    "../../agents/x",
    '"> `',
    "\n\n## forged",
]


@pytest.mark.parametrize("value", VALUES)
def test_a_prompt_value_is_data(value: str) -> None:
    arguments = (PromptArgument("name", "", True), PromptArgument("other", "", False))
    body = "Do ${name} and {{ name }}; read orchestr8://match?query=${name}&mode=index now, then $1 {other}."
    prompt = PromptRow(1, "p", "P", "", None, body, arguments)
    text = fill_prompt(prompt, {"name": value, "other": "SECRET"})
    assert "SECRET" not in text
    head, _, rest = text.partition("; read ")
    assert head == f"Do {value} and {value}"
    uri, _, end = rest.partition(" ")
    assert end == "now, then $1 {other}."
    target = parse_uri(uri)
    assert isinstance(target, Match)
    assert (target.request.query, target.request.mode) == (" ".join(value.split()), Mode.INDEX)


def test_values_of_a_prompt_are_bounded_as_each_may_stand_in_it_often() -> None:
    prompt = PromptRow(1, "p", "P", "", None, "${name}" * 1000, (PromptArgument("name", "", True),))
    with pytest.raises(RequestError, match=r"^The values have 1,000,001 characters, at most 1,000,000 are put in; "):
        fill_prompt(prompt, {"name": "x" * 1_000_001})
    assert fill_prompt(prompt, {"name": "x" * 100}) == "x" * 100_000


@pytest.mark.parametrize("value", VALUES)
def test_a_prompt_value_in_a_path_does_not_leave_its_category(value: str) -> None:
    prompt = PromptRow(1, "p", "P", "", None, "orchestr8://skills/${name}", (PromptArgument("name", "", True),))
    uri = fill_prompt(prompt, {"name": value})
    assert not set(uri) & set(' \n"<>`?#&{}')
    try:
        target = parse_uri(uri)
    except RequestError:
        return
    assert isinstance(target, Read)
    assert target.id.startswith("skills/")
