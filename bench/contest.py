"""Runs other search programs, each in a process of its own, on the same queries."""

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from footprint import MEGABYTE, resident

HERE = Path(__file__).parent
PYTHON = HERE / ".venv" / "bin" / "python"
PEERS = {
    "bm25s": "bm25s_peer.py",
    "tantivy": "tantivy_peer.py",
    "fuzzy scan": "scan_peer.py",
    "MiniSearch": "minisearch_peer.mjs",
}
"""Name → program in peers/. Each reads documents, one per line, then lists of queries, one list per line."""


class MissingPeer(Exception):
    """A peer cannot run here; the message says why."""


class Peer:
    """A running peer that has built its index. Close it when done."""

    def __init__(self, name: str, documents: Path) -> None:
        self._process = subprocess.Popen(
            peer_command(name, documents), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        ready = self._receive()
        self.build_seconds = float(ready["seconds"])
        self.found = 0

    def times(self, queries: Sequence[str], seconds: float) -> list[float]:
        """Return the milliseconds that each of *queries* takes; those not begun within *seconds* are left out."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"queries": list(queries), "seconds": seconds}) + "\n")
        self._process.stdin.flush()
        answer = self._receive()
        self.found = int(answer["found"])
        return [float(time) for time in answer["ms"]]

    @property
    def memory(self) -> float:
        """Return the resident memory of the process, in MB."""
        return resident(self._process.pid) / MEGABYTE

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise MissingPeer("it ended before it answered; see its output above.")
        message: dict[str, Any] = json.loads(line)
        return message


def peer_command(name: str, documents: Path) -> list[str]:
    """Return the command that runs the peer *name* over *documents*.

    Raises:
        MissingPeer: Something that the peer needs is not installed.
    """
    program = HERE / "peers" / PEERS[name]
    if program.suffix == ".py":
        if not PYTHON.is_file():
            raise MissingPeer("its environment bench/.venv is missing; `make bench` makes it.")
        return [str(PYTHON), str(program), str(documents)]
    node = shutil.which("node")
    if node is None or not (HERE / "node_modules" / "minisearch").is_dir():
        raise MissingPeer("Node.js or bench/node_modules is missing; `make bench` installs the latter with npm.")
    return [node, f"--max-old-space-size={16_384}", str(program), str(documents)]


def open_peers(documents: Path) -> tuple[dict[str, Peer], Mapping[str, str]]:
    """Return the peers that run here, by name, and for each of the others why it does not."""
    peers, missing = {}, {}
    for name in PEERS:
        try:
            peers[name] = Peer(name, documents)
        except MissingPeer as reason:
            missing[name] = str(reason)
    return peers, missing
