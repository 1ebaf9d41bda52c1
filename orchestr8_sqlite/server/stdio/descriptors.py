"""Keeps the two file descriptors of the protocol out of reach of all other code in the process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from orchestr8_sqlite.system import is_posix, let_block


class Descriptors(NamedTuple):
    """The descriptors to read messages from and to write answers to."""

    read: int
    write: int


@contextmanager
def private_descriptors() -> Iterator[Descriptors]:
    """Yield duplicates of standard input and output, and redirect the originals inside the context.

    There, descriptor 0 is empty and 1 leads to standard error, so that no stray print, from Python or C,
    and no stray read can break the protocol. No child process inherits the duplicates.
    """
    with _diverted(0, os.open(os.devnull, os.O_RDONLY)) as read, _diverted(1, os.dup(2)) as write:
        yield Descriptors(read, write)


@contextmanager
def _diverted(descriptor: int, diversion: int) -> Iterator[int]:
    """Yield a duplicate of *descriptor* while *descriptor* itself leads to *diversion*."""
    private = os.dup(descriptor)
    os.dup2(diversion, descriptor)
    os.close(diversion)
    try:
        yield private
    finally:
        if is_posix():  # elsewhere this would wait for a thread that still reads
            let_block(private)
            os.dup2(private, descriptor)
            os.close(private)
