"""Hot reload as a connected client meets it: told of what changes, in the form of its revision, and of nothing else."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from listening import HANDSHAKE, MODERN, PATIENCE, Listener, needs_proc, processes
from replacing import PROMPTS, RESOURCES, UPDATED
from servers import INITIALIZE, INITIALIZED
from support import MakeLibrary, build, markdown, write_files

pytestmark = pytest.mark.slow

RETRY = "orchestr8://skills/retry"
ROSES = "orchestr8://guides/roses"
PACK = "skill://pack/SKILL.md"
FILES = {
    "skills/retry.md": markdown("title: Retry\nuseWhen: [Retrying a flaky call]", "# Retry\n\nWait.\n"),
    "guides/roses.md": "# Roses\n\nPrune them.\n",
    "skills/pack/SKILL.md": markdown("name: pack\ndescription: Packs things into boxes.", "# Pack\n\nFold.\n"),
    "prompts/workflows/fix.md": markdown("name: fix\ndescription: Mends it", "Fix it.\n"),
}
SOON = 2.0
"""Seconds. Half a second is what is promised; the machine that runs the tests may be busy."""

Serve = Callable[..., Listener]
Listening = Callable[..., Listener]
both_eras = pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])


@pytest.fixture
def root(make_library: MakeLibrary) -> Path:
    return make_library(FILES)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir()
    return folder


@pytest.fixture
def serve(root: Path, cache: Path) -> Iterator[Serve]:
    """Return a function that starts a server over the library, unless it is told of another."""
    started: list[Listener] = []

    def start(*options: str, **settings: str) -> Listener:
        started.append(Listener(cache, *(options or ("--root", str(root))), **settings))
        return started[-1]

    yield start
    for listener in started:
        listener.close()


@pytest.fixture
def listening(serve: Serve) -> Listening:
    """Return a function that starts a server that has built its index, and a client that listens."""

    def start(*uris: str, revision: str = HANDSHAKE) -> Listener:
        listener = serve(revision=revision)
        listener.logged("built")
        listener.listen(*uris)
        assert listener.unheard() == []
        return listener

    return start


def put(root: Path, path: str, text: str) -> None:
    """Save a file as careful editors do: beside, then renamed."""
    beside = root / f".{Path(path).name}.swp"
    beside.write_bytes(text.encode())
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    beside.replace(root / path)


def until_gone(cache: Path) -> None:
    """Wait until no process builds an index in *cache*."""
    ended = time.monotonic() + PATIENCE
    while processes(cache):
        assert time.monotonic() < ended
        time.sleep(0.01)


@both_eras
def test_fragments_that_are_created_changed_renamed_and_deleted_reach_the_client(
    listening: Listening, root: Path, revision: str
) -> None:
    new, renamed = "orchestr8://skills/backoff", "orchestr8://skills/doubling"
    client = listening(RETRY, new, revision=revision)
    put(root, "skills/backoff.md", markdown("useWhen: [Waiting longer each time]", "# Backoff\n\nDouble it.\n"))
    assert client.hear(2) == [RESOURCES, f"{UPDATED} {new}"]
    assert new in client.search("waiting longer each time")
    put(root, "skills/retry.md", FILES["skills/retry.md"].replace("Wait.", "Wait a second."))
    assert client.hear(2) == [RESOURCES, f"{UPDATED} {RETRY}"]
    assert "Wait a second." in client.read(RETRY)
    (root / "skills/backoff.md").rename(root / "skills/doubling.md")
    assert client.hear(2) == [RESOURCES, f"{UPDATED} {new}"]
    assert "Double it." in client.read(renamed)
    assert renamed in client.answer("resources/read", uri=new)["error"]["message"]
    (root / "skills/doubling.md").unlink()
    assert client.hear(1) == [RESOURCES]
    assert renamed not in client.search("waiting longer each time")
    assert client.unheard() == []


@both_eras
def test_prompts_that_are_created_changed_renamed_and_deleted_reach_the_client(
    listening: Listening, root: Path, revision: str
) -> None:
    client = listening(RETRY, revision=revision)

    def prompts() -> dict[str, str]:
        return {prompt["name"]: prompt["description"] for prompt in client.ask("prompts/list")["prompts"]}

    put(root, "commands/ask.md", markdown("name: ask\ndescription: Asks", "Ask $ARGUMENTS.\n"))
    assert client.hear(1) == [PROMPTS]
    assert prompts() == {"ask": "Asks", "fix": "Mends it"}
    put(root, "commands/ask.md", markdown("name: ask\ndescription: Asks again", "Ask $ARGUMENTS again.\n"))
    assert client.hear(1) == [PROMPTS]
    assert prompts()["ask"] == "Asks again"
    assert client.ask("prompts/get", name="ask")["messages"][0]["content"]["text"].startswith("Ask")
    put(root, "commands/ask.md", markdown("name: query\ndescription: Asks again"))
    assert client.hear(1) == [PROMPTS]
    assert prompts() == {"fix": "Mends it", "query": "Asks again"}
    (root / "commands/ask.md").unlink()
    (root / "prompts/workflows/fix.md").unlink()
    assert client.hear(1) == [PROMPTS]
    assert prompts() == {}
    assert client.unheard() == []


@both_eras
def test_skills_that_are_created_changed_renamed_and_deleted_reach_the_client(
    listening: Listening, root: Path, revision: str
) -> None:
    client = listening(PACK, "skill://pack/run.sh", revision=revision)

    def skills() -> dict[str, str]:
        return {skill["uri"]: skill["frontmatter"]["description"] for skill in client.ask("skills/list")["skills"]}

    def load(name: str, *files: str) -> str:
        result = client.ask("tools/call", name="load_skill", arguments={"name": name, "files": list(files)})
        return str(result["content"][0]["text"])

    put(root, "skills/send/SKILL.md", markdown("name: send\ndescription: Sends parcels.", "# Send\n\nStick.\n"))
    assert client.hear(1) == [RESOURCES]
    assert skills() == {PACK: "Packs things into boxes.", "skill://send/SKILL.md": "Sends parcels."}
    assert "Stick." in load("send")
    put(root, "skills/pack/SKILL.md", FILES["skills/pack/SKILL.md"].replace("Fold.", "Fold twice."))
    assert client.hear(2) == [RESOURCES, f"{UPDATED} {PACK}"]
    assert "Fold twice." in load("pack")
    put(root, "skills/pack/run.sh", "echo packed\n")
    assert f"{UPDATED} skill://pack/run.sh" in client.hear(1)
    assert "echo packed" in load("pack", "run.sh")
    client.unheard()
    (root / "skills/send").rename(root / "skills/post")
    put(root, "skills/post/SKILL.md", markdown("name: post\ndescription: Sends parcels.", "# Send\n\nStick.\n"))
    assert client.hear(1) == [RESOURCES]
    assert set(skills()) == {PACK, "skill://post/SKILL.md"}
    shutil.rmtree(root / "skills/pack")
    shutil.rmtree(root / "skills/post")
    heard = client.hear(3)
    assert heard == [RESOURCES, f"{UPDATED} {PACK}", f"{UPDATED} skill://pack/run.sh"]
    assert [tool["name"] for tool in client.ask("tools/list")["tools"]] == ["search", "load"]
    assert client.unheard() == []


def test_bad_edit_keeps_the_last_good_version_and_is_explained_in_the_log(listening: Listening, root: Path) -> None:
    client = listening(RETRY, PACK)
    (root / "skills/retry.md").write_bytes(b"# Caf\xe9\n")
    fault = client.logged("diagnostic", place=f"{root.name}/skills/retry.md:1", severity="error")
    assert "is not UTF-8" in fault["text"]
    assert "Wait." in client.read(RETRY)
    put(root, "skills/pack/SKILL.md", markdown("name: pack", "# Pack\n\nCrumple.\n"))
    fault = client.logged("diagnostic", place=f"{root.name}/skills/pack/SKILL.md:1", severity="error")
    assert "description" in fault["text"]
    assert "Fold." in client.read(PACK)
    assert [skill["uri"] for skill in client.ask("skills/list")["skills"]] == [PACK]
    assert client.unheard() == []
    put(root, "skills/retry.md", FILES["skills/retry.md"].replace("Wait.", "Wait again."))
    assert client.hear(2) == [RESOURCES, f"{UPDATED} {RETRY}"]
    assert "Wait again." in client.read(RETRY)


def test_while_files_are_saved_again_and_again_no_request_fails_or_gets_half_an_answer(
    listening: Listening, root: Path
) -> None:
    client = listening(RETRY)
    number, answers = 0, set[str]()
    ended = time.monotonic() + PATIENCE
    while len(answers) < 6:  # how many builds that takes is not known: a version that is half written is not taken
        assert time.monotonic() < ended, answers
        number += 1
        write_files(root, {"skills/retry.md": markdown("title: Retry", f"# Retry\n\n{f'v{number} ' * 3000}\n")})
        (version,) = set(re.findall(r"v\d+|Wait", client.read(RETRY)))
        answers.add(version)
        assert RETRY in client.search("retry")
        assert client.ask("prompts/get", name="fix")["messages"]
    while f"v{number} " not in client.read(RETRY):
        assert set(client.hear(2)) == {RESOURCES, f"{UPDATED} {RETRY}"}


@both_eras
def test_client_that_asks_nothing_is_told_of_an_index_that_somebody_else_has_replaced(
    serve: Serve, root: Path, tmp_path: Path, revision: str
) -> None:
    index = build(root, tmp_path / "served.db")
    client = serve("--db", str(index), revision=revision)
    client.listen(RETRY)
    put(root, "skills/retry.md", FILES["skills/retry.md"].replace("Wait.", "Wait again."))
    build(root, tmp_path / "other.db").replace(index)
    assert client.hear(2) == [RESOURCES, f"{UPDATED} {RETRY}"]


def test_first_start_answers_before_there_is_an_index_and_announces_what_it_brings(serve: Serve) -> None:
    client = serve()
    asked = client.make("tools/list")
    client.send(INITIALIZE, INITIALIZED, asked)
    assert client.reply(INITIALIZE)["result"]["instructions"].startswith(
        "A library of instructions, being indexed now."
    )
    assert [tool["name"] for tool in client.reply(asked)["result"]["tools"]] == ["search", "load"]
    assert RETRY in client.search("retrying a flaky call")
    assert client.hear(2) == [PROMPTS, RESOURCES]
    assert told_in_order(client, "tools/list", "built", "tools/call")


def told_in_order(client: Listener, *events: str) -> bool:
    """Tell whether the first lines of the log about *events*, methods or messages, stand in this order, once told."""
    lines = [client.logged("request", method=name) if "/" in name else client.logged(name) for name in events]
    places = [client.log.index(line) for line in lines]
    return places == sorted(places)


def test_modern_client_that_listens_before_there_is_an_index_hears_of_what_it_brings(serve: Serve) -> None:
    client = serve(revision=MODERN)
    asked = client.make("tools/list")
    client.send(asked)
    client.listen()
    assert len(client.reply(asked)["result"]["tools"]) == 2
    assert client.hear(2) == [PROMPTS, RESOURCES]
    assert told_in_order(client, "tools/list", "built")


@both_eras
def test_second_start_answers_from_the_last_index_and_announces_what_has_changed_since(
    serve: Serve, root: Path, revision: str
) -> None:
    first = serve()
    first.logged("built")
    assert first.end() < SOON
    put(root, "skills/retry.md", FILES["skills/retry.md"].replace("Wait.", "Wait longer."))
    client = serve(revision=revision)
    client.listen(RETRY)
    assert "Wait." in client.read(RETRY)
    assert RETRY in client.search("retrying a flaky call")
    assert client.hear(2) == [RESOURCES, f"{UPDATED} {RETRY}"]
    assert "Wait longer." in client.read(RETRY)
    assert told_in_order(client, "tools/call", "built")


def test_second_start_over_a_library_that_is_the_same_announces_nothing(serve: Serve) -> None:
    serve().logged("built")
    client = serve()
    client.listen(RETRY)
    client.logged("built")
    assert client.unheard() == []


@needs_proc
@pytest.mark.parametrize("by", ["option", "production"])
def test_library_that_is_not_watched_is_built_once(serve: Serve, root: Path, cache: Path, by: str) -> None:
    if by == "option":
        client = serve("--root", str(root), "--no-watch")
    else:
        client = serve("--log-format", "json", ORCHESTR8_ENV="production", ORCHESTR8_ROOTS=str(root))
    client.listen(RETRY)
    assert client.hear(2) == [PROMPTS, RESOURCES]
    assert processes(cache) == []
    put(root, "skills/retry.md", "# Another\n")
    assert "Wait." in client.read(RETRY)
    assert client.end() < SOON


def test_roots_of_the_environment_are_all_followed(serve: Serve, root: Path, make_library: MakeLibrary) -> None:
    other = make_library({"guides/soil.md": "# Soil\n\nDig.\n"})
    client = serve("--log-format", "json", ORCHESTR8_ROOTS=os.pathsep.join([str(root), str(other)]))
    client.logged("built")
    client.listen("orchestr8://guides/soil")
    put(other, "guides/soil.md", "# Soil\n\nDig deeper.\n")
    assert client.hear(2) == [RESOURCES, f"{UPDATED} orchestr8://guides/soil"]
    assert "Dig deeper." in client.read("orchestr8://guides/soil")
    assert "Wait." in client.read(RETRY)


def test_two_servers_over_one_library_both_follow_and_one_goes_on_without_the_other(
    listening: Listening, root: Path, cache: Path
) -> None:
    one, other = listening(RETRY), listening(RETRY)
    put(root, "skills/retry.md", FILES["skills/retry.md"].replace("Wait.", "Wait twice."))
    for client in (one, other):
        assert client.hear(2) == [RESOURCES, f"{UPDATED} {RETRY}"]
        assert "Wait twice." in client.read(RETRY)
    assert one.end(signal.SIGTERM) < SOON
    put(root, "skills/retry.md", FILES["skills/retry.md"].replace("Wait.", "Wait thrice."))
    assert other.hear(2) == [RESOURCES, f"{UPDATED} {RETRY}"]
    assert "Wait thrice." in other.read(RETRY)
    assert other.unheard() == []
    assert len(list((cache / "orchestr8-sqlite").iterdir())) == 1


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGTERM, None, signal.SIGKILL], ids=["SIGTERM", "end of input", "SIGKILL"])
@pytest.mark.parametrize("when", ["idle", "building"])
def test_server_leaves_no_building_process_however_it_ends(
    serve: Serve, cache: Path, number: int | None, when: str
) -> None:
    client = serve()
    client.listen()
    if when == "idle":
        client.logged("built")
    while not processes(cache):
        time.sleep(0.01)
    assert client.end(number) < SOON
    if number == signal.SIGKILL:
        until_gone(cache)
    assert processes(cache) == []
    assert list(cache.rglob(".*.tmp")) == []


ABSENT = (
    "There is no library to answer from: the index file is missing, or the folder it is built from is missing or "
    "has no Markdown files; the server's log says which, and so does `orchestr8-sqlite doctor`."
)


def test_root_that_never_was_there_is_told_at_the_start_and_to_the_client_and_waited_for(
    serve: Serve, tmp_path: Path
) -> None:
    root = tmp_path / "none"
    client = serve("--root", str(root))
    client.send(INITIALIZE, INITIALIZED)
    assert client.reply(INITIALIZE)["result"]["instructions"] == ABSENT
    assert client.log[0]["message"] == (
        f"{root} is not a folder: name the library's folders with --root or ORCHESTR8_ROOTS. The server waits for it."
    )
    search = client.ask("tools/call", name="search", arguments={"query": "retry"})
    assert (search["isError"], search["content"][0]["text"]) == (True, ABSENT)
    write_files(root, FILES)
    client.logged("built")
    assert "Wait." in client.read(RETRY)


def test_root_that_never_was_there_is_a_failed_start_over_http(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    serve = [sys.executable, "-m", "orchestr8_sqlite", "serve", "--http", "127.0.0.1:0"]
    done = subprocess.run([*serve, "--root", str(tmp_path / "none")], capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert re.fullmatch(r".*none is not a folder: name the library's folders with --root or .*\n", done.stderr.decode())


def test_root_without_markdown_is_told_in_the_log_and_to_the_client(serve: Serve, tmp_path: Path) -> None:
    root = tmp_path / "empty"
    root.mkdir()
    client = serve("--root", str(root))
    client.listen()
    search = client.ask("tools/call", name="search", arguments={"query": "retry"})
    assert (search["isError"], search["content"][0]["text"]) == (True, ABSENT)
    assert client.logged("not built")["reason"] == f"{root} holds no Markdown files; give the folder of a library."


def test_root_that_is_away_at_the_start_is_served_from_its_last_index_and_waited_for(serve: Serve, root: Path) -> None:
    serve().logged("built")
    away = root.with_name("away")
    root.rename(away)
    client = serve()
    client.listen(RETRY)
    assert "Wait." in client.read(RETRY)
    assert "is not a folder" in client.logged("not built")["reason"]
    put(away, "skills/retry.md", FILES["skills/retry.md"].replace("Wait.", "Wait here."))
    away.rename(root)
    assert client.hear(2) == [RESOURCES, f"{UPDATED} {RETRY}"]
    assert "Wait here." in client.read(RETRY)
