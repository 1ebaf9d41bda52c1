"""A process that has imported all that a build needs and makes a copy of itself for each: a build starts in no time.

Each line of its input asks for one build as JSON, see `Order`; it answers with one line, see `Ended`. Processes that
outlive their build come to it, and are waited for.
"""

import ctypes
import faulthandler
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from support import GARDENING, write_files

from orchestr8_sqlite import cli
from orchestr8_sqlite.builder.build import build_index
from orchestr8_sqlite.cli import app, build
from orchestr8_sqlite.library import fallbacks, transfer, yaml_text

IMPORTED = (cli, app, build, fallbacks, transfer, yaml_text)
BECOME_PARENT_OF_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER
LONGEST = 40.0
"""Seconds after which a build hangs."""

PATIENCE = 5.0
"""Seconds that a helping process has to notice that its build is gone."""


@dataclass(frozen=True)
class Order:
    """A command line, the file of its fault, where its output goes, and what is done in its process before it begins.

    `user` is whose rights it has, `bytes` how long its files may get, `changes` see `patches.py`.
    """

    arguments: Sequence[str]
    output: str
    plan: str | None = None
    user: int | None = None
    bytes: int | None = None
    kill_after: float | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Ended:
    """How a build ended: its exit code, a signal as a negative number; None where it hung; who outlived it for long."""

    code: int | None
    seconds: float
    lingering: int


def main() -> int | None:
    """Start a build for each line of the input; return the exit code of a build in its own process."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(BECOME_PARENT_OF_ORPHANS, 1, 0, 0, 0)
    _import_all()
    for line in sys.stdin:
        order = Order(**json.loads(line))
        began = time.monotonic()
        child = os.fork()
        if child == 0:
            return _run(order)
        code = _waited(child, order.kill_after, began)
        ended = Ended(code, time.monotonic() - began, _lingering(child))
        sys.stdout.write(json.dumps(asdict(ended)) + "\n")
        sys.stdout.flush()
    return None


def _import_all() -> None:
    """Build once each way, so that builds with fewer rights need import nothing more."""
    with tempfile.TemporaryDirectory() as folder:
        root, index = Path(folder, "library"), Path(folder, "index.db")
        write_files(root, GARDENING)
        for text in ("# One\n", "# Two\n"):
            write_files(root, {"guides/one.md": text})
            build_index([root], index)
    while threading.active_count() > 1:  # one frees the old index
        time.sleep(0.001)


def _run(order: Order) -> int:
    """Be the build."""
    os.setsid()
    output = os.open(order.output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    faulthandler.register(signal.SIGUSR2, all_threads=True)
    faulthandler.dump_traceback_later(LONGEST - 5)
    if order.bytes is not None:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (order.bytes, order.bytes))
    if order.user is not None:
        os.setgroups([])
        os.setgid(order.user)
        os.setuid(order.user)
    if order.changes:
        from torture.patches import apply

        apply(order.changes)
    if order.plan is not None and ctypes.CDLL(None).torture_arm(order.plan.encode()):
        return 99
    sys.argv = ["orchestr8-sqlite", *order.arguments]
    try:
        cli.main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    return 0


def _waited(child: int, kill_after: float | None, began: float) -> int | None:
    """Return how *child* ended; it is killed after so many seconds where that is wanted, and its helpers live on."""
    while time.monotonic() - began < LONGEST:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if kill_after is not None and time.monotonic() - began > kill_after:
            os.kill(child, signal.SIGKILL)
            kill_after = None
        time.sleep(0.001)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _lingering(group: int) -> int:
    """Return how many processes of a group outlive their build for long; they are ended then."""
    began = time.monotonic()
    is_over = False
    count = 0
    while True:
        try:
            ended, _ = os.waitpid(-group, os.WNOHANG)
        except ChildProcessError:
            return count
        if ended:
            count += is_over
        elif not is_over and time.monotonic() - began > PATIENCE:
            os.killpg(group, signal.SIGKILL)
            is_over = True
        else:
            time.sleep(0.002)


if __name__ == "__main__":
    sys.exit(main())
