"""Ten thousand malformed and hostile lines: none stops the server, and every true request has one answer."""

import copy
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeGuard

import pytest
from servers import INITIALIZE, INITIALIZED, META, lines, request, start
from support import build, markdown, write_files

LINES = 10_000
SEED = 20260728
LONG = "x" * 1_000_000
Params = dict[str, Any]
Key = tuple[str, object]

URIS = [
    "orchestr8://skills/retry",
    "orchestr8://skills/../../../etc/passwd",
    "orchestr8://skills/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "orchestr8://skills/%00",
    "orchestr8://skills/..\\..\\windows",
    "orchestr8://match?query=retry&mode=brief",
    "orchestr8://match?query=" + "%25" * 400,
    "orchestr8://match?query=retry&maxTokens=99999999999999999999999",
    "file:///etc/passwd",
    "skill://retry/SKILL.md",
    "@orchestr8://skills/retry",
    "\x00\u202e\U0001f4a5",
    "",
    LONG,
]
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1.5,
    1e308,
    10**30,
    "",
    "x",
    "\x00",
    "\U0001f4a5",
    [],
    [[]],
    {},
    {"a": None},
]
QUERIES = [
    "retry",
    "",
    "'; DROP TABLE fragment; --",
    '"',
    "NEAR(",
    "*",
    "a" * 65_537,
    "\x00",
    "c++ AND OR NOT",
    "\U0001f4a5",
]
METHODS = [
    "ping", "initialize", "server/discover", "tools/list", "tools/call", "resources/list", "resources/templates/list",
    "resources/read", "resources/subscribe", "resources/unsubscribe", "prompts/list", "prompts/get",
    "completion/complete", "logging/setLevel", "skills/list", "skills/get", "resources/directory/read", "tasks/get",
    "notifications/initialized", "rpc.discover", "", "__class__", "../ping", "tools/call\x00",
]  # fmt: skip


