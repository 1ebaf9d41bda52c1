"""Places of their own for programs that tests run: virtual environments of Python, and packages of Node."""

import hashlib
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
NODE_FOLDER = Path(__file__).parent
"""Holds package.json and its lock, which bring a Node of their own: other people's programs want a recent one."""


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
    if not _is_made_from(folder, requirements):
        venv.create(folder, with_pip=False, clear=True)  # ours installs, which is newer and faster
        into = ("--python", str(programs / "python"), "install", "--no-compile", "--no-deps", "--require-hashes")
        try:
            pip(Path(sys.executable), *into, "-r", str(requirements))
        except subprocess.CalledProcessError:
            raise MissingProgram(f"pip cannot install what {requirements.name} names; see its lines above.") from None
        _mark_as_made_from(folder, requirements)
    return programs


def node_programs(home: Path = NODE_FOLDER) -> Path:
    """Return the folder with the programs of the packages that *home* locks, installed anew when the lock changed.

    Raises:
        MissingProgram: There is no npm, or it cannot install them.
    """
    folder, lock = home / "node_modules", home / "package-lock.json"
    if not _is_made_from(folder, lock):
        npm = shutil.which("npm")
        if npm is None:
            raise MissingProgram("npm is missing: install Node.js of any recent version, which comes with it.")
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        if subprocess.run(command, cwd=home, check=False, stdout=subprocess.DEVNULL).returncode:
            raise MissingProgram(f"npm cannot install what {lock.relative_to(ROOT)} names; see its lines above.")
        _mark_as_made_from(folder, lock)
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


def _is_made_from(folder: Path, lock: Path) -> bool:
    mark = folder / ".made-from"
    return mark.is_file() and mark.read_text(encoding="utf-8") == _digest(lock)


def _mark_as_made_from(folder: Path, lock: Path) -> None:
    (folder / ".made-from").write_text(_digest(lock), encoding="utf-8")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
