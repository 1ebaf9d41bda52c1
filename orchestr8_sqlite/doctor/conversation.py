"""Talks to a server process, with a time limit on every wait."""

import json
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self

from orchestr8_sqlite.clients.launch import own_programs
from orchestr8_sqlite.settings import environment_with
from orchestr8_sqlite.system import apart, kill_apart

LONGEST_LINE = 16 * 1024 * 1024
"""Maximum bytes to read of one line."""


class Launch(NamedTuple):
    """How to start a server: the command, variables to add to this process's, and the working folder."""

    command: Sequence[str]
    variables: Mapping[str, str] = {}
    folder: str | None = None


@dataclass(frozen=True, slots=True)
class ServerReply:
    """A reply and how long it took; `message` is None if none came in time."""

    message: Mapping[str, Any] | None
    milliseconds: float

    @property
    def result(self) -> Mapping[str, Any] | None:
        """Return the result; None for an error or no reply."""
        found = (self.message or {}).get("result")
        return found if isinstance(found, dict) else None


class Conversation:
    """One server process that you talk to over its pipes. Use it as a context manager.

    Leaving the context kills the process and those that it has started, as a runner such as `uvx` does.
    """

    def __init__(self, launch: Launch, *, patience: float) -> None:
        """Start a server; no wait takes longer than *patience* seconds.

        Raises:
            OSError: It cannot be started.
        """
        self.strays: list[bytes] = []
        self._patience = patience
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._ended = False
        self._next_id = 0
        self._errors = tempfile.TemporaryFile("a+b", buffering=0)  # noqa: SIM115 - closed with the conversation
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the user's own command
                list(launch.command),
                cwd=launch.folder,
                env=environment_with(launch.variables, without=own_programs()),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                **apart(),
            )
        except OSError:
            self._errors.close()
            raise
        threading.Thread(target=self._read, name="server output", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        kill_apart(self._process.pid)
        self._process.wait()
        self._close_input()
        self._errors.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            while line := output.readline(LONGEST_LINE):
                self._lines.put(line)
        self._lines.put(None)

    def ask(self, method: str, params: Mapping[str, object]) -> ServerReply:
        """Send a request and return the reply to it; keep lines that are not messages as strays."""
        self._next_id += 1
        started = time.perf_counter()
        sent = self._send({"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params})
        message = self._await_reply(self._next_id if sent else None, started + self._patience)
        return ServerReply(message, (time.perf_counter() - started) * 1000)

    @property
    def has_ended(self) -> bool:
        """Tell whether its output was read to the end."""
        return self._ended

    def tell(self, method: str) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method})

    def finish(self) -> ServerReply:
        """End the input and wait for the process to end; `message` is {"exit": code}, or None if it does not."""
        started = time.perf_counter()
        self._close_input()
        try:
            code = self._process.wait(self._patience)
        except subprocess.TimeoutExpired:
            return ServerReply(None, (time.perf_counter() - started) * 1000)
        elapsed = (time.perf_counter() - started) * 1000
        self._await_reply(None, time.perf_counter() + self._patience)
        return ServerReply({"exit": code}, elapsed)

    def last_words(self) -> str:
        """Return the last line that the process wrote to standard error."""
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def first_error(self) -> str:
        """Return the first error in its log, without the time; empty if there is none."""
        self._errors.seek(0)
        errors = (line.partition(" error ")[2] for line in self._errors.read().decode("utf-8", "replace").split("\n"))
        return next(filter(None, errors), "").strip()

    def _send(self, message: Mapping[str, object]) -> bool:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            return False
        return True

    def _close_input(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError:
            return  # the process is gone, and what it has not read is lost

    def _await_reply(self, request_id: int | None, deadline: float) -> Mapping[str, Any] | None:
        """Return the reply to *request_id*; None at *deadline* or at the end of output."""
        while not self._ended:
            try:
                line = self._lines.get(timeout=max(deadline - time.perf_counter(), 0.001))
            except queue.Empty:
                return None
            if line is None:
                self._ended = True
                break
            message = _parse(line)
            if message is None:
                self.strays.append(line)
            elif request_id is not None and message.get("id") == request_id and "method" not in message:
                return message
        return None


def _parse(line: bytes) -> Mapping[str, Any] | None:
    """Return the message in *line*; None if it is not a message."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and value.get("jsonrpc") == "2.0" else None
