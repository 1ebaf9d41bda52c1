"""Pulls the served index from where it is published, again and again, by a process of its own.

The server keeps answering from the index it has while the source is down or offers something that is refused. The log
and `/healthz` say so, and since when.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from random import random
from typing import Any

from orchestr8_sqlite.errors import BuildError, ShippingError
from orchestr8_sqlite.processes import growing_pauses
from orchestr8_sqlite.server.supply.build_process import run_command
from orchestr8_sqlite.server.supply.freshness import LIBRARY, Freshness
from orchestr8_sqlite.settings import SourceSettings
from orchestr8_sqlite.shipping.shelf import read_state

logger = logging.getLogger(__name__)

JITTER = 0.2
"""Share by which a pause is shorter or longer than wanted, so that servers do not all ask at the same moment."""

NOT_ASKED = "its source has not been asked since the start"
FAILED = "the last pull from its source failed"
"""Reasons why a library is stale, as clients see them."""

SHOWN = ("channel", "serial", "generation", "published")


async def follow_source(
    source: SourceSettings,
    index: Path,
    stop: asyncio.Event,
    *,
    first_pull: asyncio.Event,
    freshness: Freshness,
) -> None:
    """Keep *index* what *source* offers until *stop* is set; on return no process pulls any more.

    Args:
        first_pull: Set once the first pull is done or has failed.
        freshness: Told of failed pulls.
    """
    _log_start(index)
    pauses = growing_pauses()
    logged: tuple[str, int] | None = None
    while True:
        report = await _pull(source, index, stop)
        if stop.is_set():
            return
        first_pull.set()  # before anybody is told: who looks then waits for it
        if isinstance(report, str):
            freshness.lose(LIBRARY, FAILED)
            pause = _varied(min(next(pauses), source.every))
            said = {"reason": report, **_serving(index), "stale_since": freshness.said()[0]["since"]}
            logger.error("not pulled", extra={**said, "again_in_seconds": round(pause, 1)})
        else:
            pauses, pause = growing_pauses(), _varied(source.every)
            freshness.restore(LIBRARY)
            outcome = report["outcome"], report["serial"]
            if report["outcome"] != "current" and outcome != logged:  # a release is held for long
                logger.info(report["outcome"], extra={name: report[name] for name in SHOWN})
                logged = outcome
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)


async def _pull(source: SourceSettings, index: Path, stop: asyncio.Event) -> Mapping[str, Any] | str:
    """Return the report of one pull, or why it failed; end it as soon as *stop* is set."""
    key = ("--require-signature", source.key) if source.key is not None else ()
    options = ("--channel", source.channel, "-o", str(index), "--no-lock", "--json", *key)
    pulling = asyncio.ensure_future(run_command(index, "pull", source.place, *options))
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait([pulling, stopping], return_when=asyncio.FIRST_COMPLETED)
    for task in (pulling, stopping):
        task.cancel()
    await asyncio.wait([pulling, stopping])
    if pulling.cancelled():
        return "the server ends"
    try:
        return pulling.result()
    except (BuildError, ValueError) as problem:  # or a report that was cut off
        return str(problem)


def _varied(seconds: float) -> float:
    return seconds * (1 + JITTER * (2 * random() - 1))  # noqa: S311 - no secret


def _log_start(index: Path) -> None:
    """Log which release of an earlier start is served until the first pull, and how old it is."""
    if said := _serving(index):
        logger.info("serving what was pulled before", extra=said)


def _serving(index: Path) -> Mapping[str, object]:
    """Return which release is served, when it was published, and when its source was last asked with success."""
    try:
        state = read_state(index)
    except ShippingError:
        return {}
    if not state.history:
        return {}
    last = state.history[-1]
    return {"serial": last.release.serial, "published": last.release.published, "checked": state.checked}
