"""Measures hot reload: from saving a file until a client is notified, and until it has read the new text."""

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

from figures import SKILLS, Figure
from startup import INITIALIZE, INITIALIZED

SAVES = 20
CALM_SECONDS = 0.5
"""Pause between two saves, so that the server sees each by itself."""

SHARED = Path(os.environ.get("ORCHESTR8_SHARED", Path(__file__).parents[2] / "shared"))
LIBRARY = SHARED / "corpora/skills"
"""2,294 Agent Skills by other authors, which are not part of this repository."""


class Client:
    """A client of a server that watches *root*; ready when the index is built."""

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
        """Return when the server says that a resource has changed."""
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


def measure_reload(library: Path = LIBRARY, size: int = SKILLS) -> list[Figure]:
    """Return the median milliseconds from a save until the client is told, and until it has read the new text."""
    with tempfile.TemporaryDirectory() as folder:
        times = save_again_and_again(library, Path(folder))
    return [
        Figure(f"saved file, {what}", size, statistics.median(column), "ms", runs=SAVES)
        for what, column in zip(("told", "answered"), zip(*times, strict=True), strict=True)
    ]


def save_again_and_again(library: Path, folder: Path) -> list[tuple[float, float]]:
    """Return the milliseconds (told, answered) of SAVES saves in a copy of *library*, each to a different file."""
    root = folder / "library"
    shutil.copytree(library, root / "skills")
    client = Client(root, folder / "cache")
    files = sorted(root.glob("skills/*/*.md"))
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
