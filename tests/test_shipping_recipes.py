"""The commands of docs/publishing.md do what it says: with a folder, and with web servers that others wrote."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from file_servers import file_server
from support import markdown, rows, write_files

DOCUMENT = Path(__file__).parents[1] / "docs" / "publishing.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
BLOCKS = {name: text for text, name in re.findall(r"```sh\n(# ([\w ]+):.*?)```", TEXT, re.DOTALL)}
PATIENCE = 20.0

pytestmark = pytest.mark.slow


class Team:
    """A library, and those who publish and use its index."""

    def __init__(self, folder: Path, place: str) -> None:
        self.folder, self.place = folder, place
        self.write("Wait.")
        (folder / "orchestr8.toml").write_text('roots = ["library"]\n', encoding="utf-8")

    def write(self, text: str) -> None:
        """Let the library say something else."""
        page = markdown("useWhen: [Retrying a flaky call, Calling again]", f"# Retry\n\nFor a flaky call. {text}\n")
        write_files(self.folder / "library", {"skills/retry.md": page})

    def run(self, block: str, **variables: str) -> str:
        """Run a block of the document and return what it prints; it must succeed."""
        done = self.try_to_run(block, **variables)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def try_to_run(self, block: str, **variables: str) -> subprocess.CompletedProcess[str]:
        programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = {**os.environ, "PATH": programs, "PLACE": self.place, "LIBRARY": "library", **variables}
        return subprocess.run(
            ["sh", "-euc", BLOCKS[block]],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def says(self) -> str:
        """Return what the index in use says."""
        return str(rows(self.folder / "index.db", "SELECT body FROM fragment_body")[0][0])

    def use(self) -> None:
        """Publish, lose the index that was built, and pull it."""
        self.run("publish")
        (self.folder / "index.db").unlink()
        self.run("pull")


@pytest.fixture
def team(tmp_path: Path, store: Path) -> Team:
    return Team(tmp_path, str(store))


def test_a_team_publishes_pulls_locks_and_goes_back(team: Team) -> None:
    team.use()
    assert "Wait." in team.says()
    team.run("lock")
    team.write("Wait longer.")
    team.run("publish")
    team.run("locked")
    assert "Wait." in team.says()
    team.run("pull")
    assert "Wait longer." in team.says()
    team.run("back")
    assert "Wait." in team.says()
    assert "stays rolled back" in team.run("pull")


def test_a_team_signs_what_it_publishes(team: Team) -> None:
    team.run("keys")
    team.run("publish")
    assert "is not signed" not in team.run("signed")
    assert "Wait." in team.says()


@pytest.mark.skipif(not all(map(shutil.which, ("curl", "jq"))), reason="needs curl and jq")
def test_signature_is_checked_by_hand_with_the_texts_that_the_document_makes(team: Team, store: Path) -> None:
    from minisign import PublicKey, Signature

    team.run("keys")
    team.run("publish")
    team.run("signed")
    with file_server(store) as server:
        program = team.folder / "bin" / "minisign"
        write_files(team.folder, {"bin/minisign": "#!/bin/sh\nexit 0\n"})
        program.chmod(0o755)
        path = os.pathsep.join([str(program.parent), os.environ["PATH"]])
        team.run("by hand", PLACE=server.url, PATH=path)
    signature = Signature.from_file(team.folder / "signed.minisig")
    PublicKey.from_file(team.folder / "team.pub").verify_file(team.folder / "signed", signature)


def test_a_command_uploads(team: Team) -> None:
    team.run("publish")
    team.write("Wait longer.")
    subprocess.run(
        [sys.executable, "-m", "orchestr8_sqlite", "build", "library", "-o", "index.db"],
        cwd=team.folder,
        capture_output=True,
        check=True,
    )
    assert "serial 2" in team.run("command")
    team.run("pull")
    assert "Wait longer." in team.says()


@pytest.mark.parametrize("heeds", [True, False])
def test_a_web_server_that_takes_put_is_a_place(tmp_path: Path, heeds: bool) -> None:
    with file_server(tmp_path / "store", tags=heeds, heeds_conditions=heeds) as server:
        team = Team(tmp_path, server.url)
        team.use()
        team.write("Wait longer.")
        team.use()
        assert "Wait longer." in team.says()


def test_what_lies_in_a_folder_is_pulled_from_pythons_own_web_server(team: Team, store: Path) -> None:
    team.run("publish")
    (team.folder / "index.db").unlink()
    port = free_port()
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(store)]
    with running(command, port):
        team.run("pull", PLACE=f"http://127.0.0.1:{port}")
    assert "Wait." in team.says()


@pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx")
def test_nginx_is_a_place_and_only_publishers_write_there(tmp_path: Path, store: Path) -> None:
    port = free_port()
    location = re.findall(r"```nginx\n(.*?)```", TEXT, re.DOTALL)[0]
    (store / "indexes").mkdir()
    write_files(tmp_path, {"publishers": "team:{PLAIN}secret\n"})
    location = location.replace("/etc/nginx/publishers", str(tmp_path / "publishers")).replace(
        "root /srv", f"root {store}"
    )
    temporary = " ".join(
        f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    server = f"server {{ listen 127.0.0.1:{port}; access_log off; {location} }}"
    user = "user root;" if os.geteuid() == 0 else ""
    text = f"{user} daemon off; pid {tmp_path}/pid; events {{ }} http {{ {temporary} {server} }}"
    write_files(tmp_path, {"nginx.conf": text})
    command = ["nginx", "-e", "stderr", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
    team = Team(tmp_path, f"http://127.0.0.1:{port}/indexes")
    token = {"ORCHESTR8_TOKEN": "team:secret", "ORCHESTR8_TOKEN_FOR": f"http://127.0.0.1:{port}"}
    with running(command, port):
        assert "answered PUT with 401" in team.try_to_run("publish").stdout
        team.run("publish", **token)
        team.write("Wait longer.")
        team.run("publish", **token)
        (team.folder / "index.db").unlink()
        team.run("pull")
    assert "Wait longer." in team.says()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


@contextmanager
def running(command: list[str], port: int) -> Iterator[None]:
    """Run a server until it is no longer needed."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + PATIENCE
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    assert time.monotonic() < until
                    time.sleep(0.02)
            yield
        finally:
            process.terminate()
