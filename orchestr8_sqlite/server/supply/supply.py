"""Supplies the index: from a file that another program builds, from the folders of a library, or from a source."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager

from orchestr8_sqlite.errors import CatalogError
from orchestr8_sqlite.index.catalog import Catalog, identity_at
from orchestr8_sqlite.index.connections import Identity
from orchestr8_sqlite.server.supply.build_process import STARTED, build_until_done, watch_library
from orchestr8_sqlite.server.supply.freshness import LIBRARY, Freshness
from orchestr8_sqlite.settings import Address, Place, ServerSettings

FOLLOW_SECONDS = 1.0
"""Interval for checking the index on behalf of clients that listen for changes; requests check it themselves."""

OnBuilt = Callable[[], Awaitable[None]]


async def follow_index(place: Place, on_built: OnBuilt) -> None:
    """Await *on_built* whenever another index appears at *place*."""
    known = await _identity(place)
    while True:
        await asyncio.sleep(FOLLOW_SECONDS)
        found = await _identity(place)
        if found is not None and found != known:
            await on_built()
        known = found


async def _identity(place: Place) -> Identity | None:
    return await asyncio.to_thread(identity_at, place) if isinstance(place, Address) else identity_at(place)


class Supply:
    """Keeps the index of a server up to date with its source folders or its source, if it has any.

    `first_build` is set once there is an index to search, from an earlier start or the first build or pull of this one.
    `freshness` tells whether the index has fallen behind.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self.freshness = Freshness()
        self.first_build = asyncio.Event()
        if not settings.makes_index or self._is_there():
            self.first_build.set()

    @asynccontextmanager
    async def kept_up(self, on_built: OnBuilt) -> AsyncIterator[None]:
        """Keep the index up to date inside the context; await *on_built* whenever it has changed.

        The file is followed even if this server makes it: `pull`, `rollback`, and other servers of the same library
        replace it too.
        """
        following = asyncio.ensure_future(follow_index(self._settings.base.database, on_built))
        ended = asyncio.Event()
        keeping = asyncio.ensure_future(self._keep(on_built, ended)) if self._settings.makes_index else None
        try:
            yield
        finally:
            following.cancel()
            await asyncio.wait([following])
            ended.set()
            if keeping is not None:
                await keeping

    def _keep(self, on_built: OnBuilt, ended: asyncio.Event) -> Coroutine[None, None, None]:
        """Return the work that keeps the index up to date until *ended* is set."""
        index, source = self._settings.base.file, self._settings.source
        if source is not None:
            from orchestr8_sqlite.server.supply.pull_process import NOT_ASKED, follow_source  # noqa: PLC0415 - seldom

            self.freshness.lose(LIBRARY, NOT_ASKED)
            return follow_source(source, index, ended, first_pull=self.first_build, freshness=self.freshness)
        self.freshness.lose(LIBRARY, STARTED)
        keep = watch_library if self._settings.watch else build_until_done
        return keep(
            self._settings.roots,
            index,
            on_built,
            ended,
            first_build=self.first_build,
            freshness=self.freshness,
            deny=self._settings.deny,
        )

    def _is_there(self) -> bool:
        """Tell whether there is an index without the files that this server must not serve."""
        try:
            with Catalog.open(self._settings.base.database) as catalog:
                return self._settings.deny in (None, catalog.meta.get("denied"))
        except CatalogError:
            return False
