"""A server and the commands that read write nothing, start nothing, connect to nothing, and need nowhere to write."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers import INITIALIZE, INITIALIZED, META, lines, request
from support import build, markdown, write_files

ROOT = Path(__file__).parents[1]
URI = "orchestr8://skills/retry"
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
"""Source: linux/prctl.h, linux/capability.h."""

FILES = {
    "skills/retry.md": markdown("tags: [retry]\nuseWhen:\n  - Retrying a flaky call\nrelatedResources: [skills/pdf]"),
    "skills/pdf/SKILL.md": "---\nname: pdf\ndescription: Fills PDF forms, with retry.\n---\n\n# PDF\n\nFill.\n",
    "skills/pdf/scripts/fill.py": "print('fill')\n",
    "queries.jsonl": '{"id": "q1", "text": "retrying a flaky call", "documents": ["skills/retry"]}\n',
    "qrels.tsv": "q1\tretry\t1\n",
    "prompts/fix.md": "---\nname: fix\narguments:\n  - name: symptom\n---\nFix ${symptom}.\n",
}
FIX = {"type": "ref/prompt", "name": "fix"}
MODES = ("index", "catalog", "full")
SESSION: list[tuple[str, dict[str, Any]]] = [
    ("tools/list", {}),
    *(("tools/call", {"name": "search", "arguments": {"query": "retry", "mode": mode}}) for mode in MODES),
    ("tools/call", {"name": "search", "arguments": {"query": "retry zzyzx", "explain": True, "ranker": "classic"}}),
    ("tools/call", {"name": "load", "arguments": {"uris": [URI], "related": True}}),
    ("tools/call", {"name": "search_skill", "arguments": {"query": "pdf"}}),
    ("tools/call", {"name": "load_skill", "arguments": {"name": "pdf", "files": ["*"]}}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": URI}),
    ("resources/read", {"uri": "orchestr8://skills/nowhere"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "fix", "arguments": {"symptom": "it"}}),
    ("completion/complete", {"ref": FIX, "argument": {"name": "symptom", "value": "i"}}),
    ("skills/list", {}),
]  # fmt: skip
FAILING = 1
"""Of these requests so many are answered with an error: the URI that leads nowhere."""

ERAS = ["handshake", pytest.param("modern", marks=pytest.mark.slow)]
"""How a session begins."""

WATCHED = """
import os, sys

GOES_ON = False

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
FORBIDDEN = (
    "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.startfile", "pty.",
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.chown", "os.truncate",
    "os.utime", "os.setxattr", "os.removexattr", "shutil.", "tempfile.", "urllib.", "http.", "ftplib.", "smtplib.",
    "socket.bind", "socket.connect", "socket.listen", "socket.send", "socket.get", "sqlite3.enable_load_extension",
    "sqlite3.load_extension", "webbrowser.",
)

def watch(event, arguments):
    bad = event.startswith(FORBIDDEN)
    if event == "open" and not isinstance(arguments[0], int):
        bad = bool(arguments[2] & WRITING) and arguments[0] != os.devnull
    if event == "socket.__new__":
        bad = arguments[1] not in (-1, 1)  # what a loop wakes itself with, or what it was given
    if event == "sqlite3.connect":
        bad = "mode=ro" not in str(arguments[0]) and arguments[0] != ":memory:"
    if bad:
        os.write(2, f"forbidden: {event} {arguments}\\n".encode())
        if not GOES_ON:
            os._exit(99)

sys.addaudithook(watch)
from orchestr8_sqlite.cli import main
main()
"""


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Return a folder that anybody may read, with an index."""
    folder = Path(tempfile.mkdtemp(prefix="read-only-"))
    build(write_files(folder / "library", FILES), folder / "index.db")
    (folder / "index.db").chmod(0o444)
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def session(era: str) -> bytes:
    """Return what a client sends that asks for everything there is."""
    meta = {"_meta": META} if era == "modern" else {}
    asked = [request(number, method, **params, **meta) for number, (method, params) in enumerate(SESSION, start=1)]
    return lines(*([] if meta else [INITIALIZE, INITIALIZED]), *asked)


def check_answers(output: bytes) -> None:
    """Check that every request of the session has its answer."""
    answers = [json.loads(line) for line in output.splitlines()]
    by_id = {answer["id"]: answer for answer in answers if answer.get("id")}
    assert by_id.keys() == set(range(1, len(SESSION) + 1))
    assert len([answer for answer in by_id.values() if "error" in answer]) == FAILING
    assert not [answer for answer in by_id.values() if answer.get("result", {}).get("isError")]


