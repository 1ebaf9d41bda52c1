"""`build --watch`: prints a line per build, until interrupted or until the program that started it is gone."""

import _thread
import json
import os
import signal
import stat
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from orchestr8_sqlite.cli.terminal import echo
from orchestr8_sqlite.text.wording import counted

if TYPE_CHECKING:
    from orchestr8_sqlite.builder.watch import SessionBuild
    from orchestr8_sqlite.cli.reports import Places
    from orchestr8_sqlite.library.project import Project
    from orchestr8_sqlite.model.records import Review

NAMED = 3
"""Maximum changed files that a line names; it only counts the rest."""


def watch_and_report(
    project: "Project", places: "Places", output: Path, reviews: "tuple[Review, ...]", *, as_json: bool
) -> None:
    """Build whenever a file of a library changes and print what was done, until interrupted."""
    from orchestr8_sqlite.builder.watch import BuildSession, watch_roots

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    _end_with_parent()
    session = BuildSession(
        project.roots,
        output,
        category=project.category,
        strict=project.strict,
        deny=project.deny,
        own=tuple(project.categories.items()),
        lists=project.synonyms,
        pinned=project.pinned,
        wanted=places.is_wanted,
        reviews=reviews,
        origins=project.origins,
    )
    with suppress(KeyboardInterrupt):
        if as_json:
            watch_roots(session, _print_built_json, _print_failed_json, _print_current_json)
        else:
            watch_roots(session, partial(_print_built, places), _print_failed, _print_current)


def _end_with_parent() -> None:
    """Interrupt this process when its input, if that is a pipe, ends: the program that started it is gone."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        threading.Thread(target=_wait_for_end, name="stdin", daemon=True).start()


def _wait_for_end() -> None:
    try:
        while os.read(0, 4096):
            pass
    except OSError:  # such as a connection reset: the other end is gone
        pass
    _thread.interrupt_main(signal.SIGTERM)  # a shell starts its background jobs with SIGINT ignored


def _print_built_json(built: "SessionBuild") -> None:
    from dataclasses import asdict

    diagnostics = [asdict(diagnostic) for diagnostic in built.diagnostics]
    _print_event(
        "built",
        generation=built.generation,
        seconds=round(built.seconds, 3),
        fragments=built.fragments,
        changed=built.changed,
        diagnostics=diagnostics,
    )


def _print_failed_json(message: str) -> None:
    _print_event("failed", message=message)


def _print_current_json() -> None:
    _print_event("current")


def _print_event(event: str, **values: object) -> None:
    echo(json.dumps({"event": event, **values}))


def _print_built(places: "Places", built: "SessionBuild") -> None:
    for diagnostic in built.diagnostics:
        echo(places.line(diagnostic), err=True)
    named = ", ".join(built.changed[:NAMED])
    more = f" and {len(built.changed) - NAMED:,} more" if len(built.changed) > NAMED else ""
    echo(f"{named or 'nothing'}{more} changed: {counted(built.fragments, 'fragment')}, {built.seconds:.2f} s")


def _print_failed(message: str) -> None:
    echo(f"Not built: {message}", err=True)


def _print_current() -> None:
    echo("Up to date again.")
