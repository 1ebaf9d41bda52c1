"""Places of their own for programs that tests run: virtual environments of Python, and packages of Node."""

import hashlib
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestr8_sqlite import system

ROOT = Path(__file__).parents[1]
NODE_FOLDER = Path(__file__).parent
"""Holds package.json and its lock, which bring a Node of their own: other people's programs want a recent one."""

MAKING_SECONDS = 600
"""How long one process waits for another that installs the same programs."""


class MissingProgram(Exception):
    """A program that is wanted cannot be brought here."""


def pip(python: Path, *arguments: str) -> None:
    """Run pip of *python* in the root of the checkout."""
    command = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, cwd=ROOT, check=True)


def make_environment(folder: Path) -> Path:
    """Return the folder with the programs of a new virtual environment at *folder*."""
    venv.create(folder, with_pip=True, clear=True)
    return folder / ("Scripts" if sys.platform == "win32" else "bin")


def cached_environment(folder: Path, requirements: Path) -> Path:
    """Return the folder with the programs of the environment at *folder*, made anew when *requirements* changed.

    Raises:
        MissingProgram: They cannot be installed.
    """
    programs = folder / ("Scripts" if sys.platform == "win32" else "bin")
    with _made_from(folder, requirements) as is_made:
        if not is_made:
            venv.create(folder, with_pip=False, clear=True)  # ours installs, which is newer and faster
            into = ("--python", str(programs / "python"), "install", "--no-compile", "--no-deps", "--require-hashes")
            try:
                pip(Path(sys.executable), *into, "-r", str(requirements))
            except subprocess.CalledProcessError:
                message = f"pip cannot install what {requirements.name} names; see its lines above."
                raise MissingProgram(message) from None
    return programs


def node_programs(home: Path = NODE_FOLDER) -> Path:
    """Return the folder with the programs of the packages that *home* locks, installed anew when the lock changed.

    Raises:
        MissingProgram: There is no npm, or it cannot install them.
    """
    folder, lock = home / "node_modules", home / "package-lock.json"
    with _made_from(folder, lock) as is_made:
        if not is_made:
            npm = shutil.which("npm")
            if npm is None:
                raise MissingProgram("npm is missing: install Node.js of any recent version, which comes with it.")
            command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            if subprocess.run(command, cwd=home, check=False, stdout=subprocess.DEVNULL).returncode:
                raise MissingProgram(f"npm cannot install what {lock.relative_to(ROOT)} names; see its lines above.")
    return folder / ".bin"


def node_command(program: str) -> list[str]:
    """Return the command that runs *program* of the locked packages, or a script with that path, in their Node.

    Raises:
        MissingProgram: The packages cannot be installed, or no Node is packaged for this machine.
    """
    programs = node_programs()
    node = shutil.which("node", path=str(programs))
    if node is None:
        raise MissingProgram("There is no packaged Node for this machine; add it to tests/package.json.")
    return [node, str((programs / program).resolve())]


@contextmanager
def _made_from(folder: Path, lock: Path) -> Iterator[bool]:
    """Say whether *folder* was made from what *lock* holds now, and mark it as made so when the block has ended.

    Other processes wait meanwhile: tests that run side by side want the same programs.
    """
    with lock.open("rb") as file:
        system.try_lock(file.fileno(), MAKING_SECONDS)
        mark, digest = folder / ".made-from", hashlib.sha256(file.read()).hexdigest()
        is_made = mark.is_file() and mark.read_text(encoding="utf-8") == digest
        yield is_made
        if not is_made:
            mark.write_text(digest, encoding="utf-8")
