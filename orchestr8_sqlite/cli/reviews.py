"""What `build` and `lint` say of reviews.toml, and how `lint --accept` writes it."""

import shlex
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from orchestr8_sqlite.cli.terminal import echo
from orchestr8_sqlite.errors import RequestError, SettingsError
from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.library.project import FILE_NAME as SETTINGS
from orchestr8_sqlite.library.reviews import FILE_NAME, check_rule, last_day, read_reviews, renewed
from orchestr8_sqlite.model.records import Diagnostic, Review
from orchestr8_sqlite.settings import today
from orchestr8_sqlite.system import replace

if TYPE_CHECKING:
    from orchestr8_sqlite.builder.build import Lint
    from orchestr8_sqlite.builder.reviews import Reviewed
    from orchestr8_sqlite.cli.reports import Places
    from orchestr8_sqlite.library.project import Project

STANDS_ELSEWHERE = (
    f"{FILE_NAME} stands beside {SETTINGS}, which may be empty: run this in its folder, or name it with --config."
)


def reviews_of(project: "Project", places: "Places", *, heed: bool = True) -> tuple[Review, ...]:
    """Return the reviews that count for a library: those beside a settings file that is the user's own.

    Entries for files of no root are left out if the roots were chosen on the command line.
    """
    if not heed or project.base is None or not project.is_own:
        return ()
    found = read_reviews(project.base, places.locate)
    return tuple(one for one in found if one.root or project.are_own_roots)


def void_entries(reviewed: "Reviewed", project: "Project", places: "Places") -> Iterator[Diagnostic]:
    """Yield a note for each review that accepts nothing, with the way to renew it."""
    for review, state in reviewed.void:
        file = places.written(review.root, review.path)
        what, again = f"{review.rule} in {file}", f"--accept {shlex.quote(f'{review.rule}:{file}')}"
        notes = Notes(str(project.base), FILE_NAME)
        renew = f"judge it again, then: orchestr8-sqlite lint {again} --reason … --reviewer …"
        if state == "unused":
            notes.inform("review", f"accepts {what}, which is not found there", "remove the entry")
        elif state == "changed":
            notes.inform("review", f"accepted {what} for other bytes than the file has now", renew)
        else:
            notes.inform("review", f"accepted {what} until {review.until}", renew)
        yield from notes.diagnostics


def accepted_line(reviewed: "Reviewed") -> str:
    """Return how many diagnostics are accepted, for a summary; empty if none are."""
    return f"; {reviewed.accepted:,} accepted in {FILE_NAME}" if reviewed.accepted else ""


def accept(
    asked: Sequence[str],
    found: "Lint",
    project: "Project",
    places: "Places",
    *,
    reason: str | None,
    reviewer: str | None,
    until: str | None,
) -> None:
    """Write an entry for each RULE:FILE, whose diagnostics *found* must have.

    Raises:
        RequestError: An option is missing or wrong, or there is no such diagnostic.
        SettingsError: There is no place for the ledger, or it cannot be read or written.
    """
    if project.base is None or not project.is_own:
        raise SettingsError(STANDS_ELSEWHERE)
    if not (reason and reason.strip() and reviewer and reviewer.strip()):
        raise RequestError("--accept needs --reason and --reviewer: say why it is harmless, and who says so.")
    last = _day(until)
    read_reviews(project.base, places.locate)  # a ledger that is not understood is not written to
    file = project.base / FILE_NAME
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    for one in asked:
        root, path, rule = _found(one, found.diagnostics, places)
        review = Review(root, path, rule, found.digests.get((root, path), ""), reason.strip(), reviewer.strip(), last)
        if not review.sha256:
            raise RequestError(f"{one}: only what is found in a file that was read can be accepted.")
        text = renewed(text, places.written(root, path), review)
        echo(f"{FILE_NAME}: {rule} in {places.written(root, path)} is accepted until {last}")
    _write(file, text)


def _day(until: str | None) -> str:
    if until is None:
        return last_day(today())
    try:
        day = date.fromisoformat(until).isoformat()
    except ValueError:
        raise RequestError(f"--until must be a date such as 2027-02-22, not {until!r}.") from None
    if day < today():
        raise RequestError(f"--until {day} has passed; name a later day.")
    return day


def _found(asked: str, diagnostics: Sequence[Diagnostic], places: "Places") -> tuple[str, str, str]:
    """Return root, path and rule of the diagnostics that RULE:FILE names."""
    rule, colon, file = asked.partition(":")
    if not colon:
        raise RequestError(f"--accept {asked}: write RULE:FILE, as `lint` names them.")
    check_rule(rule, "--accept")
    for one in diagnostics:
        if one.code == rule and file in (places.path(one), places.written(one.root, one.path)):
            return one.root, one.path, rule
    raise RequestError(f"There is no {rule} in {file}; `orchestr8-sqlite lint` lists what there is.")


def _write(file: Path, text: str) -> None:
    temporary = file.with_name(f".{file.name}.new")
    try:
        temporary.write_text(text, encoding="utf-8", newline="\n")
        replace(temporary, file)
    except OSError as problem:
        raise SettingsError(f"{file} cannot be written: {problem.strerror}.") from None
