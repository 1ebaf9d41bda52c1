"""What is imported, opened and asked before an answer: counted, so that no careless import goes unnoticed.

Times are measured by bench/startup.py. The counts below leave room for one or two modules more; whoever needs a larger
budget for a good reason raises it here, and sees in the failure through whom the modules came in.
"""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import servers
from imports import Imports, floor_of, imports_of, read_imports
from support import Invoke, build, markdown, write_files

from orchestr8_sqlite.cli.app import COMMANDS
from orchestr8_sqlite.index import catalog
from orchestr8_sqlite.index.connections import Identity, connect
from orchestr8_sqlite.server.identity import read_instructions
from orchestr8_sqlite.server.stdio import start
from orchestr8_sqlite.settings import ServerSettings, bundled_index
from orchestr8_sqlite.shipping.publish import Order, publish
from orchestr8_sqlite.shipping.stores import Folder

RUN = "from orchestr8_sqlite.cli import main; main()"
FLOOR = "import sqlite3, typer"
SDK_FLOOR = "import anyio; from mcp.server.lowlevel import Server; from mcp.server.stdio import stdio_server"

HEAVY = {
    *("mcp", "mcp_types", "pydantic", "anyio", "httpx", "starlette", "uvicorn"),
    *("rich", "yaml", "frontmatter", "sqlite_utils", "watchfiles", "ir_measures", "numpy"),
    *("Stemmer", "cachetools", "dotenv", "platformdirs", "tomlkit", "tomllib"),
    *("asyncio", "concurrent.futures", "multiprocessing", "http", "ssl", "email", "xml", "unittest"),
    *("dataclasses", "importlib.metadata", "importlib.resources", "logging", "mimetypes", "tempfile"),
}
"""Packages and modules of the standard library that take two thousandths of a second or more to import."""


class Budget(NamedTuple):
    """What a command may import: so many modules of this package and of others, and which of the heavy ones.

    The others are counted on top of its floor; None where they depend on what happens to be installed.
    """

    own: int
    others: int | None
    heavy: frozenset[str] = frozenset()


SEARCHING = frozenset({"Stemmer", "cachetools", "logging"})
PARSING = frozenset({"Stemmer", "dataclasses", "frontmatter", "yaml"})
WRITING = frozenset({"concurrent.futures", "importlib.resources", "logging", "numpy", "sqlite_utils", "tempfile"})
"""sqlite_utils imports NumPy where there is one; this package has no use for it."""

BUILDING = PARSING | WRITING
EDITING = frozenset({"dataclasses"})
DEFINING = SEARCHING | {
    *("mcp_types", "pydantic", "tomllib"),
    *("dataclasses", "email", "importlib.metadata", "importlib.resources", "tempfile"),
}
"""The definitions of tools are types of the SDK."""
SHIPPING = frozenset({"tempfile"})

