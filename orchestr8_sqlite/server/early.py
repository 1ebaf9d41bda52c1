"""The time before the SDK is imported: the first line of input is read, and answered where that can be done."""

import os
import signal
import threading
from collections.abc import Callable
from functools import cached_property

from orchestr8_sqlite.server.descriptors import Descriptors
from orchestr8_sqlite.server.greeting import greet
from orchestr8_sqlite.server.identity import FRESH_MS
from orchestr8_sqlite.system import can_be_polled, has_ended, let_block, polling

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))
"""What asks the process to end."""

LONGEST = 64 * 1024
"""Bytes of a first line that is waited for; a longer one is left to the SDK."""


class Opening:
    """Reads the first line while the SDK is being imported, and answers a greeting at once.

    It takes no byte behind that line, so that whatever follows waits in the pipe. Only pipes and
    sockets are read; elsewhere nothing is taken, and the SDK begins at the first byte.
    """

    def __init__(
        self,
        descriptors: Descriptors,
        introduce: Callable[[], str],
        *,
        at_end: Callable[[], None],
        fresh_ms: int = FRESH_MS,
    ) -> None:
        """Prepare; nothing is read yet.

        Args:
            descriptors: Where the client is.
            introduce: Gives the instructions of the server.
            fresh_ms: Milliseconds for which a client may take an answer for current.
            at_end: Called, perhaps in another thread, where input ends, or `stop` is called, and nothing
                is left to answer.
        """
        self._descriptors = descriptors
        self._introduce = introduce
        self._fresh_ms = fresh_ms
        self._at_end = at_end
        self._taken = bytearray()
        self._answered = False
        self._stopping = False
        self._wake: int | None = None
        self._thread: threading.Thread | None = None

    @cached_property
    def introduction(self) -> str:
        """Return the instructions of the server, the same for the early answer and for all later ones."""
        return self._introduce()

    @property
    def taken(self) -> bytes:
        """Return what was read, at most one line; it still has to be handed to the SDK."""
        return bytes(self._taken)

    @property
    def answered(self) -> bool:
        """Tell whether what was read is one request and has its answer."""
        return self._answered

    @property
    def stopping(self) -> bool:
        """Tell whether the server was asked to stop."""
        return self._stopping

    def stop(self) -> None:
        """End now where nothing is left to answer; else let the server do so once that is answered."""
        self._stopping = True
        if not self._owes_an_answer():
            self._at_end()

    def _owes_an_answer(self) -> bool:
        return bool(self._taken) and not self._answered

    def begin(self) -> None:
        """Answer what is already there, and go on reading in a thread until `finish`."""
        if not can_be_polled(self._descriptors.read):
            return
        for descriptor in self._descriptors:
            let_block(descriptor)
        woken, self._wake = os.pipe()
        settled = threading.Event()
        self._thread = threading.Thread(target=self._listen, args=(woken, settled), name="opening", daemon=True)
        self._thread.start()
        settled.wait()

    def finish(self) -> None:
        """Stop reading; from now on the input belongs to the caller."""
        if self._thread is None or self._wake is None:
            return
        os.close(self._wake)
        self._thread.join()

    def _listen(self, woken: int, settled: threading.Event) -> None:
        """Take the first line; then wait until `finish`, or until input ends behind it."""
        wait = polling(self._descriptors.read, woken)
        try:
            while not self._line_is_taken() and self._is_ready(wait, woken, settled):
                if not self._take_byte():
                    break
            self._answer()
            settled.set()
            if self._owes_an_answer():
                return
            if self._stopping or (self._is_ready(wait, woken, settled) and has_ended(self._descriptors.read)):
                self._at_end()
        finally:
            settled.set()
            os.close(woken)

    def _take_byte(self) -> bool:
        """Read a byte; tell whether there was one."""
        try:
            byte = os.read(self._descriptors.read, 1)
        except ConnectionError:
            return False
        self._taken += byte
        return bool(byte)

    def _line_is_taken(self) -> bool:
        return self._taken.endswith(b"\n") or len(self._taken) >= LONGEST

    def _is_ready(self, wait: Callable[[int | None], list[int]], woken: int, settled: threading.Event) -> bool:
        """Tell whether input is there (or has ended) before `finish` is called."""
        ready = wait(0)
        if not ready:
            settled.set()
            ready = wait(None)
        return woken not in ready

    def _answer(self) -> None:
        answer = greet(self.taken, lambda: self.introduction, self._fresh_ms) if self._taken.endswith(b"\n") else None
        if answer is None:
            return
        try:
            while answer:
                answer = answer[os.write(self._descriptors.write, answer) :]
        except ConnectionError:
            self._at_end()
        self._answered = True
