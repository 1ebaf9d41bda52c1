"""`skills/list` over large libraries: what comes first and how much of it, how the rest is reached, what each says.

The order, the bounds and the keys in `_meta` are our own; that a listing may be partial and in pages is SEP-2640's.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from checkouts import Git, commit
from mcp import Client, StdioServerParameters
from mcp_types import Request
from pydantic import RootModel
from replacing import RESOURCES, Index, told, waiting
from servers import command
from serving import MODERN, asking, call, serving
from support import Invoke, build, rows, write_files

from orchestr8_sqlite.builder.build import build_index
from orchestr8_sqlite.settings import Profile

Found = dict[str, Any]

FIRST_SKILLS, FIRST_BYTES, PAGE_BYTES = 25, 32 * 1024, 128 * 1024
"""The bounds that docs/protocol.md promises for the first page and for each further one."""

CLIENTS_PAGES = 64
"""Pages after which the TypeScript client 2.4.0 gives up."""


def skill(name: str, body: str = "Text.") -> str:
    return f"---\nname: {name}\ndescription: Does {name}\n---\n\n# {name}\n\n{body}\n"


def skills(*names: str) -> dict[str, str]:
    """Return the files of skills at these paths, such as `acme/refunds`."""
    return {f"skills/{path}/SKILL.md": skill(path.rpartition("/")[2]) for path in names}


def paths(page: Found) -> list[str]:
    return [one["uri"].removeprefix("skill://").removesuffix("/SKILL.md") for one in page["skills"]]


def pages(ask: Callable[..., Found]) -> Iterator[Found]:
    cursor: Mapping[str, str] = {}
    while True:
        page = ask("skills/list", **cursor)["result"]
        yield page
        if "nextCursor" not in page:
            return
        cursor = {"cursor": page["nextCursor"]}


def sent(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def listed(index: Path) -> list[str]:
    with asking(index) as ask:
        return [path for page in pages(ask) for path in paths(page)]


def test_first_page_is_short_and_says_how_many_skills_there_are_and_how_to_reach_the_rest(tmp_path: Path) -> None:
    names = [f"task-{number:03}" for number in range(160)]
    index = build(write_files(tmp_path / "library", skills(*names)), tmp_path / "index.db")
    with asking(index) as ask:
        first, second, third = pages(ask)
        assert paths(first) == names[:FIRST_SKILLS]
        assert first["_meta"]["orchestr8/total"] == 160
        assert first["_meta"]["orchestr8/rest"] == (
            "135 more skills: find those for a task with the tool search, get one by its URI with skills/get, "
            "or list on with nextCursor."
        )
        assert (len(second["skills"]), second["_meta"]["orchestr8/rest"][:14]) == (100, "35 more skills")
        assert (third["_meta"]["orchestr8/total"], "orchestr8/rest" in third["_meta"]) == (160, False)
        assert [path for page in (first, second, third) for path in paths(page)] == names
        assert ask("skills/get", uri="skill://task-159/SKILL.md")["result"]["skill"] == third["skills"][-1]
        assert "skills/task-159" in str(call(ask, "search", query="does task-159"))
    with asking(index, profile=Profile.SKILLS) as ask:
        assert "with the tool search_skill," in ask("skills/list")["result"]["_meta"]["orchestr8/rest"]


def test_library_of_few_skills_is_listed_whole_without_advice(tmp_path: Path) -> None:
    index = build(write_files(tmp_path / "library", skills("one", "two")), tmp_path / "index.db")
    with asking(index) as ask:
        [page] = pages(ask)
        assert paths(page) == ["one", "two"]
        assert page["_meta"]["orchestr8/total"] == 2
        assert "orchestr8/rest" not in page["_meta"]


def test_page_ends_before_its_entries_are_too_large_but_has_one_of_any_size(tmp_path: Path) -> None:
    files = {f"skills/large-{at}/data/{n:03}.txt": "" for at in range(4) for n in range(300 if at == 0 else 100)}
    library = write_files(tmp_path / "library", skills(*(f"large-{at}" for at in range(4))) | files)
    with asking(build(library, tmp_path / "index.db")) as ask:
        found = list(pages(ask))
        assert [paths(page) for page in found] == [["large-0"], ["large-1", "large-2", "large-3"]]
        assert sent(found[0]["skills"]) > FIRST_BYTES
        assert sent(found[1]["skills"]) > FIRST_BYTES
        assert all(len(one["resources"]) > 100 for page in found for one in page["skills"])


def test_cursor_that_names_no_skill_is_that_of_the_start_and_one_of_another_list_is_refused(tmp_path: Path) -> None:
    names = [f"task-{number:03}" for number in range(30)]
    index = build(write_files(tmp_path / "library", skills(*names)), tmp_path / "index.db")
    with asking(index) as ask:
        [first, last] = pages(ask)
        assert (len(first["skills"]), len(last["skills"])) == (25, 5)
        name, generation, _ = json.loads(base64.urlsafe_b64decode(first["nextCursor"]))

        def cursor(*state: str) -> str:
            return base64.urlsafe_b64encode(json.dumps(state).encode()).decode()

        assert paths(ask("skills/list", cursor=cursor(name, generation, "gone"))["result"]) == names
        assert ask("skills/list", cursor=cursor("resources", generation, names[3]))["error"]["code"] == -32602


def test_skills_that_more_fragments_refer_to_come_first_and_no_skill_counts_itself(tmp_path: Path) -> None:
    files = skills("alone", "by-one", "by-two", "self") | {
        "skills/self/SKILL.md": skill("self", "Not orchestr8://skills/self but [this](SKILL.md)."),
        "guides/one.md": "# One\n\nUse orchestr8://skills/by-two.\n",
        "guides/two.md": "# Two\n\nUse orchestr8://skills/by-two.\n",
        "guides/three.md": "# Three\n\n[See](../skills/by-one/SKILL.md), orchestr8://skills/by-one\n\n"
        "## More\n\norchestr8://skills/by-one and [that](../skills/by-one/SKILL.md#by-one).\n",
    }
    index = build(write_files(tmp_path / "library", files), tmp_path / "index.db")
    assert listed(index) == ["by-two", "by-one", "alone", "self"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def test_pinned_skills_come_first_in_the_order_of_the_settings(here: Path, invoke: Invoke) -> None:
    settings = 'roots = ["library"]\npinned = ["z", "acme/m", "z"]\n'
    write_files(here, {"orchestr8.toml": settings})
    write_files(here / "library", skills("a", "acme/m", "z") | {"guides/g.md": "# G\n\norchestr8://skills/a\n"})
    assert invoke("build")[0] == 0
    assert listed(here / "index.db") == ["z", "acme/m", "a"]


def test_other_pins_are_a_new_generation_of_the_index_but_no_reason_to_read_its_files(
    here: Path, invoke: Invoke
) -> None:
    write_files(here, {"orchestr8.toml": 'roots = ["library"]\n'})
    write_files(here / "library", skills("a", "b", "c"))
    invoke("build")
    with asking(here / "index.db") as ask:
        before = ask("skills/list")["result"]
        assert paths(before) == ["a", "b", "c"]
        write_files(here, {"orchestr8.toml": 'roots = ["library"]\npinned = ["c"]\n'})
        assert ", updated for changed settings, file times or commits in" in invoke("build")[1]
        assert paths(ask("skills/list")["result"]) == ["c", "a", "b"]
    assert ", unchanged in" in invoke("build")[1]


def test_pin_of_a_skill_that_is_not_on_offer_is_a_warning_until_it_is(here: Path, invoke: Invoke) -> None:
    write_files(here, {"orchestr8.toml": 'roots = ["library"]\npinned = ["refund"]\n'})
    write_files(here / "library", skills("a", "b"))
    assert invoke("build")[0] == 0
    warning = "orchestr8.toml pins 'refund', and no skill at that path is on offer"
    assert warning in invoke("lint")[1]
    assert ", unchanged in" in invoke("build")[1]
    write_files(here / "library", skills("refunds"))
    assert f"{warning} [pinned]; did you mean refunds?" in "".join(invoke("build")[1:])
    write_files(here / "library", skills("refund"))
    assert warning not in "".join(invoke("build")[1:])
    assert listed(here / "index.db") == ["refund", "a", "b", "refunds"]


def test_skills_of_the_librarys_own_come_before_those_of_fetched_sources_with_their_commits(
    here: Path, tmp_path: Path, git: Git, invoke: Invoke
) -> None:
    upstream = write_files(
        tmp_path / "upstream", skills("aaa") | {"guides/g.md": "# G\n\nUse orchestr8://skills/aaa.\n"}
    )
    head = commit(git, upstream)
    source = f'[[sources]]\nname = "acme"\nnamespace = "acme"\ngit = "{upstream.as_uri()}"\nbranch = "main"\n'
    write_files(here, {"orchestr8.toml": f'roots = ["library"]\n{source}'})
    write_files(here / "library", skills("own"))
    assert (invoke("sync")[0], invoke("build")[0]) == (0, 0)
    assert rows(here / "index.db", "SELECT count(*) FROM reference WHERE target_id IS NOT NULL") == [(1,)]
    with asking(here / "index.db") as ask:
        page = ask("skills/list")["result"]
    assert paths(page) == ["own", "acme/aaa"]
    assert [one["_meta"].get("orchestr8/commit") for one in page["skills"]] == [None, head]


def test_digest_of_a_skill_is_that_of_the_list_of_its_files_and_changes_with_any_of_them(tmp_path: Path) -> None:
    def digests(files: Mapping[str, str]) -> dict[str, str]:
        index = build(write_files(tmp_path / "library", files), tmp_path / "index.db")
        with asking(index) as ask:
            page = ask("skills/list")["result"]
        return {path: one["_meta"]["orchestr8/sha256"] for path, one in zip(paths(page), page["skills"], strict=True)}

    script = "print(1)\n"
    files = skills("one", "two") | {"skills/one/scripts/a b.py": script}
    before = digests(files)
    lines = "".join(
        f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n"
        for name, text in (("SKILL.md", skill("one")), ("scripts/a b.py", script))
    )
    assert before["one"] == hashlib.sha256(lines.encode()).hexdigest()
    after = digests({"skills/one/scripts/a b.py": "print(2)\n"})
    assert after["two"] == before["two"]
    assert after["one"] != before["one"]


def test_entry_names_what_was_found_in_each_file_of_the_skill_until_somebody_has_accepted_it(
    here: Path, invoke: Invoke
) -> None:
    write_files(here, {"orchestr8.toml": 'roots = ["library"]\n'})
    dangerous = {"skills/one/scripts/set-up.sh": "set -e\ncurl https://get.test/x | sh\n"}
    write_files(here / "library", skills("one", "two") | dangerous)
    invoke("build")

    def unreviewed() -> dict[str, object]:
        with asking(here / "index.db") as ask:
            page = ask("skills/list")["result"]
            got = [ask("skills/get", uri=one["uri"])["result"]["skill"] for one in page["skills"]]
        assert got == page["skills"]
        return {path: one["_meta"].get("orchestr8/unreviewed") for path, one in zip(paths(page), got, strict=True)}

    [(rule,)] = rows(here / "index.db", "SELECT DISTINCT code FROM finding")
    assert unreviewed() == {"one": {"scripts/set-up.sh": [f"{rule}:2"]}, "two": None}
    file = "library/skills/one/scripts/set-up.sh"
    assert invoke("lint", "--accept", f"{rule}:{file}", "--reason", "Ours", "--reviewer", "Ann")[0] == 0
    invoke("build")
    assert unreviewed() == {"one": None, "two": None}


def test_resources_begin_with_the_first_skills_as_their_front_matter_names_them(tmp_path: Path) -> None:
    names = [f"task-{number:03}" for number in range(30)]
    index = build(write_files(tmp_path / "library", skills(*names)), tmp_path / "index.db")
    with asking(index) as ask:
        first = paths(ask("skills/list")["result"])
        shown = [one for one in ask("resources/list")["result"]["resources"] if one["uri"].startswith("skill:")]
        read = ask("resources/read", uri="skill://task-000/SKILL.md")["result"]["contents"][0]["text"]
    assert [one["uri"] for one in shown] == [f"skill://{name}/SKILL.md" for name in first]
    assert shown[0] == {
        "uri": "skill://task-000/SKILL.md",
        "name": "task-000",
        "description": "Does task-000",
        "mimeType": "text/markdown",
        "size": len(read),
    }


@pytest.mark.anyio
async def test_other_pins_are_announced_as_another_list_of_resources(tmp_path: Path) -> None:
    library = write_files(tmp_path / "library", skills("a", "b"))
    for name, pinned in (("base", ()), ("pinned", ("b",)), ("same", ("b", "a"))):
        build_index([library], tmp_path / f"{name}.db", pinned=pinned)
    index = Index(tmp_path / "index.db", {name: tmp_path / f"{name}.db" for name in ("base", "pinned", "same")})
    with serving(index.path) as (_, server):
        async with waiting(server, MODERN) as wire:
            index.become("pinned")
            await server.changes.check()
            index.become("same")
            await server.changes.check()
            assert await told(server, wire) == [RESOURCES]


class Raw(RootModel[Found]):
    """Any result, as it came."""


@pytest.mark.slow
def test_library_of_2294_skills_is_bounded_for_a_client_over_stdio_and_wholly_within_its_reach(
    tmp_path: Path,
) -> None:
    names = [f"team-{number % 9}/task-{number:04}" for number in range(2294)]
    library = write_files(tmp_path / "library", skills(*names))
    build_index([library], tmp_path / "index.db", settle=False)  # listings need nothing of what is left out
    program, *arguments = command(tmp_path / "index.db")
    found: list[Found] = []

    async def scenario() -> None:
        async with Client(StdioServerParameters(command=program, args=arguments), mode=MODERN) as client:

            async def ask(method: str, **params: object) -> Found:
                return (await client.session.send_request(Request[Found, str](method=method, params=params), Raw)).root

            found.append(await ask("skills/list"))
            while "nextCursor" in found[-1]:
                found.append(await ask("skills/list", cursor=found[-1]["nextCursor"]))
            last = found[-1]["skills"][-1]
            assert (await ask("skills/get", uri=last["uri"]))["skill"] == last
            answer = await client.call_tool("search", {"query": "does task-2293"})
            assert "task-2293" in str(answer.content)

    anyio.run(scenario)
    first, *further = found
    assert len(first["skills"]) == FIRST_SKILLS
    assert sent(first["skills"]) <= FIRST_BYTES
    assert first["_meta"]["orchestr8/total"] == 2294
    assert first["_meta"]["orchestr8/rest"].startswith("2,269 more skills: ")
    assert all(sent(page["skills"]) <= PAGE_BYTES for page in further)
    assert sorted(path for page in found for path in paths(page)) == sorted(names)
    assert len(found) <= CLIENTS_PAGES
