"""`reviews.toml`, beside orchestr8.toml → the diagnostics of a library that somebody has judged and accepts.

[[review]]
rule = "download-run"              # the kind of diagnostic, in the whole file
file = "library/skills/setup.md"   # as `lint` names it from this folder
sha256 = "…"                       # of the bytes that were judged; other bytes void the entry
reason = "our own installer, over https"
reviewer = "Ann"
until = 2027-02-22                 # the last day on which it counts
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from orchestr8_sqlite.errors import SettingsError
from orchestr8_sqlite.library.door import read_regular
from orchestr8_sqlite.library.rules import read_rules
from orchestr8_sqlite.model.records import Accepted, Review
from orchestr8_sqlite.settings import read_limits

FILE_NAME = "reviews.toml"
ENTRIES = "review"
DAYS = 90
"""Days for which an entry counts unless its reviewer says otherwise."""

CONSEQUENCES = frozenset({"denied", "kept"})
"""Kinds of diagnostics that follow from others, so that only those can be accepted."""

DIGEST = re.compile(r"[0-9a-f]{64}")
TEXTS = ("rule", "file", "sha256", "reason", "reviewer")

Locate = Callable[[str], tuple[str, str]]
"""Returns the root and path of a file that an entry names; an empty root if no root that is read holds it."""


def read_reviews(base: Path, locate: Locate) -> tuple[Review, ...]:
    """Return the entries of the ledger in the folder *base*, in the order of their files; none without a ledger.

    Raises:
        SettingsError: It cannot be read, or an entry is not complete.
    """
    import tomllib  # noqa: PLC0415 - most libraries have no such file

    try:
        content = read_regular(base, FILE_NAME, read_limits().file_bytes).content
        values = tomllib.loads((content or b"").decode())
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, RecursionError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise SettingsError(f"{base / FILE_NAME}: {why}; correct the file.") from None
    if content is None:
        raise SettingsError(f"{base / FILE_NAME} is too large; remove entries, or raise ORCHESTR8_MAX_FILE_BYTES.")
    entries = values.get(ENTRIES, [])
    if values.keys() - {ENTRIES} or not isinstance(entries, list):
        raise SettingsError(f"{base / FILE_NAME}: it may hold only tables [[{ENTRIES}]].")
    reviews: dict[tuple[str, str, str], Review] = {}
    for number, entry in enumerate(entries, start=1):
        review = _read(entry, f"{base / FILE_NAME}: entry {number}", locate)
        if reviews.setdefault((review.root, review.path, review.rule), review) is not review:
            raise SettingsError(f"{base / FILE_NAME}: entry {number} repeats an earlier one; remove one of them.")
    return tuple(review for _, review in sorted(reviews.items()))


def _read(entry: object, place: str, locate: Locate) -> Review:
    values: Mapping[str, Any] = entry if isinstance(entry, dict) else {}
    if values.keys() != {*TEXTS, "until"}:
        raise SettingsError(f"{place} must have exactly {', '.join(TEXTS)} and until.")
    for name in TEXTS:
        if not isinstance(values[name], str) or not values[name].strip():
            raise SettingsError(f"{place}: {name} must be a text.")
    check_rule(values["rule"], place)
    if not DIGEST.fullmatch(values["sha256"]):
        raise SettingsError(f"{place}: sha256 must be the 64 digits of the file's SHA-256.")
    until = values["until"]
    if not isinstance(until, date) or isinstance(until, datetime):
        raise SettingsError(f"{place}: until must be a date such as 2027-02-22, without quotes.")
    root, path = locate(values["file"])
    rule, _, sha256, reason, reviewer = (values[name] for name in TEXTS)
    return Review(root, path, rule, sha256, reason, reviewer, until.isoformat())


def check_rule(rule: str, place: str) -> None:
    """Raise SettingsError if *rule* is not a kind of diagnostic that can be accepted."""
    read_rules([rule], place)
    if rule in CONSEQUENCES:
        raise SettingsError(f"{place}: {rule!r} follows from other findings; accept those.")


def located_in(folders: Mapping[str, str]) -> Locate:
    """Return how to find the root and path of a file that an entry names.

    Args:
        folders: By name of a root, its folder as entries write it: see `written_folders`.
    """

    def locate(file: str) -> tuple[str, str]:
        holding = [(folder, root) for root, folder in folders.items() if not folder or file.startswith(f"{folder}/")]
        if not holding:
            return "", file
        folder, root = max(holding, key=lambda one: len(one[0]))
        return root, file.removeprefix(f"{folder}/") if folder else file

    return locate


def written_folder(folder: Path, base: Path) -> str:
    """Return *folder* as an entry beside orchestr8.toml in *base* writes it; empty for *base* itself."""
    try:
        below = Path(os.path.relpath(folder.resolve(), base.resolve())).as_posix()
    except ValueError:  # another drive
        return folder.resolve().as_posix()
    return "" if below == "." else below


def in_force(reviews: Iterable[Review], day: str) -> frozenset[Accepted]:
    """Return what *reviews* accept on *day*."""
    return frozenset((one.root, one.path, one.sha256, one.rule) for one in reviews if day <= one.until)


def digest_reviews(reviews: Sequence[Review], day: str) -> str:
    """Return a digest of the entries and of which of them have expired; empty if there are none."""
    said = [(*one, day <= one.until) for one in reviews]
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16] if said else ""


def renewed(text: str, file: str, review: Review) -> str:
    """Return the *text* of a ledger with an entry for *review*, in place of one for the same rule and *file*.

    Raises:
        ValueError: The text is not TOML.
    """
    import tomlkit  # noqa: PLC0415 - only `lint --accept` writes

    document = tomlkit.parse(text)
    entries: Any = document.setdefault(ENTRIES, tomlkit.aot())
    entry = next((one for one in entries if (one.get("rule"), one.get("file")) == (review.rule, file)), None)
    if entry is None:
        entry = tomlkit.table()
        entries.append(entry)
    values = {"rule": review.rule, "file": file, "sha256": review.sha256, "reason": review.reason}
    for name, value in {**values, "reviewer": review.reviewer, "until": date.fromisoformat(review.until)}.items():
        entry[name] = value
    return tomlkit.dumps(document)


def last_day(day: str) -> str:
    """Return the last day on which an entry of *day* counts, unless its reviewer says otherwise."""
    return (date.fromisoformat(day) + timedelta(days=DAYS)).isoformat()