BUDGETS = {
    "search retry --db {index}": Budget(41, 21, SEARCHING),
    "search retry --json --db {index}": Budget(41, 21, SEARCHING),
    "search retry --mode full --db {index}": Budget(43, 21, SEARCHING),
    "explain retry --db {index}": Budget(41, 21, SEARCHING),
    "suggest --db={index}": Budget(45, 24, SEARCHING),
    "load orchestr8://skills/retry --db {index}": Budget(49, 24, SEARCHING | {"dataclasses", "mimetypes"}),
    "sql SELECT/**/1 --db {index}": Budget(17, 7),
    "sql SELECT/**/1 --csv --db {index}": Budget(17, 9),
    "list --db {index}": Budget(20, 8),
    "init {folder}/begun": Budget(10, 8),
    "stats --db {index}": Budget(16, 7),
    "diff {index} {index}": Budget(17, 7),
    "budget --db {index}": Budget(50, None, DEFINING),
    "usage {log} --db {index}": Budget(21, 11),
    "inspect --db {index} -o {folder}/report.html": Budget(76, 44, SEARCHING | {"dataclasses", "tomllib"}),
    "path --db {index}": Budget(16, 7),
    "export --db {index} -o {folder}/export": Budget(17, 7),
    "lint {library}": Budget(91, None, BUILDING),
    "build {library} -o {folder}/built.db": Budget(91, None, BUILDING),
    "eval --self --db {index}": Budget(44, None, SEARCHING | {"dataclasses", "ir_measures", "numpy", "tempfile"}),
    "publish {index} --to {shared} --no-gate": Budget(22, 18, SHIPPING),
    "pull {shared} -o {folder}/pulled.db": Budget(24, 23, SHIPPING | {"tomllib"}),
    "rollback --help": Budget(11, 8),
    "keygen {folder}/team": Budget(19, None, EDITING),
    "install --list": Budget(17, 8, EDITING),
    "install cursor --db {index}": Budget(17, 8, EDITING),
    "install codex --db {index}": Budget(17, 23, EDITING | {"tomlkit"}),
    "sync --help": Budget(10, 8),
    "serve --help": Budget(10, 8),
    "--help": Budget(31, 9),
    "--version": Budget(31, 8),
}
BUDGET_OF_DOCTOR = Budget(34, 45, EDITING | {"tempfile", "tomllib", "yaml"})
BUDGET_OF_THE_SERVER = Budget(75, 18, SEARCHING)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a library, its index, and a folder to write into."""
    folder = tmp_path_factory.mktemp("startup")
    fragment = markdown("tags: [retry]\nuseWhen:\n  - Retrying a flaky call")
    library = write_files(folder / "library", {"skills/retry.md": fragment})
    index, shared = build(library, folder / "index.db"), folder / "shared"
    shared.mkdir()
    publish(Order(index, "stable"), Folder(shared), Folder(shared))
    log = folder / "server.log"
    log.touch()
    return {"folder": folder, "library": library, "index": index, "shared": shared, "log": log}


def check(imports: Imports, budget: Budget) -> None:
    problems = overdrawn(imports, budget)
    assert not problems, "\n".join(problems)


def overdrawn(imports: Imports, budget: Budget) -> list[str]:
    """Return what *imports* has that *budget* does not allow, each with the way that it came in."""
    heavy = [imports.way(name) for name in imports.others if name in HEAVY - budget.heavy]
    if len(imports.own) > budget.own:
        heavy.append(f"{len(imports.own)} own modules instead of {budget.own}: {' '.join(imports.own)}")
    if budget.others is not None and len(imports.others) > budget.others:
        ways = "\n".join(map(imports.way, imports.others))
        heavy.append(f"{len(imports.others)} other modules instead of {budget.others}:\n{ways}")
    return heavy


@pytest.mark.parametrize("line", BUDGETS)
def test_command_imports_no_more_than_its_budget(places: dict[str, Path], line: str) -> None:
    arguments = [word.format(**places) for word in line.split()]
    check(imports_of(RUN, arguments, floor_of(FLOOR)), BUDGETS[line])


@pytest.mark.slow
@pytest.mark.usefixtures("home")  # clients of this machine would have their files read, too
def test_doctor_imports_no_more_than_its_budget(places: dict[str, Path]) -> None:
    arguments = ["doctor", "--db", str(places["index"])]
    check(imports_of(RUN, arguments, floor_of(FLOOR)), BUDGET_OF_DOCTOR)


def test_every_command_has_a_budget() -> None:
    assert {line.split()[0] for line in BUDGETS} >= {*COMMANDS} - {"doctor"}


def test_only_the_command_that_is_called_is_imported(places: dict[str, Path]) -> None:
    imports = imports_of(RUN, ["path", "--db", str(places["index"])], floor_of(FLOOR))
    commands = {name for name in imports.own if name.startswith("orchestr8_sqlite.cli.")}
    assert commands == {f"orchestr8_sqlite.cli.{name}" for name in ("app", "database", "options", "terminal")}


def test_careless_import_is_named_with_the_way_that_it_came_in() -> None:
    imports = imports_of("import mailbox", floor=floor_of("pass"))
    (problem,) = overdrawn(imports, Budget(0, None, frozenset(HEAVY) - {"email"}))
    assert problem == "email <- mailbox <- a function, when it was called"


@pytest.mark.parametrize(
    "options",
    [
        (),
        pytest.param(("--db", "none.db"), marks=pytest.mark.slow),
        pytest.param(("--root", "library", "--root", ".", "--db", "none.db"), marks=pytest.mark.slow),
    ],
)
def test_server_as_clients_start_it_waits_for_no_typer(places: dict[str, Path], options: Sequence[str]) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "orchestr8_sqlite", "serve", *options]
    done = subprocess.run(command, input=b"", capture_output=True, check=True, cwd=places["folder"])
    imports = read_imports(done.stderr.decode())
    assert "orchestr8_sqlite.server.stdio.run" in imports.own
    assert "typer" not in imports.all


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--db", "a.db"],
        ["--root", "l"],
        ["--root", "l", "--db", "a.db", "--root", "."],
        ["--root", "l", "--deny", "high"],
        ["--from", "https://host/x"],
        ["--from", "l", "--db", "a.db"],
    ],
)
def test_server_is_set_up_the_same_with_and_without_typer(
    places: dict[str, Path], invoke: Invoke, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.chdir(places["folder"])
    (places["folder"] / "l").mkdir(exist_ok=True)
    served: list[ServerSettings] = []

    def serve(settings: ServerSettings) -> None:
        served.append(settings)
        sys.exit(0)

    monkeypatch.setattr(start, "serve_stdio", serve)
    invoke("serve", *options)
    invoke("serve", *options, "--log-format", "text")  # typer reads this one
    assert served[0] == served[1]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--db"], "requires an argument"),
        (["--root", "--db", "a.db"], "unexpected extra argument"),
        (["--data", "a.db"], "No such option: --data"),
    ],
)
def test_wrong_option_of_the_server_is_explained(invoke: Invoke, options: list[str], problem: str) -> None:
    code, _, err = invoke("serve", *options)
    assert code == 2
    assert problem in err


@pytest.mark.slow
def test_server_adds_little_to_what_its_sdk_imports(places: dict[str, Path]) -> None:
    command = [*servers.command(places["index"])]
    command[1:1] = ["-X", "importtime"]
    conversation = servers.lines(servers.INITIALIZE, servers.INITIALIZED, servers.search(1, "retry"))
    done = subprocess.run(command, input=conversation, capture_output=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1])["id"] == 1
    imports = read_imports(done.stderr.decode(), floor_of(SDK_FLOOR))
    check(imports, BUDGET_OF_THE_SERVER)
    assert "typer" not in imports.others


WATCHED = """
import sys
seen = []
def watch(event, arguments):
    if event == "sqlite3.connect":
        seen.append(str(arguments[0]))
    elif event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        seen.append(f"written: {arguments[0]}")
    elif event in ("shutil.copyfile", "tempfile.mkstemp", "tempfile.mkdtemp", "os.mkdir"):
        seen.append(event)
