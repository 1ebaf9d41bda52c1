"""What README and `make run` tell a newcomer to type, typed, and what clients run after that."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from environments import cached_environment, node_command, node_programs
from support import brought, write_program

ROOT = Path(__file__).parents[1]
PUBLISHING = Path(__file__).parent / "publishing"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runners() -> Path:
    """Return the folder with the programs uv, uvx and pipx."""
    return brought(lambda: cached_environment(PUBLISHING / ".venv", PUBLISHING / "requirements.txt"))


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a clone of the files of this checkout that git knows or would take in."""
    folder = tmp_path_factory.mktemp("clones") / "clone"
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    for name in filter(None, names.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-C", str(folder)]
    for arguments in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message=One"]):
        subprocess.run([*git, *arguments], check=True)
    return folder


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory, runners: Path) -> Mapping[str, str]:
    """Return the environment of a user who has uv, pipx and a client of each kind that a program shows."""
    home = tmp_path_factory.mktemp("home")
    programs = home / ".local" / "bin"
    programs.mkdir(parents=True)
    for name in ("uv", "uvx", "pipx"):
        (programs / name).symlink_to(runners / name)
    for name in ("codex", "gemini"):
        write_program(programs / name)
    others = ("ORCHESTR8_", "VIRTUAL_ENV", "XDG", "MAKE", "MFLAGS")  # a make inside of make says which folder it is in
    kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    return {**kept, "HOME": str(home), "PATH": os.pathsep.join([str(programs), os.environ["PATH"]])}


def run(command: list[str] | str, folder: Path, environment: Mapping[str, str]) -> str:
    """Return what a command, or lines that are typed into a shell, print; each must end well."""
    typed = ["bash", "-eo", "pipefail", "-c", command] if isinstance(command, str) else command
    done = subprocess.run(
        typed,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


def commands(text: str) -> Iterator[str]:
    """Yield the commands that stand in indented blocks of Markdown, without what is said of them."""
    for line in re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE).splitlines():
        if line.startswith("    ") and line.strip():
            yield line.split("  #")[0].strip()


# --- what is typed


@pytest.fixture(scope="module")
def typed(clone: Path, newcomer: Mapping[str, str]) -> str:
    """Return what `make run` prints in the clone, the first command that README names."""
    return run(["make", "run"], clone, newcomer)


def test_commands_that_make_run_prints_work_as_typed(typed: str, clone: Path, newcomer: Mapping[str, str]) -> None:
    told = typed.rpartition("\n\n")[2].splitlines()
    assert [line.partition(":")[0] for line in told] == [
        "Connect Claude Code",
        "Connect other clients",
        "See what clients see",
        "Look inside",
        "Type it without path",
    ]
    for line in told:
        run(line.partition(":")[2].strip(), clone, newcomer)


@pytest.mark.usefixtures("typed")
def test_commands_of_the_readme_work_as_typed_one_after_the_other(
    clone: Path, newcomer: Mapping[str, str], wheel: Path, tmp_path: Path
) -> None:
    found = list(commands((clone / "README.md").read_text(encoding="utf-8")))
    assert found[:2] == ["make run", "make test"]
    without_clone = [command for command in found if command.startswith(("uvx", "pipx"))]
    in_clone = [command for command in found[2:] if command not in without_clone]
    assert {command.split()[0] for command in in_clone} == {".", "orchestr8-sqlite", "pip"}
    run("\n".join(in_clone), clone, newcomer)
    another = {**newcomer, "CLAUDE_CONFIG_DIR": str(tmp_path)}
    typed = "\n".join(without_clone).replace("SOURCE", str(wheel))
    assert run(typed, tmp_path, another).count("orchestr8://skills/security-authentication-jwt") == 2
    written = json.loads((tmp_path / ".claude.json").read_text(encoding="utf-8"))["mcpServers"]["orchestr8"]
    assert written["args"] == ["--from", str(wheel), "orchestr8-sqlite", "serve"]


