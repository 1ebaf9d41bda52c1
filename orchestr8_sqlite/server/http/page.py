"""The inspection page at /inspect: the page itself, its data, and answers to what is typed into it.

The data come from a process of its own, of the lowest priority, which starts when somebody opens the page and not again
for the same generation of the index. What it has collected stays in memory.
"""

import asyncio
import json
import logging
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Coroutine
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from orchestr8_sqlite.errors import CatalogError, RequestError, ServeError
from orchestr8_sqlite.inspection.answering import answer_live
from orchestr8_sqlite.inspection.assembly import render_served_page
from orchestr8_sqlite.server.guard import Guard
from orchestr8_sqlite.server.identity import said_of
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.settings import Address, Place
from orchestr8_sqlite.system import apart, kill_apart
from orchestr8_sqlite.text.wording import one_line

logger = logging.getLogger(__name__)

PAGE_PATH = "/inspect"
DATA_PATH = f"{PAGE_PATH}/data"
SEARCH_PATH = f"{PAGE_PATH}/search"
METHODS = {PAGE_PATH: "GET", DATA_PATH: "GET", SEARCH_PATH: "POST"}

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
"""The page's own policy stands in it; that it may not be framed has to be said here."""

NO_REQUEST = 'Send a JSON object such as {"query": "retry a flaky call"}.'


class Collected(NamedTuple):
    """What a page shows of a generation, as gzip of JSON; `is_asked` as in `Inspection`."""

    is_asked: bool
    packed: bytes


class Collector:
    """Collects what the page shows of one generation of an index at a time, in another process."""

    def __init__(self, index: Place) -> None:
        self._index = index
        self._generation: str | None = None
        self._collected: Collected | None = None
        self._collecting: asyncio.Task[None] | None = None
        self._running: set[asyncio.Task[None]] = set()
        """Also what ends the processes of this one and of earlier ones, which nothing may cut short."""
        self._has_failed = False

    def of(self, generation: str) -> Collected | None:
        """Return what is collected of *generation* so far; begin with it if nothing was.

        Raises:
            ServeError: It could not be collected. The next call tries again.
        """
        if isinstance(self._index, Address):
            raise ServeError("This page shows an index in a file, and this one is in PostgreSQL.")
        if generation == self._generation and self._has_failed:
            self._generation = None
            raise ServeError("The data of this page could not be collected; see the server's log, then load it again.")
        if generation != self._generation:
            self._stop()
            self._generation, self._collected, self._has_failed = generation, None, False
            self._collecting = self._run(self._collect(generation))
        return self._collected

    async def close(self) -> None:
        """End the process that collects."""
        self._stop()
        while self._running:
            await asyncio.wait(self._running)

    def _stop(self) -> None:
        if self._collecting is not None:
            self._collecting.cancel()

    def _run(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _collect(self, generation: str) -> None:
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "orchestr8_sqlite.inspection", str(self._index)),
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                **apart(),
            )
        )
        try:
            # asyncio loses a process whose start is cancelled
            process = await asyncio.shield(starting)
            reason = await self._follow(process, generation)
        except OSError as problem:
            reason = f"no process can be started: {problem.strerror}"
        finally:
            await asyncio.shield(self._run(_end(starting)))
        if reason:
            logger.warning("page not collected", extra={"generation": generation, "reason": reason})
            self._has_failed = True

    async def _follow(self, process: Process, generation: str) -> str:
        """Keep what *process* writes; return why it is not all of *generation*, or an empty text."""
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            while self._collected is None or not self._collected.is_asked:
                head = json.loads(await process.stdout.readline())
                packed = await process.stdout.readexactly(head["bytes"])
                if head["generation"] != generation:
                    return "the index was replaced meanwhile"
                self._collected = Collected(head["is_asked"], packed)
        except (ValueError, EOFError):  # it ended before
            said = (await process.stderr.read()).decode(errors="replace").strip()
            return one_line(said.rpartition("\n")[2], 500) or "its process ended"
        return ""


async def _end(starting: asyncio.Future[Process]) -> None:
    """End the process that is started, if it can be."""
    try:
        process = await starting
    except OSError:
        return
    if process.returncode is None:
        kill_apart(process.pid)
    await process.communicate()  # to the ends of its pipes, which would keep them open


class Page:
    """Answers the requests of a browser that shows the inspection page. Close it when done."""

    def __init__(self, service: Service, guard: Guard) -> None:
        self._service = service
        self._guard = guard
        self._collector = Collector(service.place)
        self.routes = [
            Route(PAGE_PATH, self.show, methods=["GET"]),
            Route(DATA_PATH, self.give_data, methods=["GET"]),
            Route(SEARCH_PATH, self.search, methods=["POST"]),
        ]

    async def close(self) -> None:
        """End what runs for the page."""
        await self._collector.close()

    async def show(self, _: Request) -> Response:
        """Return the page, which asks for its data."""
        return Response(render_served_page(), headers=HEADERS, media_type="text/html")

    async def give_data(self, request: Request) -> Response:
        """Return what the page shows of the index that is served.

        An empty answer, 202, says that it is being collected; with `?asked`, also while only the library's own requests
        are missing.
        """
        try:
            generation = await self._guard.in_thread(self._service.generation)
            collected = self._collector.of(generation)
        except CatalogError as problem:
            logger.error("%s", problem)  # noqa: TRY400 - one line, no traceback
            return Response(said_of(problem), 503, HEADERS)
        except ServeError as problem:
            return Response(str(problem), 503, HEADERS)
        if collected is None or ("asked" in request.query_params and not collected.is_asked):
            return Response(status_code=202, headers=HEADERS)
        headers = {**HEADERS, "Content-Encoding": "gzip"}
        return Response(collected.packed, headers=headers, media_type="application/json")

    async def search(self, request: Request) -> Response:
        """Return what the index answers to the `query` in the body, a JSON object, and the parts of each score."""
        try:
            sent = json.loads(await request.body())
        except (ValueError, RecursionError):
            sent = None
        if not isinstance(sent, dict) or not isinstance(text := sent.get("query"), str):
            return Response(NO_REQUEST, 400, HEADERS)
        try:
            answer = await self._guard.in_thread(lambda: answer_live(self._service.catalog, text))
        except RequestError as problem:
            return Response(str(problem), 400, HEADERS)
        except CatalogError as problem:
            logger.error("%s", problem)  # noqa: TRY400 - one line, no traceback
            return Response(said_of(problem), 503, HEADERS)
        return JSONResponse(answer, headers=HEADERS)
