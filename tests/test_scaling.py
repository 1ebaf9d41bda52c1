"""The commands of docs/scaling.md do what it says, with a folder as the store."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import markdown, rows, write_files

from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.settings import Settings

SCALING = Path(__file__).parents[1] / "docs" / "scaling.md"
BLOCKS = {
    name: text for text, name in re.findall(r"```sh\n(# (\w+):.*?)```", SCALING.read_text(encoding="utf-8"), re.DOTALL)
}
RETRY = markdown("useWhen: [Retrying a flaky call]", "# Retry\n\nWait.\n")

pytestmark = pytest.mark.slow


class Place:
    """A library, a store and a replica below one folder."""

    def __init__(self, folder: Path) -> None:
        self.library = write_files(folder / "library", {"skills/retry.md": RETRY})
        self.store, self.builder, self.replica = (folder / name for name in ("store", "builder", "replica"))
        for made in (self.store, self.builder, self.replica):
            made.mkdir()

    def run(self, block: str, folder: Path) -> int:
        """Run a block of the document in *folder* and return the exit code."""
        programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = {**os.environ, "PATH": programs, "STORE": str(self.store), "LIBRARY": str(self.library)}
        return subprocess.run(
            ["sh", "-c", BLOCKS[block]], cwd=folder, env=environment, capture_output=True, check=False
        ).returncode

    def publish(self) -> str:
        """Publish the library and return the name of the file."""
        assert self.run("publish", self.builder) == 0
        return (self.store / "current").read_text(encoding="utf-8").strip()

    def pull(self) -> int:
        return self.run("pull", self.replica)

    @property
    def taken(self) -> Path:
        """Return the index of the replica."""
        return self.replica / "index.db"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_what_is_published_is_served_by_a_replica_without_a_restart(place: Place) -> None:
    place.publish()
    assert place.pull() == 0
    service = Service(Settings(place.taken, "info", 200))
    assert "Wait." in service.read("orchestr8://skills/retry").text
    write_files(place.library, {"skills/retry.md": RETRY.replace("Wait.", "Wait longer.")})
    place.publish()
    assert place.pull() == 0
    assert "Wait longer." in service.read("orchestr8://skills/retry").text
    service.close()


def test_what_has_not_changed_keeps_its_name_and_is_not_fetched_again(place: Place) -> None:
    first = place.publish()
    place.pull()
    inode = place.taken.stat().st_ino
    assert place.publish() == first
    assert place.pull() == 0
    assert place.taken.stat().st_ino == inode
    assert sorted(path.name for path in place.store.iterdir()) == sorted([first, "current"])


@pytest.mark.parametrize("fault", ["cut off", "of another program", "missing"])
def test_a_replica_keeps_its_index_where_the_new_one_cannot_be_used(place: Place, fault: str) -> None:
    place.publish()
    place.pull()
    kept = place.taken.read_bytes()
    write_files(place.library, {"skills/retry.md": RETRY.replace("Wait.", "Wait longer.")})
    published = place.store / place.publish()
    match fault:
        case "cut off":
            published.write_bytes(published.read_bytes()[:-4096])
        case "missing":
            published.unlink()
        case _:
            publish_something_else(place.store)
    assert place.pull() != 0
    assert place.taken.read_bytes() == kept
    assert rows(place.taken, "PRAGMA integrity_check") == [("ok",)]


def publish_something_else(store: Path) -> None:
    """Publish a whole file that is no index of this program."""
    other = store / "other"
    other.write_bytes(b"no index")
    done = subprocess.run(["sha256sum", str(other)], capture_output=True, text=True, check=True)
    name = f"{done.stdout.split()[0]}.db"
    other.rename(store / name)
    (store / "current").write_text(name, encoding="utf-8")
