"""Run the scripts of the shipped Agent Skills as an assistant runs them: as programs, on files."""

import json
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

SKILLS = Path(__file__).parents[1] / "resources" / "skills"


def run_script(
    skill: str, script: str, *arguments: str | Path, stdin: str | None = None, cwd: Path | None = None
) -> CompletedProcess[str]:
    """Run a script of *skill* with *arguments* and return its exit code and what it printed."""
    return subprocess.run(
        [sys.executable, SKILLS / skill / "scripts" / script, *arguments],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
        cwd=cwd,
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
