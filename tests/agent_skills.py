"""Run the scripts of the shipped Agent Skills as an assistant runs them: on files, from its command line."""

import io
import json
import signal
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess
from types import CodeType, ModuleType
from typing import Any

import pytest

SKILLS = Path(__file__).parents[1] / "resources" / "skills"


def run_script(
    skill: str, script: str, *arguments: str | Path, stdin: str | None = None, cwd: Path | None = None
) -> CompletedProcess[str]:
    """Run a script of *skill* with *arguments* and return its exit code and what it printed.

    It runs in this process, as a main module of its own: to start Python would take most of the time.
    """
    path = SKILLS / skill / "scripts" / script
    command = [str(path), *map(str, arguments)]
    module = ModuleType("__main__")
    module.__file__ = command[0]
    given, out, err = _stream(stdin or ""), _stream(), _stream()
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # as Python does by itself
        for name, value in (("argv", command), ("stdin", given), ("stdout", out), ("stderr", err)):
            patch.setattr(sys, name, value)
        patch.setitem(sys.modules, "__main__", module)
        patch.setattr(signal, "signal", lambda *_: None)  # how the scripts take SIGPIPE would outlast them
        if cwd is not None:
            patch.chdir(cwd)
        code = _run(path, module)
    return CompletedProcess(command, code, _text_of(out), _text_of(err))


def _run(path: Path, module: ModuleType) -> int:
    """Run the script at *path* as *module* and return its exit code."""
    try:
        exec(_compiled(path), module.__dict__)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


@cache
def _compiled(path: Path) -> CodeType:
    return compile(path.read_bytes(), path, "exec", dont_inherit=True)


def _stream(text: str = "") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8", write_through=True)


def _text_of(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def start_script(skill: str, script: str, *arguments: str | Path) -> CompletedProcess[str]:
    """Run a script of *skill* as a program and return its exit code and what it printed."""
    return subprocess.run(
        [sys.executable, SKILLS / skill / "scripts" / script, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


def run_json(
    skill: str, script: str, *arguments: str | Path, stdin: str | None = None, cwd: Path | None = None
) -> dict[str, Any]:
    """Run a script with `--json` and return what it printed, read."""
    done = run_script(skill, script, *arguments, "--json", stdin=stdin, cwd=cwd)
    assert not done.stderr, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def assert_refused(done: CompletedProcess[str], *words: str) -> None:
    """Check that a script said in one line, which has *words*, why it could do nothing, and left with exit code 2."""
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert all(word in done.stderr for word in words), done.stderr