class Hostile:
    """Makes lines, each by a rule drawn from a seeded generator."""

    def __init__(self, seed: int, envelope: Params) -> None:
        self._random = random.Random(seed)
        self._envelope = envelope
        self._next = 0
        self.rules: list[Callable[[], bytes]] = [
            self.wrong_params, self.wrong_params, self.wrong_params, self.hostile_call, self.hostile_call,
            self.hostile_read, self.hostile_prompt, self.hostile_cursor, self.wrong_envelope, self.other_era,
            self.notification, self.wrong_member, self.wrong_id, self.damaged_bytes, self.damaged_bytes,
            self.cut_short, self.no_json, self.deep, self.batch, self.response, self.twice, self.known_id,
        ]  # fmt: skip

    def line(self) -> bytes:
        """Return a line without its line feed."""
        return self._random.choice(self.rules)().replace(b"\n", b" ")

    def _id(self) -> int | str:
        self._next += 1
        identifiers: list[int | str] = [self._next, f"id {self._next}", -self._next, 10**18 + self._next]
        return self._random.choice(identifiers)

    def _request(self, method: str, **params: object) -> dict[str, Any]:
        whole = {**params, **({"_meta": self._envelope} if self._envelope else {})}
        return {"jsonrpc": "2.0", "id": self._id(), "method": method, "params": copy.deepcopy(whole)}

    def _any(self) -> dict[str, Any]:
        return self._random.choice([
            self._request("tools/call", name="search", arguments={"query": "retry"}),
            self._request("tools/list"),
            self._request("resources/read", uri="orchestr8://skills/retry"),
            self._request("prompts/list"),
        ])  # fmt: skip

    def wrong_params(self) -> bytes:
        """Return a method with members of any type."""
        names = ["name", "arguments", "uri", "cursor", "protocolVersion", "clientInfo", "ref", "level", "_meta", "x"]
        chosen = self._random.sample(names, self._random.randrange(4))
        whole = self._request(self._random.choice(METHODS))
        whole["params"].update({name: self._random.choice(VALUES) for name in chosen})
        return dump(whole)

    def hostile_call(self) -> bytes:
        """Return a call of a tool with arguments that it does not want."""
        arguments: Params = {"query": self._random.choice([*QUERIES, *VALUES])}
        for name in ("mode", "categories", "tags", "maxResults", "maxTokens", "minScore", "uris", "explain", "y"):
            if self._random.random() < 0.15:
                arguments[name] = self._random.choice([*VALUES, *QUERIES, [self._random.choice(URIS[:-1])]])
        name = self._random.choice(["search", "search", "load", "search_skill", "load_skill", "__import__", ""])
        return dump(self._request("tools/call", name=name, arguments=arguments))

    def hostile_read(self) -> bytes:
        """Return a read of a URI that leads nowhere, or elsewhere."""
        weights = [20] * (len(URIS) - 1) + [1]
        uri = self._random.choices(URIS, weights)[0]
        return dump(self._request(self._random.choice(["resources/read", "resources/subscribe"]), uri=uri))

    def hostile_prompt(self) -> bytes:
        """Return a prompt that is not there, or with arguments of wrong types."""
        arguments = self._random.choice([*VALUES, {"symptom": "${symptom} $& {{symptom}}"}, {"symptom": 1}])
        return dump(self._request("prompts/get", name=self._random.choice(["fix", "../fix", ""]), arguments=arguments))

    def hostile_cursor(self) -> bytes:
        """Return a list from a cursor that this server never gave."""
        method = self._random.choice(["resources/list", "prompts/list", "tools/list", "resources/templates/list"])
        cursor = self._random.choice(["", "x", "bm9wZQ==", "WyJyZXNvdXJjZXMiLCIiLCIiXQ==", "=" * 99, "\U0001f4a5"])
        return dump(self._request(method, cursor=cursor))

    def wrong_envelope(self) -> bytes:
        """Return a request whose envelope is half built."""
        whole = self._any()
        meta = {**META, "progressToken": self._random.choice(VALUES)}
        name = self._random.choice(sorted(meta))
        meta[name] = self._random.choice(VALUES)
        if self._random.random() < 0.3:
            del meta[name]
        whole["params"]["_meta"] = meta
        return dump(whole)

    def other_era(self) -> bytes:
        """Return a request of the era that this connection is not in."""
        if self._random.random() < 0.3:
            return dump({**INITIALIZE, "id": self._id()})
        whole = self._any()
        whole["params"].pop("_meta", None)
        if not self._envelope:
            whole["params"]["_meta"] = META
        return dump(whole)

    def notification(self) -> bytes:
        """Return a notification with garbage."""
        names = ["initialized", "progress", "roots/list_changed", "message", "nothing", "tools/list_changed"]
        params: Any = self._random.choice([*VALUES, {"progressToken": 1, "progress": "x"}, {"requestId": {}}])
        return dump({"jsonrpc": "2.0", "method": f"notifications/{self._random.choice(names)}", "params": params})

    def wrong_member(self) -> bytes:
        """Return a request with one member of its own replaced, renamed or left out."""
        whole = self._any()
        name = self._random.choice(sorted(whole))
        value = whole.pop(name)
        whole[self._random.choice([name, name.upper(), "result", "error"])] = self._random.choice([*VALUES, value])
        return dump(whole)

    def wrong_id(self) -> bytes:
        """Return a request with an id that no request may have."""
        ids = [None, True, 1.5, 10**4200, -0.0, 1e999, [], {}, ["a"], {"id": 1}]
        return dump({**self._any(), "id": self._random.choice(ids)})

    def damaged_bytes(self) -> bytes:
        """Return a request with some bytes replaced, put in or taken out."""
        line = bytearray(dump(self._any()))
        for _ in range(self._random.randrange(1, 4)):
            place = self._random.randrange(len(line))
            piece = self._random.choice(
                [b"\x00", b"\xff", b"\xc3\x28", b"\r", b'"', b"{", b",", b"\\ud800", b"\xed\xa0\x80"]
            )
            line[place : place + self._random.randrange(2)] = piece
        return bytes(line)

    def cut_short(self) -> bytes:
        """Return the beginning or the end of a request."""
        line = dump(self._any())
        place = self._random.randrange(len(line))
        return self._random.choice([line[:place], line[place:]])

    def no_json(self) -> bytes:
        """Return what is no JSON object at all."""
        return self._random.choice([
            b"", b" ", b"\r", b"null", b"true", b"1e999", b"NaN", b'"text"', b"{}", b"[]", b"\xef\xbb\xbf{}",
            b"GET / HTTP/1.1\r", b"Content-Length: 20\r", "{}".encode("utf-16"), b"'{}'", b"{'id': 1}", b"9" * 5000,
            b"\x00" * 50, self._random.randbytes(60),
        ])  # fmt: skip

    def deep(self) -> bytes:
        """Return a request that is nested far deeper than anybody needs."""
        depth = self._random.choice([150, 300, 1_500, 50_000])
        inner = self._random.choice([b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth])
        return dump({**self._any(), "params": {"deep": "HERE"}}).replace(b'"HERE"', inner)

    def batch(self) -> bytes:
        """Return requests in a list."""
        return dump([self._any() for _ in range(self._random.randrange(4))])

    def response(self) -> bytes:
        """Return an answer to a question that nobody asked."""
        results: list[Params] = [{"result": {}}, {"error": {"code": 1, "message": "x"}}, {"result": 1}, {"error": []}]
        return dump({"jsonrpc": "2.0", "id": f"asked by nobody {self._id()}", **self._random.choice(results)})

    def twice(self) -> bytes:
        """Return a request with a member that stands twice."""
        line = dump(self._any())
        return line[:-1] + self._random.choice([b',"method":"ping"}', b',"jsonrpc":"1.0"}', b',"params":[]}'])

    def known_id(self) -> bytes:
        """Return a request under an id that others have, too."""
        return dump({**self._any(), "id": "one for all"})


def dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def refuse(name: str) -> None:
    raise ValueError(name)


def read_strictly(line: bytes) -> object:
    """Return the JSON value of a line; None where there is none, or where it is nested beyond 100 levels."""
    if max(line.count(b"["), line.count(b"{")) > 100:
        return None
    try:
        return json.loads(line.decode(), parse_constant=refuse)
    except (ValueError, RecursionError):
        return None


def read_generously(line: bytes) -> object:
    """Return what some parser may take for the JSON value of a line."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def is_request(value: object) -> TypeGuard[dict[str, Any]]:
    """Tell whether a value is a request by JSON-RPC 2.0 and by what MCP adds to it."""
    return (
        isinstance(value, dict)
        and value.get("jsonrpc") == "2.0"
        and type(value.get("id")) in {int, str}
        and isinstance(value.get("method"), str)
        and isinstance(value.get("params", {}), dict)
        and not {"result", "error"} & value.keys()
        and is_text(value)
    )


def is_text(value: object) -> bool:
    """Tell whether no text in a value holds half of a surrogate pair."""
    return not any("\ud800" <= letter <= "\udfff" for letter in json.dumps(value, ensure_ascii=False))


def key_of(value: Mapping[str, Any]) -> Key:
    return type(value.get("id")).__name__, repr(value.get("id"))


@pytest.mark.slow
@pytest.mark.parametrize("envelope", [{}, META], ids=["handshake", "modern"])
def test_hostile_lines_neither_stop_the_server_nor_cost_a_request_its_answer(tmp_path: Path, envelope: Params) -> None:
    files = {
        "skills/retry.md": markdown("useWhen:\n  - Retrying a flaky call"),
        "prompts/fix.md": "---\nname: fix\narguments:\n  - name: symptom\n---\nFix ${symptom}.\n",
    }
    index = build(write_files(tmp_path / "library", files), tmp_path / "index.db")
    hostile = Hostile(SEED, envelope)
    sent = [hostile.line() for _ in range(LINES)]
    first = [INITIALIZE, INITIALIZED] if not envelope else [request(0, "server/discover", _meta=envelope)]
    meta = {"_meta": envelope} if envelope else {}
    last = request(0, "tools/call", name="search", arguments={"query": "retry"}, **meta) | {"id": "last"}

    server = start(index)
    output, log = server.communicate(lines(*first, *sent, last), timeout=300)

    assert server.returncode == 0
    assert b"Traceback" not in log
    for secret in (str(tmp_path).encode(), b"SELECT ", b"Traceback", b"sqlite3", b"fts5"):
        assert secret not in output
    answers = [json.loads(line) for line in output.splitlines()]
    responses = [answer for answer in answers if "method" not in answer]
    counted = Counter(key_of(answer) for answer in responses)
    owed = Counter(key_of(value) for value in map(read_strictly, sent) if is_request(value))
    assert len(owed) > LINES / 3
    assert {key: (counted[key], number) for key, number in owed.items() if counted[key] < number} == {}
    allowed = Counter(key_of(value) for value in map(read_generously, sent) if isinstance(value, dict))
    more = {key for key, number in counted.items() if number > allowed[key]}
    assert more == {("NoneType", "None"), ("int", "0"), ("str", "'last'")}
    final = next(answer for answer in responses if answer.get("id") == "last")
    assert "orchestr8://skills/retry" in final["result"]["content"][0]["text"]
