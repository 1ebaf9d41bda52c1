"""Where the index comes from: a file that somebody else builds, or the folders of a library."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from orchestr8_sqlite.errors import BuildError, CatalogError
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.server.supply.build_process import build_once, watch_library
from orchestr8_sqlite.settings import ServerSettings

logger = logging.getLogger(__name__)

OnBuilt = Callable[[], Awaitable[None]]


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
        """Build as long as the context lasts; *on_built* is awaited after each build that changed the index."""
        if not self._settings.roots:
            yield
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
