"""Fixtures that many test modules use."""

import functools
import itertools
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from beginnings import begin_empty, copied_beginnings
from checkouts import Git, run_git
from environments import make_environment, pip
from hypothesis import is_hypothesis_test, settings
from strategies import open_in_memory
from support import (
    SHARED,
    CorpusIndex,
    Invoke,
    MakeCatalog,
    MakeIndex,
    MakeLibrary,
    build,
    write_files,
    write_fragments,
)

from orchestr8_sqlite.builder.writer import write_synonyms
from orchestr8_sqlite.cli import main
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.index.checksums import add_checksum
from orchestr8_sqlite.model.records import Fragment
from orchestr8_sqlite.text.wordlists import Synonym

if TYPE_CHECKING:
    from replacing import Index

    from orchestr8_sqlite.server.app import LibraryServer


SHARE, FEWEST = 5, 6
"""Of the examples of a property test one in so many is tried, but so many at least."""

THOROUGH = "thorough"
"""The profile under which all are tried: pytest -m hypothesis --hypothesis-profile thorough."""

settings.register_profile("quick", deadline=None)  # other processes may hold up any example
settings.register_profile(THOROUGH, deadline=None)
settings.load_profile("quick")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the property tests that are not slow try a share of their examples, unless all are asked for."""
    if settings.get_current_profile_name() == THOROUGH:
        return
    quick = [item for item in items if isinstance(item, pytest.Function) and not item.get_closest_marker("slow")]
    for test in {item.function for item in quick if is_hypothesis_test(item.function)}:
        full: settings = test._hypothesis_internal_use_settings
        test._hypothesis_internal_use_settings = settings(full, max_examples=fewer(full.max_examples))


def fewer(examples: int) -> int:
    """Return how many of so many *examples* are tried where not all are."""
    return min(examples, max(FEWEST, examples // SHARE))


@pytest.fixture(scope="session", autouse=True)
def beginnings() -> Iterator[None]:
    """Let indexes that are built in this process begin with copies; those of other processes begin as ever."""
    with copied_beginnings():
        yield


@pytest.fixture(scope="session")
def corpus_index(tmp_path_factory: pytest.TempPathFactory) -> CorpusIndex:
    """Return a function that returns the index of a shared corpus, built once for all tests of this process to read."""
    folder = tmp_path_factory.mktemp("corpora")
    return functools.cache(lambda name: build(SHARED / "corpora" / name, folder / f"{name}.db"))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return an empty folder to publish to and pull from."""
    folder = tmp_path / "store"
    folder.mkdir()
    return folder


@pytest.fixture
def make_library(tmp_path: Path) -> MakeLibrary:
    """Return a function that writes a library below the test's folder."""
    numbers = itertools.count(1)

    def make(files: Mapping[str, str | bytes]) -> Path:
        return write_files(tmp_path / f"library{next(numbers)}", files)

    return make


@pytest.fixture
def make_catalog(tmp_path: Path) -> Iterator[MakeCatalog]:
    """Return a function that writes fragment records to an index and opens it."""
    opened: list[Catalog] = []

    def make(*fragments: Fragment, least_coverage: float = 0.0) -> Catalog:
        path = tmp_path / f"made{len(opened)}.db"
        connection = sqlite3.connect(path, isolation_level=None)
        connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        begin_empty(connection)
        write_fragments(connection, fragments, {"least_coverage": str(least_coverage)})
        connection.close()
        add_checksum(path)
        opened.append(Catalog.open(path))
        return opened[-1]

    yield make
    for catalog in opened:
        catalog.close()


@pytest.fixture
def make_index() -> Iterator[MakeIndex]:
    """Return a function that opens an index of fragment records and synonyms in memory."""
    opened: list[Catalog] = []

    def make(*fragments: Fragment, synonyms: tuple[Synonym, ...] = ()) -> Catalog:
        opened.append(open_in_memory(fragments))
        write_synonyms(opened[-1].db, synonyms)
        return opened[-1]

    yield make
    for catalog in opened:
        catalog.close()


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    pip(Path(sys.executable), "wheel", ".", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder))
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the programs of an environment that holds the wheel and the locked dependencies."""
    programs = make_environment(tmp_path_factory.mktemp("environment"))
    pip(programs / "python", "install", "--no-compile", "--no-deps", "--require-hashes", "-r", "requirements.txt")
    pip(programs / "python", "install", "--no-compile", "--no-deps", str(wheel))
    return programs


@pytest.fixture
def anyio_backend() -> str:
    """Return the event loop that tests marked `anyio` run on, the one the server runs on."""
    return "asyncio"


@pytest.fixture(scope="session")
def variants(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return indexes that may replace each other, by what was done to the library of the first one, `base`."""
    from replacing import make_variants  # imports the SDK

    return make_variants(tmp_path_factory.mktemp("variants"))


@pytest.fixture
def index(variants: dict[str, Path], tmp_path: Path) -> "Index":
    """Return an index that a test may replace by another of the *variants*."""
    from replacing import Index

    return Index(tmp_path / "index.db", variants)


@pytest.fixture
def server(index: "Index") -> Iterator["LibraryServer"]:
    """Return a server over *index*."""
    from serving import serving

    with serving(index.path) as (_, server):
        yield server


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Invoke:
    """Return a function that runs the command line in this process: (exit code, stdout, stderr)."""

    def run_command(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["orchestr8-sqlite", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        output = capsys.readouterr()
        return int(ended.value.code or 0), output.out, output.err

    return run_command


@pytest.fixture
def git() -> Git:
    """Return what runs git in a folder, or skip the test where there is none."""
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    return run_git


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home folder of a user on Linux who works in the folder `project` below it.

    Programs that this user has are those of the folder `bin` below it, which is not there yet.
    """
    for variable in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "ORCHESTR8_DB"):
        monkeypatch.delenv(variable, raising=False)
    folder = tmp_path / "home"
    (folder / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("PATH", str(folder / "bin"))
    monkeypatch.chdir(folder / "project")
    return folder
