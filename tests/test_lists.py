"""Lists of prompts and resources on the wire: pages and their cursors, what each entry says, how long it holds."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import HANDSHAKES, MODERN, REVISIONS, Ask, Message, asking
from support import build, markdown, write_files

from orchestr8_sqlite.server.paging import PAGE_SIZE

COUNT = PAGE_SIZE + 3
RETRY = "---\ntitle: Retrying\ndescription: |\n  Retry well,\n  with care\n---\n\n# Wiederholen übt\n\nWörter.\n"
FILES = {
    "skills/retry.md": RETRY,
    **{f"guides/guide-{number:03}.md": "# G\n\nText.\n" for number in range(COUNT)},
    **{f"prompts/workflows/p{number:03}.md": f"---\nname: p{number:03}\n---\n\nDo.\n" for number in range(COUNT - 1)},
    "prompts/workflows/versioned.md": markdown(
        "name: versioned\ntitle: Versioned\ndescription: Knows its age\nversion: 2.1.0\n"
        "arguments: [{name: what, description: What to do, required: true}, {name: how}]",
        "Do ${what} {{how}}.\n",
    ),
}
TIME = 1_700_000_123
"""When `skills/retry.md` was changed; in UTC that is WRITTEN."""
WRITTEN = "2023-11-14T22:15:23Z"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lists")
    root = write_files(folder / "library", FILES)
    os.utime(root / "skills" / "retry.md", (TIME, TIME + 0.75))
    return build(root, folder / "index.db")


@pytest.fixture(scope="module", params=[HANDSHAKES[0], HANDSHAKES[3], MODERN])
def ask(request: pytest.FixtureRequest, built: Path) -> Iterator[Ask]:
    with asking(built, request.param) as ask:
        yield ask


def pages(ask: Ask, method: str, name: str) -> list[list[Message]]:
    """Return the entries of each page of a list."""
    found: list[list[Message]] = []
    params: Message = {}
    while True:
        result = ask(method, **params)["result"]
        found.append(result[name])
        if "nextCursor" not in result:
            return found
        params = {"cursor": result["nextCursor"]}


def test_pages_of_prompts_hold_every_prompt_once_by_name(ask: Ask) -> None:
    first, second = pages(ask, "prompts/list", "prompts")
    assert len(first) == PAGE_SIZE
    names = [prompt["name"] for prompt in [*first, *second]]
    assert names == [*(f"p{number:03}" for number in range(COUNT - 1)), "versioned"]


def test_pages_of_resources_begin_with_the_lists_and_hold_every_fragment_once(ask: Ask) -> None:
    first, second = pages(ask, "resources/list", "resources")
    uris = [resource["uri"].removeprefix("orchestr8://") for resource in [*first, *second]]
    assert uris == ["registry", "guides", "skills", *(f"guides/guide-{n:03}" for n in range(COUNT)), "skills/retry"]


def test_same_cursor_gives_the_same_page_again(ask: Ask) -> None:
    cursor = ask("prompts/list")["result"]["nextCursor"]
    again = [ask("prompts/list", cursor=cursor)["result"]["prompts"] for _ in range(2)]
    assert again[0] == again[1]


LISTS = {
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


@pytest.mark.parametrize("given_by", ["prompts/list", "resources/list"])
@pytest.mark.parametrize("method", list(LISTS))
def test_cursor_is_taken_by_the_list_that_gave_it_alone(ask: Ask, given_by: str, method: str) -> None:
    cursor = ask(given_by)["result"]["nextCursor"]
    answer = ask(method, cursor=cursor)
    if method == given_by:
        assert answer["result"][LISTS[method]]
    else:
        assert answer["error"]["code"] == -32602
        assert "list again without it" in answer["error"]["message"]


@pytest.mark.parametrize("cursor", ["", "x", "bm9wZQ==", "W10=", "é", "bnVsbA==", "A" * 5000])
@pytest.mark.parametrize("method", list(LISTS))
def test_cursor_that_nobody_gave_is_refused(ask: Ask, method: str, cursor: str) -> None:
    assert ask(method, cursor=cursor)["error"]["code"] == -32602


@pytest.mark.parametrize("revision", [HANDSHAKES[3], MODERN])
def test_cursor_does_not_survive_a_change_of_the_library_but_a_copy_of_it(
    built: Path, tmp_path: Path, revision: str
) -> None:
    index = Path(shutil.copy(built, tmp_path / "index.db"))
    other = build(write_files(tmp_path / "library", {"skills/a.md": "# A\n\nText.\n"}), tmp_path / "other.db")
    with asking(index, revision) as ask:
        cursors = {method: ask(method)["result"]["nextCursor"] for method in ("prompts/list", "resources/list")}
        Path(shutil.copy(built, tmp_path / "copy.db")).replace(index)
        for method, cursor in cursors.items():
            assert ask(method, cursor=cursor)["result"][LISTS[method]]
        other.replace(index)
        for method, cursor in cursors.items():
            error = ask(method, cursor=cursor)["error"]
            assert (error["code"], error["message"]) == (
                -32602,
                "The library has changed since that cursor was given; list again without it.",
            )


def test_prompt_says_title_description_arguments_and_version(ask: Ask) -> None:
    prompt = pages(ask, "prompts/list", "prompts")[-1][-1]
    assert (prompt["title"], prompt["description"]) == ("Versioned", "Knows its age")
    assert prompt["_meta"] == {"orchestr8/version": "2.1.0"}
    what, how = prompt["arguments"]
    assert what == {"name": "what", "description": "What to do", "required": True}
    assert (how["name"], how.get("required", False)) == ("how", False)
    assert "_meta" not in pages(ask, "prompts/list", "prompts")[0][0]


def test_resource_says_when_it_was_written_its_bytes_and_its_tokens(ask: Ask) -> None:
    resource = pages(ask, "resources/list", "resources")[-1][-1]
    text = ask("resources/read", uri="orchestr8://skills/retry")["result"]["contents"][0]["text"]
    assert text == "# Wiederholen übt\n\nWörter."
    assert resource["annotations"] == {"lastModified": WRITTEN}
    assert resource["size"] == len(text.encode()) == len(text) + 2
    assert 5 <= resource["_meta"]["orchestr8/tokens"] <= 12
    assert (resource["title"], resource["mimeType"]) == ("Retrying", "text/markdown")
    assert resource["description"] == "Retry well, with care"


CACHED = ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"]


@pytest.mark.parametrize("revision", REVISIONS)
def test_answers_say_how_long_they_hold_at_2026_07_28_alone(built: Path, revision: str) -> None:
    with asking(built, revision) as ask:
        for method in CACHED:
            params = {"uri": "orchestr8://skills/retry"} if method == "resources/read" else {}
            result = ask(method, **params)["result"]
            if revision == MODERN:
                assert (result["cacheScope"], result["resultType"]) == ("public", "complete")
                assert result["ttlMs"] > 0
            else:
                assert not {"ttlMs", "cacheScope", "resultType"} & set(result)
        called = ask("tools/call", name="search", arguments={"query": "retry"})["result"]
        assert not {"ttlMs", "cacheScope"} & set(called)
        assert ("resultType" in called) == (revision == MODERN)
