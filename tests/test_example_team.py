"""The example of how a team ships an index does what it says, and its workflow runs the commands that it shows."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support import write_program

EXAMPLE = Path(__file__).parents[1] / "docs" / "examples" / "team"
SCRIPT = EXAMPLE / "run.sh"
PROGRAMS = Path(sys.executable).parent
CI = re.compile(r"^ci\(\) \(\n(.*?)^\)$", re.MULTILINE | re.DOTALL)
EPOCH = "SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)"

SEEN = (
    "platform-team: v1 (",
    "published to stable: serial 1,",
    *["give up after three attempts"] * 3,
    "orchestr8.lock does not pin the source platform-team as orchestr8.toml asks",
    "published to stable: serial 2,",
    *["give up after five attempts"] * 3,
    "place 2\tour customer paid two times",
    "\nNot published: success@1 of queries.jsonl is 0.667, below 0.9.\n",
    *["stable.channel.json is not signed, and a signature is required"] * 3,
    "published to stable: serial 4,",
    "The SHA-256 of the index is",
    "pulled serial 4 of stable",
    "back to serial 1 of stable",
    "give up after three attempts",
    "give up after five attempts",
    "published to stable: serial 5,",
    *["give up after three attempts"] * 3,
)
"""What the example prints, in this order, among other lines."""

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the example is a script for a POSIX shell")


def run(folder: Path, programs: Path) -> subprocess.CompletedProcess[str]:
    """Run the example in a temporary folder below *folder*, with the programs of a folder before all others."""
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    return subprocess.run(
        ["sh", SCRIPT],
        env={**os.environ, "PATH": path, "TMPDIR": str(folder), "ORCHESTR8_DB": "none.db"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_example_of_a_team_prints_what_it_promises_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = run(tmp_path, PROGRAMS)
    assert done.returncode == 0, done.stdout
    place = 0
    for text in SEEN:
        found = done.stdout.find(text, place)
        assert found >= 0, (text, done.stdout[place:])
        place = found + len(text)
    assert [*tmp_path.iterdir()] == []


def test_example_of_a_team_fails_where_a_command_does_not_say_what_it_should(tmp_path: Path) -> None:
    programs, folder = tmp_path / "programs", tmp_path / "folder"
    programs.mkdir()
    folder.mkdir()
    write_program(programs / "orchestr8-sqlite", "#!/bin/sh\necho all is well\n")
    done = run(folder, programs)
    assert done.returncode == 1
    assert done.stdout.endswith("all is well\nrun.sh: expected to read: platform-team: v1\n")
    assert [*folder.iterdir()] == []


def test_workflow_of_the_example_runs_the_commands_that_the_script_runs() -> None:
    script, workflow = SCRIPT.read_text("utf-8"), (EXAMPLE / "library.yml").read_text("utf-8")
    [steps] = CI.findall(script)
    (job,) = yaml.safe_load(workflow)["jobs"].values()
    lines = "\n".join(step.get("run", "") for step in job["steps"]).splitlines()
    in_script = [line.strip().removesuffix(" &&") for line in steps.splitlines()]
    commands = [line for line in in_script if line.startswith("orchestr8-sqlite ")]
    assert [line.split()[1] for line in commands] == ["sync", "lint", "build", "eval", "publish"]
    assert [line for line in lines if line.startswith("orchestr8-sqlite ")] == commands
    assert EPOCH in steps
    assert EPOCH in workflow


@pytest.mark.slow
def test_shellcheck_finds_no_mistake_in_the_script() -> None:
    program = shutil.which("shellcheck", path=str(PROGRAMS))
    assert program is not None
    done = subprocess.run([program, SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
