"""What clients under load ask, and what is right to answer: known from how the library was written."""

import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from torture import Wrong
from torture.load.library import COMMON, LEDGER, PACK, PACK_AS_FILE, PROMPT, SCRIPT, URIS, WORDS, body_of, editions_in

MODES = ("index", "catalog", "full")
TOOLS = ["search", "load"]

Message = Mapping[str, Any]
Facts = list[tuple[str, int]]
"""Which documents an answer shows, each with its edition."""


class Question(NamedTuple):
    """A request, and what returns the facts of its answer or raises what is wrong with it."""

    method: str
    params: dict[str, Any]
    judge: Callable[[Message], Facts]


def judged(question: Question, answer: Message) -> Facts:
    """Return what *answer* shows.

    Raises:
        Wrong: It is not what is to be answered, or shows of a document more than one edition.
    """
    try:
        facts = question.judge(answer)
    except (KeyError, IndexError, TypeError, ValueError, AssertionError) as problem:
        raise Wrong(f"{question.method} {question.params}: {problem!r}: {json.dumps(answer)[:600]}") from None
    if editions_in(answer) - {edition for _, edition in facts}:
        raise Wrong(f"{question.method} {question.params}: of other editions: {json.dumps(answer)[:600]}")
    return facts


def questions(chance: random.Random, *, whole: bool) -> Iterator[Question]:
    """Yield questions of all kinds without end.

    Args:
        whole: Whether the index is always one of the whole library at one moment.
    """
    while True:
        kinds = [_search, _search, _common, _misspelt, _read, _load, _other, _skill, _wrong, _matched]
        chance.shuffle(kinds)
        yield from (kind(chance) for kind in kinds)
        yield _ledger(whole=whole)


def reading(uri: str) -> Question:
    """Return the question for the text of *uri*."""

    def judge(answer: Message) -> Facts:
        (content,) = answer["result"]["contents"]
        return _texts([content])

    return Question("resources/read", {"uri": uri}, judge)


def loading(uris: list[str]) -> Question:
    """Return the question for the texts of *uris* in one call."""

    def judge(answer: Message) -> Facts:
        documents = answer["result"]["structuredContent"]["documents"]
        assert [one["uri"] for one in documents] == uris
        assert all(one["text"] in answer["result"]["content"][0]["text"] for one in documents)
        return _texts(documents)

    return _call("load", judge, uris=uris)


def subscribing(uri: str) -> Question:
    """Return the request to be told of changes of *uri*."""

    def judge(answer: Message) -> Facts:
        assert answer["result"] == {}
        return []

    return Question("resources/subscribe", {"uri": uri}, judge)


def _call(tool: str, judge: Callable[[Message], Facts], **arguments: object) -> Question:
    return Question("tools/call", {"name": tool, "arguments": arguments}, judge)


def _facts(entries: Iterable[Message], key: str = "uri") -> Facts:
    """Return the facts of *entries*, each of which is of one edition, or tells of none."""
    facts: Facts = []
    for entry in entries:
        editions = editions_in(entry)
        assert len(editions) < 2, f"a mixture of {editions}"
        facts += [(entry[key], edition) for edition in editions]
    return facts


def _texts(entries: list[Message]) -> Facts:
    """Return the facts of *entries*, which hold whole texts."""
    facts = _facts(entries)
    assert len(facts) == len(entries), "a text of no edition"
    for entry, (uri, edition) in zip(entries, facts, strict=True):
        if "orchestr8://" in uri or uri == SCRIPT:
            name = SCRIPT if uri == f"{PACK}/run.sh" else uri
            assert entry["text"] == body_of(name, edition), "another text"
    return facts


def _found(answer: Message, mode: str, most: int) -> tuple[list[str], Facts]:
    """Return the URIs of what was found, and its facts."""
    assert not answer["result"]["isError"]
    matches = answer["result"]["structuredContent"]["matches"]
    uris = [match["uri"] for match in matches]
    text = answer["result"]["content"][0]["text"]
    assert len(set(uris)) == len(uris) <= most
    assert all(uri in text for uri in uris)
    assert mode == "index" or all(uri in URIS or uri == PACK for uri in uris), "what is not in the library"
    return uris, _texts(matches) if mode == "full" else _facts(matches)


def _searching(query: str, uri: str | None, mode: str, most: int) -> Question:
    def judge(answer: Message) -> Facts:
        uris, facts = _found(answer, mode, most)
        assert uris[:1] == [uri] if uri else uris
        return facts

    return _call("search", judge, query=query, mode=mode, maxResults=most)


def _search(chance: random.Random) -> Question:
    word = chance.choice(WORDS)
    return _searching(word, f"orchestr8://skills/{word}", chance.choice(MODES), chance.randint(1, 9))


def _common(chance: random.Random) -> Question:
    words = chance.sample(COMMON, chance.randint(2, 4))
    return _searching(" ".join(words), None, chance.choice(MODES), chance.randint(1, 15))


def _misspelt(chance: random.Random) -> Question:
    word = chance.choice(WORDS)
    wrong = word[:5] + word[6] + word[5] + word[7:]
    return _searching(wrong, f"orchestr8://skills/{word}", chance.choice(MODES), chance.randint(1, 9))


def _read(chance: random.Random) -> Question:
    return reading(chance.choice([*URIS, SCRIPT]))


def _load(chance: random.Random) -> Question:
    return loading(chance.sample(URIS, chance.randint(1, 8)))


