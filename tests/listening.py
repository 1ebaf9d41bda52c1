"""A server process that builds its index itself, and a client over pipes that hears what it is told."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeVar

import pytest
from servers import INITIALIZE, INITIALIZED, META, lines, release, request

HANDSHAKE, MODERN = "2025-11-25", "2026-07-28"
EVERYTHING = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
PATIENCE = 30.0
"""Seconds after which what was waited for is taken as never coming."""

needs_proc = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")

Message = dict[str, Any]
T = TypeVar("T")


def processes(index: Path) -> list[int]:
    """Return the processes that were started to build *index*, or an index in the folder *index*."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if str(index).encode() in command:
            found.append(int(folder.name))
    return found


class Listener:
    """A client of `serve` with *options*, which keeps its indexes in the folder *cache*.

    `log` holds what the server has logged so far.
    """

    def __init__(self, cache: Path, *options: str, revision: str = HANDSHAKE, **variables: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ORCHESTR8_")}
        self.revision = revision
        self.log: list[Message] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "orchestr8_sqlite", "serve", "--log-format", "json", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**kept, "PYTHONPATH": str(Path.cwd()), "XDG_CACHE_HOME": str(cache), **variables},
            cwd=cache,
        )
        self._replies: dict[object, Message] = {}
        self._heard: list[Message] = []
        self._came = threading.Condition()
        self._last_id = 0
        self._listening: int | None = None
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self._take), daemon=True),
            threading.Thread(target=self._read, args=(self.process.stderr, self.log.append), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def send(self, *messages: object) -> None:
        """Send messages as they are, in one go."""
        assert self.process.stdin is not None
        self.process.stdin.write(lines(*messages))
        self.process.stdin.flush()

    def make(self, method: str, **params: object) -> Message:
        """Return the next request."""
        self._last_id += 1
        envelope = {"_meta": META} if self.revision == MODERN else {}
        return request(self._last_id, method, **params, **envelope)

    def reply(self, asked: Message) -> Message:
        """Return the answer to the request *asked*."""
        return self._await(lambda: self._replies.pop(asked["id"], None))

    def answer(self, method: str, **params: object) -> Message:
        """Send a request and return its answer, which holds `result` or `error`."""
        asked = self.make(method, **params)
        self.send(asked)
        return self.reply(asked)

    def ask(self, method: str, **params: object) -> Message:
        """Send a request and return its result."""
        answer = self.answer(method, **params)
        assert "result" in answer, answer
        result: Message = answer["result"]
        return result

    def listen(self, *uris: str) -> None:
        """Begin to listen to all lists and to *uris*, in the form of the revision."""
        if self.revision == MODERN:
            asked = self.make("subscriptions/listen", notifications={**EVERYTHING, "resourceSubscriptions": list(uris)})
            self._listening = asked["id"]
            self.send(asked)
            assert self.hear() == ["notifications/subscriptions/acknowledged"]
        else:
            self.send(INITIALIZE, INITIALIZED)
            self.reply(INITIALIZE)
            for uri in uris:
                assert self.ask("resources/subscribe", uri=uri) == {}

    def hear(self, count: int = 1) -> list[str]:
        """Return the next *count* notifications, in alphabetical order: methods, with the URI where there is one."""
        return sorted(
            self._name(self._await(lambda: self._heard.pop(0) if self._heard else None)) for _ in range(count)
        )

    def unheard(self) -> list[str]:
        """Return the notifications that nobody has heard yet, once those under way have come."""
        self.ask("tools/list")
        return [self._name(self._heard.pop(0)) for _ in range(len(self._heard))]

    def logged(self, message: str, **fields: object) -> Message:
        """Return the first line of the log with *message* and *fields*, as soon as it is there."""

        def find() -> Message | None:
            return next((line for line in self.log if {"message": message, **fields}.items() <= line.items()), None)

        return self._await(find)

    def search(self, query: str) -> str:
        """Return the text that the tool `search` answers."""
        return str(self.ask("tools/call", name="search", arguments={"query": query})["content"][0]["text"])

    def read(self, uri: str) -> str:
        """Return the text of a resource."""
        return str(self.ask("resources/read", uri=uri)["contents"][0]["text"])

    def end(self, number: int | None = None) -> float:
        """End the server by signal *number*, else by the end of its input; return the seconds that it takes."""
        assert self.process.stdin is not None
        started = time.monotonic()
        if number is None:
            self.process.stdin.close()
        else:
            self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        taken = time.monotonic() - started
        assert code == (-signal.SIGKILL if number == signal.SIGKILL else 0)
        return taken

    def close(self) -> None:
        """End the server, however it is, and close its pipes."""
        self.process.kill()
        for reader in self._readers:
            reader.join()
        release(self.process)

    def _read(self, stream: IO[bytes], take: Callable[[Message], None]) -> None:
        for line in stream:
            message = json.loads(line)
            with self._came:
                take(message)
                self._came.notify_all()

    def _take(self, message: Message) -> None:
        if "method" in message:
            self._heard.append(message)
        else:
            self._replies[message["id"]] = message

    def _await(self, look: Callable[[], T | None]) -> T:
        ended = time.monotonic() + PATIENCE
        with self._came:
            while (found := look()) is None:
                assert self._came.wait(ended - time.monotonic()), (self._heard, self.log[-5:])
        return found

    def _name(self, message: Message) -> str:
        """Return what a notification says, having looked whether it has the form of the revision."""
        params = message.get("params", {})
        key = "io.modelcontextprotocol/subscriptionId"
        assert params.get("_meta", {}).get(key) == self._listening, message
        return " ".join([message["method"], *([params["uri"]] if "uri" in params else [])])
