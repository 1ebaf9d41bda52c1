"""Damaged and foreign files in the place of an index: every answer is the right one or a sentence, and a build mends.

A file up to 16 MiB is compared with its checksum before anything of it is said. Of a larger one the commands say what
SQLite can read; of such files it is only required that nothing crashes, hangs or ends in a traceback.
"""

import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from typing import Any

import servers

from orchestr8_sqlite.builder.build import build_index
from orchestr8_sqlite.builder.job import How
from orchestr8_sqlite.errors import BuildError
from torture import Case, Lost, Wrong
from torture.mutants import DAMAGE, Mutant, altered, changed, damaged, damaging, foreign, in_text, rewritten
from torture.questions import PATIENCE, RIGHT, SENTENCE, Questions, ask, outcome_of

RESOURCES = Path(__file__).parents[2] / "resources"
FEW = ("skills", "prompts")
"""Parts of the library that make the smaller index."""

TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'fragment_text_%' ORDER BY name"
UNREADABLE = "The library's index cannot be read; see the server's log."


class Sound:
    """A library, its index, and what is asked of that; kept until the process ends."""

    def __init__(self, parts: Sequence[str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="torture-sound-")
        folder = Path(self._folder.name)
        self.library, self.index = folder / "library", folder / "index.db"
        for part in parts:
            shutil.copytree(RESOURCES / part, self.library / part)
        build_index([self.library], self.index)
        self.questions = Questions(self.index)


@cache
def small() -> Sound:
    return Sound(FEW)


@cache
def whole() -> Sound:
    return Sound([part.name for part in RESOURCES.iterdir() if part.is_dir()])


def cases(seed: int, *, bounded: bool) -> Iterator[Case]:
    """Yield mutants of two indexes, then what is foreign, builds over these, and servers that meet them."""
    of_small, of_whole, as_large = (5, 1, 2) if bounded else (70, 20, 12)
    whole()  # is inherited by the processes that run the cases, as the small one is
    with closing(sqlite3.connect(small().index)) as db:
        tables = [name for (name,) in db.execute(TABLES)]
    for mutant in damaged(seed, of_small):
        yield Case(mutant.fault, f"small {mutant.name}", partial(judge, small, mutant))
    for mutant in damaged(seed + 1, of_whole):
        yield Case(mutant.fault, f"whole {mutant.name}", partial(judge, whole, mutant))
    for mutant in damaged(seed + 2, as_large):
        yield Case(f"{mutant.fault}, too large", mutant.name, partial(judge_as_large, mutant))
    others = [*foreign(), *altered(tables), *rewritten()]
    for mutant in others[:: 4 if bounded else 1]:
        yield Case(mutant.fault, mutant.name, partial(judge, small, mutant))
    for mutant in [*damaged(seed + 3, 1), *others][:: 24 if bounded else 1]:
        yield Case("a build over it", f"{mutant.fault} {mutant.name}", partial(build_over, mutant))
    for mutant in [*damaged(seed + 4, 1), *others][:: 40 if bounded else 4]:
        yield Case("commands as processes", f"{mutant.fault} {mutant.name}", partial(run_commands, mutant))
    yield from server_cases(seed, bounded=bounded)


def judge(sound: Callable[[], Sound], mutant: Mutant, folder: Path) -> None:
    """Ask all of a mutant; where doctor finds nothing, all answers must be right, and else none is wrong."""
    path = folder / "index.db"
    mutant.make(sound().index, path)
    questions = sound().questions
    answers = ask(questions, path)
    questions.judge(answers)
    if answers["doctor"][0] == RIGHT:
        raise Wrong("doctor finds nothing wrong")


def judge_as_large(mutant: Mutant, folder: Path) -> None:
    path = folder / "index.db"
    mutant.make(small().index, path)
    answers = ask(small().questions, path, as_large=True)
    for name, (how, text) in answers.items():
        if how not in (RIGHT, SENTENCE):
            raise Lost(f"{name}: {text}")
    if answers["doctor"][0] == RIGHT:
        raise Wrong("doctor finds nothing wrong")


def build_over(mutant: Mutant, folder: Path) -> None:
    """Build where a mutant is: it is mended, or it is no index and stays as it is."""
    path = folder / "index.db"
    mutant.make(small().index, path)
    before = content_of(path)
    try:
        report = build_index([small().library], path)
    except BuildError:
        if content_of(path) != before:
            raise Lost("the build was refused, and the file is another one") from None
        if is_index(before) and not path.with_name(f"{path.name}-wal").exists():
            raise Lost("the index is not mended") from None
        return
    if before and not is_index(before):
        raise Lost("what was no index is gone")
    if report.how is not How.WHOLE:
        raise Lost(f"the index is {report.how.value}")
    if small().questions.judge(ask(small().questions, path)) != RIGHT:
        raise Lost("the index that was built has no answers")


def content_of(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def is_index(content: bytes | None) -> bool:
    """Tell whether a file says of itself that it is an index of ours, by which a build goes."""
    return content is not None and content[:16] == b"SQLite format 3\0" and content[68:72] == b"o8sq"


def run_commands(mutant: Mutant, folder: Path) -> None:
    path = folder / "index.db"
    mutant.make(small().index, path)
    questions = small().questions
    answers = {}
    for command in questions.commands():
        whole_command = [sys.executable, "-m", "orchestr8_sqlite", *command, "--db", str(path)]
        try:
            done = subprocess.run(whole_command, capture_output=True, timeout=PATIENCE, check=False)
        except subprocess.TimeoutExpired:
            raise Lost(f"{command[0]} hangs") from None
        how, text = outcome_of(done.returncode, done.stdout.decode(), done.stderr.decode())
        answers[f"$ {command[0]}"] = how, text.replace(str(path), "INDEX")
    if questions.judge(answers) == RIGHT and content_of(path) != small().index.read_bytes():
        raise Wrong("no command says a word")


def server_cases(seed: int, *, bounded: bool) -> Iterator[Case]:
    """Yield servers that begin with a mutant, or whose index becomes one under them, in place or as another file."""
    text = Mutant("text changed", "", damaging(changed(1, in_text), f"{seed} server"))
    some = [*(Mutant(fault, "", damaging(change, f"{seed} server")) for fault, change in DAMAGE.items()), *foreign()]
    for mutant in [text, *some[:: 20 if bounded else 2]]:
        name = f"{mutant.fault} {mutant.name}".strip()
        yield Case("a server begins with it", name, partial(serve_from, mutant))
        if mutant.name not in ("a folder", "nothing"):
            yield Case("a server meets it in place", name, partial(serve_through, mutant, True))
            yield Case("a server meets it as another file", name, partial(serve_through, mutant, False))


def serve_from(mutant: Mutant, folder: Path) -> None:
    path = folder / "index.db"
    mutant.make(small().index, path)
    server = servers.start(path)
    try:
        servers.greet(server)
        expect(server, broken=True)
        if path.is_dir():
            path.rmdir()
        become(path, small().index)
        expect(server, broken=False)
    finally:
        servers.release(server)


def serve_through(mutant: Mutant, in_place: bool, folder: Path) -> None:
    path, other = folder / "index.db", folder / "other.db"
    shutil.copyfile(small().index, path)
    mutant.make(small().index, other)
    server = servers.start(path)
    try:
        servers.greet(server)
        expect(server, broken=False)
        if in_place:
            path.write_bytes(other.read_bytes())
        else:
            become(path, other)
        expect(server, broken=True)
        become(path, small().index)
        expect(server, broken=False)
    finally:
        servers.release(server)


def become(path: Path, other: Path) -> None:
    """Put a copy of *other* in place, as a build does."""
    shutil.copyfile(other, path.with_name("next"))
    path.with_name("next").replace(path)


CALLS = [("search", {"query": "retry with backoff"}), ("load", {"uris": ["orchestr8://registry"]})]
REQUESTS = ["resources/list", "prompts/list"]


def expect(server: "subprocess.Popen[bytes]", *, broken: bool) -> None:
    """Ask for everything once, and see that all of it is answered, or that nothing is and the answers say why."""
    for number, (name, arguments) in enumerate(CALLS):
        servers.send(server, servers.request(number, "tools/call", name=name, arguments=arguments))
        result = reply(server, number)["result"]
        said = result["content"][0]["text"]
        if result["isError"] is not broken or (said == UNREADABLE) is not broken:
            raise (Lost if result["isError"] else Wrong)(f"{name} says: {said[:200]}")
    for number, method in enumerate(REQUESTS, start=10):
        servers.send(server, servers.request(number, method))
        answer = reply(server, number)
        if ("error" in answer) is not broken or (broken and answer["error"]["message"] != UNREADABLE):
            raise Lost(f"{method}: {str(answer)[:200]}")
    servers.send(server, servers.request(20, "tools/list"))
    if not reply(server, 20)["result"]["tools"]:
        raise Lost("no tools are offered")


def reply(server: "subprocess.Popen[bytes]", number: int) -> dict[str, Any]:
    """Return the answer to a request; what the server tells of its own accord is passed over."""
    while (message := servers.receive(server)).get("id") != number:
        pass
    return message