sys.addaudithook(watch)
from orchestr8_sqlite.cli import main
try:
    main()
finally:
    sys.stderr.write("\\n".join(seen))
"""


@pytest.mark.parametrize("arguments", [["search", "retry"], ["load", "orchestr8://skills"], ["path"]])
def test_bundled_index_is_opened_once_and_in_its_place(
    arguments: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ORCHESTR8_DB", raising=False)
    command = [sys.executable, "-B", "-c", WATCHED, *arguments]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    assert done.stderr.splitlines() == [f"{bundled_index().as_uri()}?mode=ro&immutable=1"]


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that takes down what every index opened from now on is asked, but for settings."""
    asked: list[str] = []

    def watched(path: Path, *look: Callable[[Path, Identity], object] | None) -> tuple[sqlite3.Connection, Identity]:
        connection, identity = connect(path, *look)
        connection.set_trace_callback(lambda sql: None if sql.startswith("PRAGMA") else asked.append(sql))
        return connection, identity

    monkeypatch.setattr(catalog, "connect", watched)
    return asked


def test_opening_an_index_reads_its_facts_and_nothing_else(places: dict[str, Path], statements: list[str]) -> None:
    catalog.Catalog.open(places["index"]).close()
    assert statements == ["SELECT key, value FROM meta"]


def test_instructions_of_the_server_cost_one_more_statement(places: dict[str, Path], statements: list[str]) -> None:
    assert read_instructions(places["index"]).startswith("A library of 1 skill.")
    assert statements == ["SELECT key, value FROM meta", catalog.CATEGORY_COUNTS]