def contents(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the files below *folder* with size and time of change."""
    found = (path for path in folder.rglob("*"))
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}


@pytest.mark.parametrize("era", ERAS)
def test_a_session_opens_nothing_for_writing_starts_nothing_and_opens_no_socket(place: Path, era: str) -> None:
    """By the interpreter's own account of what is done."""
    before = contents(place)
    done = subprocess.run(
        [sys.executable, "-B", "-c", WATCHED, "serve", "--db", str(place / "index.db")],
        input=session(era),
        capture_output=True,
        timeout=60,
        cwd=place,
        check=False,
    )
    assert b"forbidden" not in done.stderr, done.stderr
    assert done.returncode == 0
    check_answers(done.stdout)
    assert contents(place) == before


DB = ("--db", "index.db")
READING = [
    ("search", "retry", *DB),
    ("search", "retry", "--mode", "full", "--explain", *DB),
    ("search", "retry", "--json", *DB),
    ("explain", "retry", *DB),
    ("load", URI, "--related", *DB),
    ("sql", "SELECT count(*) FROM fragment_detail ORDER BY 1", *DB),
    ("stats", *DB),
    ("diff", "index.db", "index.db"),
    ("path", *DB),
    ("eval", "--self", *DB),
    ("eval", "--queries", "library/queries.jsonl", "--qrels", "library/qrels.tsv", *DB),
    ("lint", "library"),
]
"""In the folder with the index."""


@pytest.mark.parametrize("arguments", READING)
def test_a_command_that_reads_writes_nothing_and_opens_no_socket(place: Path, arguments: tuple[str, ...]) -> None:
    before = contents(place)
    done = subprocess.run(
        [sys.executable, "-B", "-c", WATCHED, *arguments], capture_output=True, timeout=60, cwd=place, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert contents(place) == before


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="the folder for temporary files is named otherwise elsewhere")
def test_doctor_starts_the_server_has_a_temporary_file_and_does_nothing_else(place: Path, tmp_path: Path) -> None:
    before = contents(place)
    done = subprocess.run(
        [sys.executable, "-B", "-c", WATCHED.replace("GOES_ON = False", "GOES_ON = True"), "doctor", *DB],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=place,
        env={**os.environ, "HOME": str(place), "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout
    seen = [line.removeprefix("forbidden: ") for line in done.stderr.splitlines()]
    servers = [line for line in seen if line.startswith("subprocess.Popen ")]
    assert servers
    assert all("'serve', '--db', " in line for line in servers)
    temporary = tuple(f"{event} ('{tmp_path}" for event in ("open", "os.remove", "tempfile.mkstemp"))
    assert [line for line in seen if line not in servers and not line.startswith(temporary)] == []
    assert (contents(place), contents(tmp_path)) == (before, {})


def test_the_watch_sees_what_is_forbidden(place: Path, tmp_path: Path) -> None:
    """Else the tests above would show nothing."""
    done = subprocess.run(
        [sys.executable, "-B", "-c", WATCHED, "export", "--db", str(place / "index.db"), "-o", str(tmp_path / "out")],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 99
    assert b"forbidden: os.mkdir" in done.stderr


def nowhere_to_write(place: Path) -> dict[str, str]:
    """Return an environment in which every folder that one may write to by habit is missing or read-only."""
    names = ("HOME", "TMPDIR", "TMP", "TEMP", "SQLITE_TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    missing = {name: str(place / "nowhere") for name in (*names, "XDG_STATE_HOME", "XDG_RUNTIME_DIR")}
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH") if name in os.environ}
    return {**kept, **missing, "HOME": str(place), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT)}


def run_bound(place: Path, *arguments: str, sent: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command in the read-only folder, bound by permissions even where it is run by root."""
    return subprocess.run(
        [sys.executable, *arguments],
        input=sent,
        capture_output=True,
        timeout=60,
        cwd=place,
        env=nowhere_to_write(place),
        check=False,
        preexec_fn=obey_permissions,
    )


def obey_permissions() -> None:
    """Let what is executed next write no byte to any file, and make files only where permissions allow root to."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if sys.platform == "linux" and os.getuid() == 0:
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


@pytest.fixture(scope="module")
def bound(place: Path) -> Path:
    """Return the folder with the index; skip where permissions do not bind."""
    if os.name != "posix":
        pytest.skip("permissions of POSIX are needed")
    if run_bound(place, "-c", "open('new', 'w')").returncode == 0:
        (place / "new").unlink()
        pytest.skip("permissions do not bind here")
    return place


@pytest.mark.parametrize("era", ERAS)
def test_a_session_needs_nowhere_to_write(bound: Path, era: str) -> None:
    index = str(bound / "index.db")
    done = run_bound(bound, "-m", "orchestr8_sqlite", "serve", "--db", index, sent=session(era))
    assert done.returncode == 0, done.stderr
    check_answers(done.stdout)
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", READING)
def test_a_command_that_reads_needs_nowhere_to_write(bound: Path, arguments: tuple[str, ...]) -> None:
    done = run_bound(bound, "-m", "orchestr8_sqlite", *arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout
