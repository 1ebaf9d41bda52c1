"""Files of a git repository, read with the program `git` from a bare repository that is made for it and removed.

There is never a work tree: no hook, filter, attribute or submodule of a stranger's repository has any effect. Git may
only use PROTOCOLS, none of which runs a program that an address names, and cannot ask for a password.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

from orchestr8_sqlite.errors import LibraryError
from orchestr8_sqlite.library.sources.manifest import COMMIT, SourceSpec
from orchestr8_sqlite.library.sources.trees import Tree
from orchestr8_sqlite.settings import environment_with
from orchestr8_sqlite.system import apart, kill_apart

PROTOCOLS = "https:http:ssh:file"
SECONDS = 600
"""How long one run of git may take."""

SAFE = {
    "GIT_ALLOW_PROTOCOL": PROTOCOLS,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "LC_ALL": "C",
}
ELSEWHERE = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"),
)
"""Variables that point git to another repository; a hook of git sets them."""

SETTINGS = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0", "fetch.recurseSubmodules=false")
LOGIN = re.compile(r"(?<=://)[^/@\s]+@")
FILE_MODES = ("100644", "100755")


class Blob(NamedTuple):
    """A file of a commit: its path, and the name and size of its content."""

    path: str
    object: str
    size: int


def resolve(spec: SourceSpec) -> str:
    """Return the commit that the source's tag or branch names now, or the commit that the manifest names.

    Raises:
        LibraryError: Git is missing, or cannot reach the repository, or it has no such tag or branch.
    """
    if spec.commit is not None:
        return spec.commit
    kind, name = ("tags", spec.asked["tag"]) if "tag" in spec.asked else ("heads", spec.asked["branch"])
    reference = f"refs/{kind}/{name}"
    with _repository(spec, "sha1") as repository:
        listed = repository.run("ls-remote", "--", spec.asked["git"], reference, f"{reference}^{{}}")
    found = {named: commit for commit, _, named in (line.partition("\t") for line in listed.decode().splitlines())}
    commit = found.get(f"{reference}^{{}}") or found.get(reference, "")
    if not COMMIT.fullmatch(commit):
        raise LibraryError(f"The source {spec.name} has no {kind[:-1].replace('head', 'branch')} {name}.")
    return commit


def fetch(spec: SourceSpec, commit: str, tree: Tree) -> int:
    """Write the files of *commit* to *tree* and return its time in seconds since 1970.

    Raises:
        LibraryError: Git cannot fetch the commit, or it has no such folder.
        Hostile: It holds what is not accepted.
    """
    with _repository(spec, "sha1" if len(commit) == 40 else "sha256") as repository:
        _fetch(repository, spec.asked["git"], commit)
        if repository.run("cat-file", "-t", commit).strip() != b"commit":
            raise LibraryError(f"The source {spec.name}: {commit} is no commit; name the one that its tag points to.")
        time = int(repository.run("show", "-s", "--no-show-signature", "--format=%ct", commit, "--"))
        listed = repository.list(f"{commit}:{spec.folder}")
        if listed is None:
            raise LibraryError(f"The source {spec.name} has no folder {spec.folder} at {commit}.")
        files = list(_files(listed, tree))
        tree.check(len(files), sum(one.size for one in files))
        for one, content in zip(files, repository.contents(files), strict=True):
            tree.add(one.path, content)
    return max(0, time)


def _fetch(repository: "_Repository", url: str, commit: str) -> None:
    """Fetch one commit, or everything where the other side does not hand out a commit by its name."""
    options = ("--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--quiet")
    with suppress(_GitError):
        repository.run("fetch", *options, "--depth=1", "--", url, commit)
        return
    repository.run("fetch", *options, "--", url, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")


def _files(listed: bytes, tree: Tree) -> Iterator[Blob]:
    """Yield the files that git lists; links and submodules are left out."""
    for line in filter(None, listed.split(b"\0")):
        said, _, path = line.partition(b"\t")
        mode, kind, number, size = said.decode().split()
        try:
            text = path.decode()
        except UnicodeDecodeError:
            tree.left_out += 1
            continue
        if kind == "blob" and mode in FILE_MODES:
            yield Blob(text, number, int(size))
        else:
            tree.left_out += 1


class _GitError(LibraryError):
    """A run of git failed."""


class _Repository:
    """A bare repository in *folder*; runs git in it."""

    def __init__(self, git: str, folder: Path, source: str) -> None:
        self._command = [git, *(part for one in SETTINGS for part in ("-c", one))]
        self._folder = folder
        self._source = source

    def run(self, *arguments: str) -> bytes:
        """Return what git prints.

        Raises:
            _GitError: It failed, or took too long.
        """
        with self._started(arguments, subprocess.DEVNULL) as process:
            try:
                output, errors = process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                raise _GitError(f"The source {self._source} cannot be read: git took over {SECONDS} s.") from None
        if process.returncode:
            raise _GitError(f"The source {self._source} cannot be read: {_reason(errors)}")
        return output

    def list(self, name: str) -> bytes | None:
        """Return git's list of all that is below a folder of a commit, or None if there is no such folder."""
        try:
            return self.run("ls-tree", "-r", "-z", "-l", "--end-of-options", name)
        except _GitError:
            return None

    def contents(self, files: Sequence[Blob]) -> Iterator[bytes]:
        """Yield the content of each of *files*, in order.

        Raises:
            LibraryError: Git ended before the last one.
        """
        with tempfile.TemporaryFile() as asked:
            asked.write("".join(f"{one.object}\n" for one in files).encode())
            asked.seek(0)
            with self._started(("cat-file", "--batch"), asked) as process:
                assert process.stdout is not None
                for one in files:
                    if process.stdout.readline().decode().split() != [one.object, "blob", str(one.size)]:
                        raise _GitError(f"The source {self._source} cannot be read: git lacks {one.path}.")
                    content = process.stdout.read(one.size + 1)  # a line end follows
                    if len(content) != one.size + 1:
                        raise _GitError(f"The source {self._source} cannot be read: git ended within {one.path}.")
                    yield content[:-1]

    @contextmanager
    def _started(self, arguments: Sequence[str], given: int | IO[bytes]) -> Iterator["subprocess.Popen[bytes]"]:
        environment = {key: value for key, value in environment_with(SAFE).items() if key not in ELSEWHERE}
        try:
            process = subprocess.Popen(  # noqa: S603 - every argument from outside is checked by the manifest
                [*self._command, *arguments],
                cwd=self._folder,
                env=environment,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if given == subprocess.DEVNULL else subprocess.DEVNULL,
                **apart(),
            )
        except OSError as problem:
            raise _GitError(f"git cannot be started: {problem.strerror}.") from None
        try:
            yield process
        finally:
            if process.poll() is None:
                kill_apart(process.pid)
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
            process.wait()


@contextmanager
def _repository(spec: SourceSpec, form: str) -> Iterator[_Repository]:
    """Yield an empty bare repository that is removed at the end."""
    git = shutil.which("git")
    if git is None:
        raise LibraryError(f"The source {spec.name} is a git repository, and there is no program git; install it.")
    with tempfile.TemporaryDirectory(prefix="orchestr8-") as folder:
        repository = _Repository(git, Path(folder), spec.name)
        repository.run("init", "--bare", "--quiet", "--template=", f"--object-format={form}", ".")
        yield repository


def _reason(errors: bytes) -> str:
    """Return the last thing that git complained of, on one line and without a login."""
    lines = [line for line in errors.decode(errors="replace").splitlines() if line.strip()]
    told = next((line for line in lines if line.startswith("fatal:")), lines[-1] if lines else "git failed")
    text = LOGIN.sub("", told.removeprefix("fatal:").strip())
    return "".join(one for one in text if one.isprintable())[:300].rstrip(".") + "."
