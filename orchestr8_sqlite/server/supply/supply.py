"""Where the index comes from: a file that somebody else builds, or the folders of a library."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from orchestr8_sqlite.errors import BuildError, CatalogError
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.index.connections import Identity, identity_of
from orchestr8_sqlite.server.supply.build_process import build_once, watch_library
from orchestr8_sqlite.settings import ServerSettings

logger = logging.getLogger(__name__)

FOLLOW_SECONDS = 1.0
"""How often the index is looked at for clients that listen for changes; requests look themselves."""

OnBuilt = Callable[[], Awaitable[None]]


async def follow_file(index: Path, on_built: OnBuilt) -> None:
    """Await *on_built* whenever somebody has put another file at the place of *index*."""
    known = _identity(index)
    while True:
        await asyncio.sleep(FOLLOW_SECONDS)
        found = _identity(index)
        if found is not None and found != known:
            await on_built()
        known = found


def _identity(index: Path) -> Identity | None:
    try:
        return identity_of(index.stat())
    except OSError:
        return None


class Supply:
    """Keeps the index of a server up to date with the folders it is built from, where there are any.

    `first_build` is set once there is an index to ask: that of an earlier start, or the first one that is built now.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self.first_build = asyncio.Event()
        if not settings.roots or self._is_there():
            self.first_build.set()

    @asynccontextmanager
    async def kept_up(self, on_built: OnBuilt) -> AsyncIterator[None]:
        """Keep up as long as the context lasts; *on_built* is awaited whenever the index has changed."""
        if not self._settings.roots:
            following = asyncio.ensure_future(follow_file(self._settings.base.database, on_built))
            try:
                yield
            finally:
                following.cancel()
                await asyncio.wait([following])
            return
        ended = asyncio.Event()
        building = asyncio.ensure_future(self._build(on_built, ended))
        try:
            yield
        finally:
            ended.set()
            await building

    async def _build(self, on_built: OnBuilt, ended: asyncio.Event) -> None:
        roots, index, deny = self._settings.roots, self._settings.base.database, self._settings.deny
        if self._settings.watch:
            await watch_library(roots, index, on_built, ended, first_build=self.first_build, deny=deny)
            return
        once = asyncio.ensure_future(build_once(roots, index, deny))
        ending = asyncio.ensure_future(ended.wait())
        await asyncio.wait({once, ending}, return_when=asyncio.FIRST_COMPLETED)
        for task in (once, ending):
            task.cancel()
        try:
            await asyncio.wait({once})
            self.first_build.set()
            once.result()
        except asyncio.CancelledError:
            logger.info("not built", extra={"reason": "the server ends"})
        except BuildError as problem:
            logger.error("not built", extra={"reason": str(problem)})  # noqa: TRY400 - one line, no traceback
        else:
            await on_built()

    def _is_there(self) -> bool:
        """Tell whether there is an index that leaves out what this server must not serve."""
        try:
            with Catalog.open(self._settings.base.database) as catalog:
                return self._settings.deny in (None, catalog.meta.get("denied"))
        except CatalogError:
            return False
