"""The process that builds the index of a served library, and what the server does with what it says.

Building has a process of its own: it imports what serving must not, and while it computes no answer has to wait.
"""

import asyncio
import json
import logging
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio

from orchestr8_sqlite.errors import BuildError
from orchestr8_sqlite.index.leftovers import remove_leftovers
from orchestr8_sqlite.processes import Restarts
from orchestr8_sqlite.system import apart

logger = logging.getLogger(__name__)

MAX_LINE = 1 << 26
"""Bytes of one line of the building process; the first one names every file and all that is wrong with it."""

FIRST_WAIT, SECOND_WAIT = 0.12, 0.12
"""Seconds that the building process has to end once its input has, and once it is told to; then it is killed."""

OnBuilt = Callable[[], Awaitable[None]]


async def build_once(roots: Sequence[Path], index: Path, deny: str | None = None) -> None:
    """Build the index of *roots* at *index* without files that have findings of the level *deny* or worse.

    Raises:
        BuildError: It could not be built; whatever was there before is untouched.
    """
    process = await _start(roots, index, "--json", *_denying(deny))
    try:
        output, errors = await process.communicate()
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process, index)
    if process.returncode:
        lines = errors.decode(errors="replace").strip().splitlines()
        raise BuildError(lines[-1] if lines else f"The index could not be built: exit code {process.returncode}.")
    _log_built(json.loads(output), first=True)


async def watch_library(
    roots: Sequence[Path],
    index: Path,
    on_built: OnBuilt,
    stop: asyncio.Event,
    *,
    first_build: asyncio.Event,
    deny: str | None = None,
) -> None:
    """Keep the index of *roots* at *index* up to date until *stop* is set; the building process is gone then.

    A process that ends by itself, or cannot be started, is an error in the log; the index stays as it is, and another
    process is started after a pause.

    Args:
        on_built: Awaited after each build that changed the index.
        first_build: Set once the first build is done, or is known not to get done.
        deny: Level of the findings with which files are left out.
    """
    restarts = Restarts()
    while not stop.is_set():
        try:
            why = await _watch_until_ended(roots, index, on_built, stop, first_build, deny)
        except BuildError as problem:
            why = {"reason": str(problem)}
        finally:
            first_build.set()
        if stop.is_set():
            return
        pause = restarts.pause()
        logger.error("changes are not followed", extra={**why, "again_in_seconds": pause})
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)


async def _watch_until_ended(
    roots: Sequence[Path],
    index: Path,
    on_built: OnBuilt,
    stop: asyncio.Event,
    first_build: asyncio.Event,
    deny: str | None,
) -> Mapping[str, object]:
    """Follow one building process until it ends or *stop* is set, and return how it ended, for the log.

    Raises:
        BuildError: It cannot be started.
    """
    process = await _start(roots, index, "--watch", "--json", *_denying(deny))
    following = [
        asyncio.ensure_future(_follow(process, on_built, first_build)),
        asyncio.ensure_future(stop.wait()),
        asyncio.ensure_future(_log_errors(process)),
    ]
    try:
        await asyncio.wait(following[:2], return_when=asyncio.FIRST_COMPLETED)
    finally:
        with anyio.CancelScope(shield=True):
            by_itself = following[0].done() and not stop.is_set()
            await _end(process, index)
            for task in following:
                task.cancel()
            await asyncio.wait(following)
    if by_itself:
        following[0].result()  # a bug in a callback is raised here
    return {"exit_code": process.returncode}


async def _start(roots: Sequence[Path], index: Path, *options: str) -> Process:
    """Start the command `build`, with no way to the terminal and to the client's pipes.

    Raises:
        BuildError: There is no place for the index, or the command cannot be started.
    """
    try:
        index.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise BuildError(
            f"The folder {index.parent} cannot be made: {problem.strerror}; name another place for the index by --db."
        ) from problem
    folders = (str(root.resolve()) for root in roots)
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "orchestr8_sqlite", "build", *folders, "-o", str(index), *options),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            limit=MAX_LINE,
            **apart(),
        )
    except OSError as problem:
        raise BuildError(f"{sys.executable} cannot be started to build the index: {problem.strerror}.") from problem


def _denying(level: str | None) -> Sequence[str]:
    return () if level is None else ("--deny", level, "--leave-out")


async def _follow(process: Process, on_built: OnBuilt, first_build: asyncio.Event) -> None:
    assert process.stdout is not None
    first = True
    while True:
        try:
            line = await process.stdout.readline()
            event = json.loads(line) if line else None
        except ValueError:  # the line is longer than MAX_LINE, or this is the rest of such a line
            logger.warning("the report of a build is too long to be logged")
            first_build.set()
            await on_built()
            continue
        if event is None:
            return
        first_build.set()
        if event["event"] == "failed":
            logger.error("not built", extra={"reason": event["message"]})
        else:
            _log_built(event, first=first)
            await on_built()
            first = False


async def _log_errors(process: Process) -> None:
    assert process.stderr is not None
    while line := await process.stderr.readline():
        logger.warning("building", extra={"text": line.decode(errors="replace").rstrip()})


def _log_built(built: Mapping[str, Any], *, first: bool) -> None:
    """Log a build and its diagnostics; those of a first build only where they left something out."""
    diagnostics = [one for one in built["diagnostics"] if one["severity"] == "error" or not first]
    for one in diagnostics:
        place = f"{one['root']}/{one['path']}" + (f":{one['line']}" if one["line"] else "")
        level = logging.INFO if one["severity"] == "info" else logging.WARNING
        said = {"place": place, "severity": one["severity"], "code": one["code"], "text": one["message"]}
        logger.log(level, "diagnostic", extra={**said, "fix": one["fix"]})
    values = {name: built[name] for name in ("generation", "fragments", "seconds")}
    if not first:
        values["changed"] = built["changed"]
    logger.info("built", extra={**values, "diagnostics": len(built["diagnostics"])})


async def _end(process: Process, index: Path) -> None:
    """End the process: by the end of its input, then by a signal, then at once; and clear away what it left."""
    if process.returncode is None:
        assert process.stdin is not None
        process.stdin.close()
        if not await _ended(process, FIRST_WAIT):
            with suppress(ProcessLookupError):
                process.terminate()
            if not await _ended(process, SECOND_WAIT):
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
    remove_leftovers(index)


async def _ended(process: Process, seconds: float) -> bool:
    with anyio.move_on_after(seconds):
        await process.wait()
    return process.returncode is not None