@pytest.mark.parametrize("source", ["git+file://", ""], ids=["git URL", "folder"])
def test_a_git_url_or_a_folder_runs_without_a_clone_of_ones_own(
    source: str, clone: Path, newcomer: Mapping[str, str], tmp_path: Path
) -> None:
    command = ["uvx", "--from", f"{source}{clone}", "orchestr8-sqlite", "install", "cursor", "--json"]
    entry = json.loads(run(command, tmp_path, newcomer).partition("{")[2].join(["{", ""]))["entry"]
    head = subprocess.run(["git", "-C", clone, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    pinned = f"git+file://{clone}@{head.stdout.strip()}" if source else str(clone)
    assert entry["args"] == ["--from", pinned, "orchestr8-sqlite", "serve"]


# --- what clients run after that


@pytest.mark.parametrize(
    "runner", [["uvx", "--from"], ["pipx", "run", "--spec"], ["program"]], ids=lambda words: words[0]
)
def test_a_client_runs_what_install_wrote_and_doctor_finds_it_good(
    runner: list[str], wheel: Path, installed: Path, newcomer: Mapping[str, str], tmp_path: Path
) -> None:
    program = str(installed / "orchestr8-sqlite")
    own = [program] if runner == ["program"] else [*runner, str(wheel), "orchestr8-sqlite"]
    environment = {**newcomer, "CODEX_HOME": str(tmp_path / "codex"), "GEMINI_CLI_HOME": str(tmp_path)}
    assert "seem" not in run([*own, "install", "codex", "--write"], tmp_path, environment)
    entry = json.loads(run([*own, "install", "cursor"], tmp_path, environment).partition("\n")[2])
    server = entry["mcpServers"]["orchestr8"]
    assert Path(server["command"]).is_absolute()
    assert [Path(server["command"]).name, *server["args"]] == [Path(own[0]).name, *own[1:], "serve"]
    found = doctor(own, tmp_path, environment)["codex, user"]
    assert found["verdict"] == "ok", found
    assert found["finding"].startswith(f"orchestr8 in {tmp_path}/codex/config.toml: orchestr8 0.1.0 after ")


def test_doctor_does_not_take_a_program_for_the_clients_that_uvx_shows_to_itself_alone(
    wheel: Path, newcomer: Mapping[str, str], tmp_path: Path
) -> None:
    entry = {"mcpServers": {"orchestr8": {"command": "orchestr8-sqlite", "args": ["serve"]}}}
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini" / "settings.json").write_text(json.dumps(entry), encoding="utf-8")
    environment = {**newcomer, "GEMINI_CLI_HOME": str(tmp_path)}
    found = doctor(["uvx", "--from", str(wheel), "orchestr8-sqlite"], tmp_path / ".gemini", environment)
    assert found["gemini, user"]["finding"].endswith(": orchestr8-sqlite does not exist")


def doctor(own: list[str], folder: Path, environment: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the checks of `doctor` by name, whatever its exit code."""
    done = subprocess.run(
        [*own, "doctor", "--json"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    report = json.loads(done.stdout)
    assert done.returncode == (0 if report["ok"] else 1)
    return {check["check"]: check for check in report["checks"]}


@pytest.fixture
def claude(newcomer: Mapping[str, str]) -> list[str]:
    """Return the command of Claude Code, in the version that is locked."""
    programs = brought(lambda: node_programs(PUBLISHING)).parent
    node = brought(lambda: node_command("node"))[0]
    return [node, str(programs / "@anthropic-ai" / "claude-code" / "cli-wrapper.cjs")]


@pytest.fixture
def user(newcomer: Mapping[str, str], tmp_path: Path) -> Mapping[str, str]:
    """Return the environment of somebody who has not used Claude Code yet."""
    return {**newcomer, "CLAUDE_CONFIG_DIR": str(tmp_path), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}


@pytest.mark.parametrize("scope", ["user", "local"])
def test_claude_code_connects_to_what_install_wrote(
    scope: str, claude: list[str], installed: Path, user: Mapping[str, str], tmp_path: Path
) -> None:
    own = [str(installed / "orchestr8-sqlite")]
    run([*own, "install", "claude-code", "--scope", scope, "--write"], tmp_path, user)
    assert f"orchestr8: {own[0]} serve - ✔ Connected" in run([*claude, "mcp", "list"], tmp_path, user)
    assert f"Scope: {scope.capitalize()} config" in run([*claude, "mcp", "get", "orchestr8"], tmp_path, user)


def test_doctor_finds_what_claude_code_itself_wrote_and_agrees_that_it_fails(
    claude: list[str], installed: Path, user: Mapping[str, str], tmp_path: Path
) -> None:
    own = [str(installed / "orchestr8-sqlite")]
    add = [*claude, "mcp", "add", "orchestr8", "--"]
    run([*add, *own, "serve", "--db", "none.db"], tmp_path, user)
    found = doctor(own, tmp_path, user)
    assert (found["claude-code, local"]["verdict"], "claude-code, user" in found) == ("problem", False)
    assert "There is no index at none.db" in found["claude-code, local"]["finding"]
    run([*claude, "mcp", "remove", "orchestr8"], tmp_path, user)
    run([*add, "uvx", "orchestr8-sqlite-is-nowhere", "serve"], tmp_path, user)
    assert "✘ Failed to connect" in run([*claude, "mcp", "list"], tmp_path, user)
    assert doctor(own, tmp_path, user)["claude-code, local"]["verdict"] == "problem"


def test_plugin_of_a_clone_connects(claude: list[str], clone: Path, user: Mapping[str, str], tmp_path: Path) -> None:
    run([*claude, "plugin", "marketplace", "add", str(clone)], tmp_path, user)
    run([*claude, "plugin", "install", "orchestr8-sqlite@orchestr8-sqlite"], tmp_path, user)
    run(["uvx", "--from", str(clone), "orchestr8-sqlite", "path"], tmp_path, user)  # the first start builds it
    listed = run([*claude, "mcp", "list"], tmp_path, user)
    assert re.search(r"orchestr8: uvx --from \S+ orchestr8-sqlite serve - ✔ Connected", listed), listed