def _matched(chance: random.Random) -> Question:
    word = chance.choice(WORDS)
    uri = f"orchestr8://match?query={word}&mode={chance.choice(MODES)}&maxResults={chance.randint(1, 9)}"

    def judge(answer: Message) -> Facts:
        (content,) = answer["result"]["contents"]
        assert f"orchestr8://skills/{word}" in content["text"]
        return [(f"orchestr8://skills/{word}", edition) for edition in editions_in(content["text"])]

    return Question("resources/read", {"uri": uri}, judge)


def _ledger(*, whole: bool) -> Question:
    """Return the search for the ledger, which is there once, or while it is renamed perhaps twice or not at all."""

    def judge(answer: Message) -> Facts:
        uris, _ = _found(answer, "index", 5)
        assert len(uris) == 1 or not whole
        assert all(uri.startswith(LEDGER) for uri in uris)
        return [(LEDGER, int(uri.removeprefix(LEDGER))) for uri in uris]

    return _call("search", judge, query="account of everything bookkept", mode="index", maxResults=5, minScore=30)


def _skill(chance: random.Random) -> Question:
    def found(answer: Message) -> Facts:
        (skill,) = answer["result"]["structuredContent"]["skills"]
        assert (skill["uri"], skill["name"]) == (PACK, "pack")
        return _facts([skill])

    def loaded(answer: Message) -> Facts:
        documents = answer["result"]["structuredContent"]["documents"]
        assert [one["uri"] for one in documents] == [PACK, f"{PACK}/run.sh"]
        return [(SCRIPT if "run" in uri else uri, edition) for uri, edition in _texts(documents)]

    if chance.random() < 0.5:
        return _call("search_skill", found, query="wraps bottles")
    return _call("load_skill", loaded, name="pack", files=["*"])


def _other(chance: random.Random) -> Question:
    return chance.choice((_prompt, _prompts, _tools, _resources, _templates, _completion, _ping))(chance)


def _prompt(chance: random.Random) -> Question:
    what = chance.choice(WORDS)

    def judge(answer: Message) -> Facts:
        text = answer["result"]["messages"][0]["content"]["text"]
        facts = [(PROMPT, edition) for edition in editions_in(answer)]
        assert [text] == [f"Fix {what} as in edition{edition}." for _, edition in facts]
        return facts

    return Question("prompts/get", {"name": "fix", "arguments": {"what": what}}, judge)


def _prompts(_: random.Random) -> Question:
    def judge(answer: Message) -> Facts:
        (prompt,) = answer["result"]["prompts"]
        assert prompt["name"] == "fix"
        return [(PROMPT, edition) for _, edition in _facts([prompt], "name")]

    return Question("prompts/list", {}, judge)


def _tools(_: random.Random) -> Question:
    def judge(answer: Message) -> Facts:
        assert [tool["name"] for tool in answer["result"]["tools"]] == TOOLS
        return []

    return Question("tools/list", {}, judge)


def _resources(_: random.Random) -> Question:
    def judge(answer: Message) -> Facts:
        resources = answer["result"]["resources"]
        assert {*URIS, PACK} <= {one["uri"] for one in resources}
        ledgers = [one["uri"] for one in resources if one["uri"].startswith(LEDGER)]
        named = [(LEDGER, int(uri.removeprefix(LEDGER))) for uri in ledgers]
        others = _facts(one for one in resources if one["uri"] not in ledgers)
        return named + [(PACK if uri == PACK_AS_FILE else uri, edition) for uri, edition in others]

    return Question("resources/list", {}, judge)


def _templates(_: random.Random) -> Question:
    def judge(answer: Message) -> Facts:
        assert "match" in [one["name"] for one in answer["result"]["resourceTemplates"]]
        return []

    return Question("resources/templates/list", {}, judge)


def _completion(chance: random.Random) -> Question:
    word = chance.choice(WORDS)

    def judge(answer: Message) -> Facts:
        assert word in answer["result"]["completion"]["values"]
        return []

    template = "orchestr8://skills/{+name}"
    params = {"ref": {"type": "ref/resource", "uri": template}, "argument": {"name": "name", "value": word[:4]}}
    return Question("completion/complete", params, judge)


def _ping(_: random.Random) -> Question:
    def judge(answer: Message) -> Facts:
        assert answer["result"] == {}
        return []

    return Question("ping", {}, judge)


def _wrong(chance: random.Random) -> Question:
    """Return a request that is to be refused: by an error of the protocol, or by a result that says so."""
    method, params, code = chance.choice(MISTAKES)

    def judge(answer: Message) -> Facts:
        if code is None:
            assert answer["result"]["isError"]
            assert answer["result"]["content"][0]["text"].endswith(".")
        else:
            assert answer["error"]["code"] == code
        return []

    return Question(method, params, judge)


MISTAKES: tuple[tuple[str, dict[str, Any], int | None], ...] = (
    ("tools/call", {"name": "search", "arguments": {}}, None),
    ("tools/call", {"name": "search", "arguments": {"query": "calm", "maxResults": 1000}}, None),
    ("tools/call", {"name": "load", "arguments": {"uris": []}}, None),
    ("tools/call", {"name": "load", "arguments": {"uris": ["orchestr8://skills/none"]}}, None),
    ("tools/call", {"name": "none", "arguments": {}}, -32602),
    ("resources/read", {"uri": "orchestr8://skills/none"}, -32002),
    ("resources/read", {"uri": "file:///etc/passwd"}, -32002),
    ("resources/list", {"cursor": "none"}, -32602),
    ("prompts/get", {"name": "none"}, -32602),
    ("prompts/get", {"name": 5}, -32602),
    ("none/list", {}, -32601),
)
