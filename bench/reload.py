"""Hot reload: milliseconds from a save until a connected client knows, median and worst of 20 saves.

    told    until it has the notification that the resource it subscribed to has changed
    read    until it has read the new text after that; bound 1000

For the shipped library and, where ../shared/corpora is there (ORCHESTR8_SHARED names another place), for copies of
the 413 fragments and the 2,294 skills in it.

Usage: python bench/reload.py
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from startup import INITIALIZE, INITIALIZED

SAVES = 20
BOUND = 1000
CALM_SECONDS = 0.5
"""Between two saves, so that each is one of its own."""

SHARED = Path(os.environ.get("ORCHESTR8_SHARED", Path(__file__).parents[2] / "shared"))
LIBRARIES = {
    "shipped": (Path(__file__).parents[1] / "resources", "", "skills/*.md"),
    "fragments": (SHARED / "corpora/orchestr8", "", "skills/*.md"),
    "skills": (SHARED / "corpora/skills", "skills", "skills/*/*.md"),
}
"""The folder of each library, and where in a library it belongs, and which of its files are saved."""


class Client:
    """A client of a server that watches *root*, once the index is built."""

    def __init__(self, root: Path, cache: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "orchestr8_sqlite", "serve", "--root", str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        )
        self._send(INITIALIZE)
        self._send(INITIALIZED)
        self.ask("resources/list")

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        """Return the result of a request."""
        self._send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        while (message := self._receive()).get("id") != 1:
            pass
        result: dict[str, Any] = message["result"]
        return result

    def wait_for_update(self) -> None:
        """Return once a resource is said to have changed."""
        while self._receive().get("method") != "notifications/resources/updated":
            pass

    def close(self) -> None:
        """End the server."""
        self._process.communicate()

    def _send(self, message: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        message: dict[str, Any] = json.loads(self._process.stdout.readline())
        return message


def measure(library: Path, place: str, saved: str, folder: Path) -> list[tuple[float, float]]:
    """Return the milliseconds (told, read) of each save in a copy of *library*."""
    root = folder / "library"
    shutil.copytree(library, root / place)
    client = Client(root, folder / "cache")
    files = sorted(root.glob(saved))
    times = []
    for number in range(SAVES):
        file = files[number * len(files) // SAVES]
        uri = "orchestr8://" + file.relative_to(root).with_suffix("").as_posix()
        client.ask("resources/subscribe", uri=uri)
        text = file.read_text(encoding="utf-8") + f"\nSaved the {number}th time.\n"
        time.sleep(CALM_SECONDS)
        started = time.perf_counter()
        file.write_text(text, encoding="utf-8")
        client.wait_for_update()
        told = time.perf_counter()
        assert f"the {number}th time" in client.ask("resources/read", uri=uri)["contents"][0]["text"]
        times.append(((told - started) * 1000, (time.perf_counter() - started) * 1000))
    client.close()
    return times


def main() -> None:
    """Print two lines a library."""
    for name, (library, place, saved) in LIBRARIES.items():
        if not library.is_dir():
            sys.stdout.write(f"{name:<11}skipped: {library} is not there\n")
            continue
        with tempfile.TemporaryDirectory() as folder:
            times = measure(library, place, saved, Path(folder))
        for kind, column in zip(("told", "read"), zip(*times, strict=True), strict=True):
            median, worst = statistics.median(column), max(column)
            sys.stdout.write(f"{name:<11}{kind}{median:8.0f} ms  worst {worst:6.0f} ms  bound {BOUND}\n")


if __name__ == "__main__":
    main()
