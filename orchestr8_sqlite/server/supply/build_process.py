"""Runs the process that builds the index of a served library, and acts on its reports.

Building has its own process: it imports what serving must not, and its computing delays no answer.
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
from orchestr8_sqlite.server.supply.freshness import LIBRARY, Freshness
from orchestr8_sqlite.system import apart

logger = logging.getLogger(__name__)

MAX_LINE = 1 << 26
"""Longest line of the building process, in bytes; the first lists every file and its diagnostics."""

FIRST_WAIT, SECOND_WAIT = 0.12, 0.12
"""Seconds for the building process to end after its input is closed, and then after SIGTERM; then it is killed."""

STARTED = "the first build since the start has not finished"
FAILED = "the last build failed"
ENDED = "the process that follows changes has ended"
"""Reasons why a library is stale, as clients see them."""

OnBuilt = Callable[[], Awaitable[None]]


async def build_once(roots: Sequence[Path], index: Path, deny: str | None = None) -> None:
    """Build the index of *roots* at *index*, without files that have findings of level *deny* or worse.

    Raises:
        BuildError: The build failed; an earlier index is untouched.
    """
    _log_built(await run_command(index, *_build(roots, index), "--json", *_denying(deny)), first=True)


async def run_command(index: Path, *arguments: str) -> Mapping[str, Any]:
    """Run a command of this program that makes *index*, in a process of its own, and return what it reports as JSON.

    Raises:
        BuildError: It failed; the message is its last line.
    """
    process = await _start(index, *arguments)
    try:
        output, errors = await process.communicate()
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process, index)
    if process.returncode:
        lines = errors.decode(errors="replace").strip().splitlines()
        raise BuildError(lines[-1] if lines else f"`{arguments[0]}` failed with exit code {process.returncode}.")
    report: Mapping[str, Any] = json.loads(output)
    return report


async def build_until_done(
    roots: Sequence[Path],
    index: Path,
    on_built: OnBuilt,
    stop: asyncio.Event,
    *,
    first_build: asyncio.Event,
    freshness: Freshness,
    deny: str | None = None,
) -> None:
    """Build the index of *roots* at *index*, with a pause after each failure, until it is done or *stop* is set.

    The arguments are those of `watch_library`.
    """

    async def build() -> Mapping[str, object] | None:
        tasks = [asyncio.ensure_future(build_once(roots, index, deny)), asyncio.ensure_future(stop.wait())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        if tasks[0].cancelled():
            logger.info("not built", extra={"reason": "the server ends"})
            return None
        tasks[0].result()
        first_build.set()
        freshness.restore(LIBRARY)
        await on_built()
        return None

    await _supervise(build, stop, first_build, freshness, "not built", FAILED)


async def watch_library(
    roots: Sequence[Path],
    index: Path,
    on_built: OnBuilt,
    stop: asyncio.Event,
    *,
    first_build: asyncio.Event,
    freshness: Freshness,
    deny: str | None = None,
) -> None:
    """Keep the index of *roots* at *index* up to date until *stop* is set; on return the building process has ended.

    If the process ends by itself or cannot be started, that is logged as an error, the index stays as it is, and
    another process starts after a pause.

    Args:
        on_built: Awaited after each build that changed the index.
        first_build: Set once the first build is done or has failed.
        freshness: Told of failed builds, and of the time without a process.
        deny: Files with findings of this level or worse are left out.
    """

    async def watch() -> Mapping[str, object] | None:
        process = await _start(index, *_build(roots, index), "--watch", "--json", *_denying(deny))
        await _watch_until_ended(process, index, stop, _follow(process, on_built, first_build, freshness))
        return None if stop.is_set() else {"exit_code": process.returncode}

    await _supervise(watch, stop, first_build, freshness, "changes are not followed", ENDED)


async def _supervise(
    work: Callable[[], Awaitable[Mapping[str, object] | None]],
    stop: asyncio.Event,
    first_build: asyncio.Event,
    freshness: Freshness,
    failure: str,
    why: str,
) -> None:
    """Do *work* until it succeeds or *stop* is set, with a pause after each failure.

    Args:
        work: Runs one building process to its end; returns details of a failure for the log, or None on success.
        failure: Log message for a failure.
        why: Why the library is stale after a failure, as clients see it.
    """
    restarts = Restarts(asyncio.get_running_loop().time)
    while not stop.is_set():
        try:
            said = await work()
        except BuildError as problem:
            said = {"reason": str(problem)}
        except Exception as bug:
            logger.exception("internal error while following changes")
            said = {"reason": type(bug).__name__}
        finally:
            first_build.set()
        if said is None:
            return
        freshness.lose(LIBRARY, why)
        pause = restarts.pause()
        since = freshness.said()[0]["since"]
        logger.error(failure, extra={**said, "stale_since": since, "again_in_seconds": pause})
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)


async def _watch_until_ended(process: Process, index: Path, stop: asyncio.Event, following: Awaitable[None]) -> None:
    """Follow a building process until it ends or *stop* is set; on return it has ended."""
    tasks = [
        asyncio.ensure_future(following),
        asyncio.ensure_future(stop.wait()),
        asyncio.ensure_future(_log_errors(process)),
    ]
    try:
        await asyncio.wait(tasks[:2], return_when=asyncio.FIRST_COMPLETED)
    finally:
        with anyio.CancelScope(shield=True):
            by_itself = tasks[0].done() and not stop.is_set()
            await _end(process, index)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
    if by_itself:
        tasks[0].result()  # raises the error of a bug in a callback


async def _start(index: Path, *arguments: str) -> Process:
    """Start a command of this program, without access to the terminal or the client's pipes.

    Raises:
        BuildError: The folder of the index cannot be created, or the command cannot be started.
    """
    try:
        index.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise BuildError(
            f"The folder {index.parent} cannot be created: {problem.strerror}; choose another index file with --db."
        ) from problem
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "orchestr8_sqlite", *arguments),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            limit=MAX_LINE,
            **apart(),
        )
    except OSError as problem:
        why = f"{sys.executable} cannot be started to {arguments[0]} the index: {problem.strerror}."
        raise BuildError(why) from problem


def _build(roots: Sequence[Path], index: Path) -> Sequence[str]:
    return "build", *(str(root.resolve()) for root in roots), "-o", str(index), "--no-reviews"


def _denying(level: str | None) -> Sequence[str]:
    return () if level is None else ("--deny", level, "--leave-out")


async def _follow(process: Process, on_built: OnBuilt, first_build: asyncio.Event, freshness: Freshness) -> None:
    """Act on the reports of a building process until it ends."""
    assert process.stdout is not None
    first = True
    while True:
        try:
            line = await process.stdout.readline()
            report = json.loads(line) if line.endswith(b"\n") else None  # the end may cut a report off
        except ValueError:  # the line is longer than MAX_LINE, or this is the rest of such a line
            logger.warning("the report of a build is too long to log")
            report = {"event": "unknown"}
        if report is None:
            return
        first_build.set()
        if report["event"] == "failed":
            logger.error("not built", extra={"reason": report["message"]})
            freshness.lose(LIBRARY, FAILED)
            continue
        if report["event"] == "built":
            _log_built(report, first=first)
            first = False
        _restore(freshness)
        if report["event"] != "current":
            await on_built()


def _restore(freshness: Freshness) -> None:
    """Note that the index matches the library; log this after a failure."""
    stale = freshness.of(LIBRARY)
    seconds = freshness.restore(LIBRARY)
    if stale is not None and seconds is not None and stale.why != STARTED:
        logger.info("changes are followed again", extra={"stale_seconds": round(seconds, 1)})


async def _log_errors(process: Process) -> None:
    assert process.stderr is not None
    while line := await process.stderr.readline():
        logger.warning("building", extra={"text": line.decode(errors="replace").rstrip()})


def _log_built(built: Mapping[str, Any], *, first: bool) -> None:
    """Log a build and its diagnostics; for the first build, only errors."""
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
    """End the process by closing its input, then with SIGTERM, then by killing it; remove what it left."""
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
