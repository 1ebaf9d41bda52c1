"""The scripts of the shipped Agent Skills are programs; the other tests run them in their own process."""

import pytest
from agent_skills import SKILLS, run_script, start_script

SCRIPTS = sorted((path.parents[1].name, path.name) for path in SKILLS.glob("*/scripts/*.py"))


@pytest.mark.parametrize(("skill", "script"), SCRIPTS)
def test_a_script_started_as_a_program_says_what_it_says_in_this_process(skill: str, script: str) -> None:
    started, here = start_script(skill, script, "--help"), run_script(skill, script, "--help")
    assert (started.returncode, here.returncode) == (0, 0)
    assert started.stdout.startswith(f"usage: {script}")
    assert (started.stdout, started.stderr) == (here.stdout, here.stderr)
