"""What is published: judged by the tools of those who define it, and the action run step by step as GitHub would."""

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner
from environments import cached_environment, node_command, node_programs
from support import brought, markdown, write_files, write_program

ROOT = Path(__file__).parents[1]
PUBLISHING = Path(__file__).parent / "publishing"
OWN_WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
WORKFLOWS = [*OWN_WORKFLOWS, ROOT / "docs" / "examples" / "team" / "library.yml"]
ACTION = ROOT / "action.yml"
PINNED = re.compile(r"[\w./-]+@[0-9a-f]{40}")

pytestmark = pytest.mark.slow


def read(path: Path) -> dict[str, Any]:
    value = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(value, dict)
    return value


# --- the workflows


@pytest.mark.parametrize(
    ("schema", "path"),
    [*(("vendor.github-workflows", path) for path in WORKFLOWS), ("vendor.github-actions", ACTION)],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_workflow_or_action_has_the_form_that_is_published_for_it(schema: str, path: Path) -> None:
    done = CliRunner().invoke(check_jsonschema, ["--builtin-schema", schema, str(path)])
    assert done.exit_code == 0, done.output


def test_zizmor_finds_no_weakness_in_workflows_and_action() -> None:
    programs = brought(lambda: cached_environment(PUBLISHING / ".venv", PUBLISHING / "requirements.txt"))
    command = [str(programs / "zizmor"), "--offline", "--no-progress", "--quiet"]
    done = subprocess.run([*command, *map(str, (*WORKFLOWS, ACTION))], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_actionlint_finds_no_mistake_in_workflows() -> None:
    program = shutil.which("actionlint")
    if program is None:
        pytest.skip("actionlint is not here, and its package on PyPI downloads it from elsewhere")
    done = subprocess.run([program, *map(str, WORKFLOWS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=lambda path: path.name)
def test_shellcheck_finds_no_mistake_in_what_workflows_and_action_run(path: Path, tmp_path: Path) -> None:
    document = read(path)
    jobs = document["jobs"].values() if "jobs" in document else [document["runs"]]
    scripts = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    assert scripts
    for number, script in enumerate(scripts):
        assert "${{" not in script  # values come as variables, so that none becomes a command
        write_program(tmp_path / f"{number}.sh", f"#!/bin/bash -e\n{script}")
    files = sorted(map(str, tmp_path.glob("*.sh")))
    done = subprocess.run(
        [Path(sys.executable).with_name("shellcheck"), *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", [*WORKFLOWS, ACTION], ids=lambda path: path.name)
def test_every_action_is_pinned_by_its_commit_with_its_release_beside_it(path: Path) -> None:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert lines
    for line in lines:
        used, _, release = line.partition("uses:")[2].partition("#")
        assert PINNED.fullmatch(used.strip())
        assert re.fullmatch(r" v\d+\.\d+\.\d+", release)


def test_release_tests_before_it_publishes_and_stores_no_token() -> None:
    release = read(ROOT / ".github" / "workflows" / "release.yml")
    jobs = release["jobs"]
    assert release["permissions"] == {}
    assert (jobs["attest"]["needs"], jobs["publish"]["needs"]) == ("build", "attest")
    commands = [step.get("run", "") for step in jobs["build"]["steps"]]
    assert commands.index("bash .ci/run") < commands.index("make dist")
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["attest"]["permissions"] == {"contents": "read", "id-token": "write", "attestations": "write"}
    assert not any("secrets." in path.read_text(encoding="utf-8") for path in (*OWN_WORKFLOWS, ACTION))


# --- the manifests


def claude() -> list[str]:
    """Return the command of Claude Code, in the version that is locked."""
    programs = node_programs(PUBLISHING).parent
    return [node_command("node")[0], str(programs / "@anthropic-ai" / "claude-code" / "cli-wrapper.cjs")]


@pytest.mark.parametrize("path", [".", ".claude-plugin/plugin.json"])
def test_claude_code_finds_the_marketplace_and_the_plugin_valid(path: str, tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    command = [*brought(claude), "plugin", "validate", path]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Validation passed" in done.stdout
    assert "warning" not in done.stdout.lower()


def test_bundle_manifest_is_valid_to_the_tool_that_packs_it() -> None:
    command = brought(lambda: [node_command("node")[0], str(node_programs(PUBLISHING) / "mcpb")])
    done = subprocess.run(
        [*command, "validate", "mcpb/manifest.json"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


# --- the action

TOPICS = ("roses", "tulips", "beans", "apples", "compost", "hedges")
LIBRARY = {
    f"skills/{topic}.md": markdown(
        f"title: Growing {topic}\ndescription: How to grow {topic}\nuseWhen:\n"
        f"  - Planting {topic} in a garden\n  - Watering {topic} in summer",
        f"# Growing {topic}\n\nDig for {topic}.\n",
    )
    for topic in TOPICS
}


class Run(NamedTuple):
    """What came of the steps of the action: the first that failed, all that they printed, and the summary."""

    failed: str | None
    output: str
    summary: str


RunAction = Callable[..., Run]


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", *who, "-C", str(folder), *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return a checkout of a team's repository, whose branch `main` has the library in `docs`."""
    folder = write_files(tmp_path / "team", {f"docs/{path}": text for path, text in LIBRARY.items()})
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=One")
    git(folder, "switch", "--quiet", "--create=change")
    return folder


def steps() -> list[dict[str, Any]]:
    """Return the steps of the action that run commands."""
    return [step for step in read(ACTION)["runs"]["steps"] if "run" in step]


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder for temporary files of a machine that the action has installed itself on."""
    folder = tmp_path_factory.mktemp("runner")
    install = next(step["run"] for step in steps() if step["name"] == "Install")
    environment = {**os.environ, "RUNNER_TEMP": str(folder), "ACTION": str(ROOT), "PYTHON": sys.executable}
    subprocess.run(["bash", "-eo", "pipefail", "-c", install], env=environment, check=True)
    return folder


@pytest.fixture
def act(repository: Path, runner: Path, tmp_path: Path) -> RunAction:
    """Return a function that runs the steps of the action in *repository*, but for the installation."""

    def run(**inputs: str) -> Run:
        given = {name: str(value["default"]) for name, value in read(ACTION)["inputs"].items()} | inputs
        files = {name: tmp_path / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        known = {"RUNNER_TEMP": str(runner), **{name: str(path) for name, path in files.items()}}
        output = ""
        for step in steps():
            if step["name"] == "Install" or not is_meant(step, given):
                continue
            variables = {name: filled(str(value), given) for name, value in step["env"].items()}
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=repository,
                env={**os.environ, **known, **variables},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            output += done.stdout
            if done.returncode:
                return Run(step["name"], output, "")
        summary = files["GITHUB_STEP_SUMMARY"]
        return Run(None, output, summary.read_text(encoding="utf-8") if summary.exists() else "")

    return run


def filled(value: str, inputs: Mapping[str, str]) -> str:
    return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: inputs[found[1]], value)


def is_meant(step: Mapping[str, Any], inputs: Mapping[str, str]) -> bool:
    return step.get("if", "inputs.base != ''") == "inputs.base != ''" and ("if" not in step or inputs["base"] != "")


def test_action_passes_a_sound_library_and_shows_what_a_change_does(act: RunAction, repository: Path) -> None:
    (repository / "docs" / "skills" / "beans.md").unlink()
    run = act(root="docs", base="main")
    assert run.failed is None, run.output
    assert "orchestr8://skills/beans" in run.summary
    assert "orchestr8://skills/roses" not in run.summary
    assert (repository.parent / "GITHUB_OUTPUT").read_text(encoding="utf-8").startswith("index=")


def test_action_compares_nothing_without_a_base_or_where_the_base_has_no_library(
    act: RunAction, repository: Path
) -> None:
    run = act(root="docs", base="")
    assert (run.failed, run.summary) == (None, "")
    (repository / "docs").rename(repository / "library")
    assert act(root="library", base="main").summary == "There is no library to compare with at main.\n"


def test_action_fails_where_lint_does(act: RunAction, repository: Path) -> None:
    write_files(
        repository, {"docs/skills/peas.md": markdown("title: Peas\ntags: [a, a\n", "See orchestr8://skills/none.")}
    )
    assert act(root="docs", base="").failed == "Lint"
    assert act(root="docs", base="", strict="false").failed is None


def test_action_fails_where_scenarios_are_not_found(act: RunAction, repository: Path) -> None:
    for name, number in itertools.product("abc", range(4)):
        text = markdown(f"title: Thing\ndescription: A thing\nuseWhen:\n  - Doing {name}{number}", "# Thing\n\nIt.\n")
        write_files(repository, {f"docs/skills/things/{name}{number}/x.md": text})
    run = act(root="docs", base="", strict="false")
    assert run.failed == "Gate", run.output
    assert act(root="docs", base="", strict="false", **{"fail-under": "0"}).failed is None
