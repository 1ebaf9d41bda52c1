"""The facts of the shipped library that age: where each stands, its source, and when to look again.

`facts.tsv` has a line for each: `file` below resources/; `snippet`, words of one line of that file; `kind`, of
which `version` is a package's newest one, and `change` what came with one; `value`, what the fragment claims; `source`,
an address, or `pypi:NAME` or `npm:NAME`; `checked`, the day on which somebody compared fragment and source, empty if
nobody did; `recheck`, the day on which to do so again.

Run as a program, `make facts`, it prints the facts that are due, and those that package registries contradict.
"""

import csv
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
RESOURCES = ROOT / "resources"
LISTED = RESOURCES / "facts.tsv"
CARDS = RESOURCES / "worth.jsonl"
"""A card for each fragment; `checked` is the day since when all that it states was run, read in a source or certain."""
KINDS = frozenset({"version", "security", "support", "change", "limit", "price", "standard"})
SOURCE = re.compile(r"https://\S+|(?:pypi|npm):\S+")
ASKS: dict[str, Callable[[str], list[str]]] = {
    "pypi": lambda name: [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "index",
        "versions",
        "--ignore-requires-python",
        name,
    ],
    "npm": lambda name: ["npm", "view", name, "version"],
}
"""By registry, the command of its own client that prints the newest version of a package first."""
TIMEOUT = 60
"""Seconds that a registry has to answer."""
AT_ONCE = 8
"""Clients that ask a registry side by side; each takes a second to start."""


class Fact(NamedTuple):
    """A fact that ages; `checked` is None if nobody compared it with its source."""

    file: str
    snippet: str
    kind: str
    value: str
    source: str
    checked: date | None
    recheck: date


def read_facts(text: str) -> list[Fact]:
    """Return the facts of a list in the form of `facts.tsv`, in its order.

    Raises:
        ValueError: A date is not a date, or `recheck` is missing.
    """
    rows = csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    return [
        Fact(
            row["file"], row["snippet"], row["kind"], row["value"], row["source"],
            date.fromisoformat(row["checked"]) if row["checked"] else None, date.fromisoformat(row["recheck"]),
        )
        for row in rows
    ]  # fmt: skip


def problems(facts: Sequence[Fact], resources: Path) -> Iterator[str]:
    """Yield what is wrong with a list: facts that no line of their file states, and fields that mean nothing."""
    for fact in facts:
        path = resources / fact.file
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        found = sum(fact.snippet in line for line in lines)
        if not fact.snippet or found != 1:
            yield f"{fact.file}: {found} lines have {fact.snippet!r}, not 1: correct the snippet, or delete the fact"
        if fact.kind not in KINDS:
            yield f"{fact.file}: the kind {fact.kind!r} is none of {', '.join(sorted(KINDS))}"
        if not SOURCE.fullmatch(fact.source):
            yield f"{fact.file}: the source {fact.source!r} is neither an address nor pypi:NAME or npm:NAME"
        if fact.checked and fact.checked >= fact.recheck:
            yield f"{fact.file}: {fact.snippet!r} is to be checked again before it was checked"


def read_cards() -> list[dict[str, Any]]:
    """Return the cards of all fragments, in the order of their file."""
    return [json.loads(line) for line in CARDS.read_text(encoding="utf-8").splitlines()]


def due(facts: Iterable[Fact], today: date) -> list[Fact]:
    """Return the facts to be checked again by *today*, the longest overdue first."""
    return sorted((fact for fact in facts if fact.recheck <= today), key=lambda fact: (fact.recheck, fact.file))


def is_newest(value: str, newest: str) -> bool:
    """Tell whether a claimed version is the newest, as far as the fragment gives it (2.3: any 2.3.x)."""
    claimed = value.split(".")
    return newest.split(".")[: len(claimed)] == claimed


def newest_version(source: str) -> str | None:
    """Return the newest version of `pypi:NAME` or `npm:NAME`, or None if the registry's client gives none."""
    registry, name = source.split(":", 1)
    try:
        answer = subprocess.run(ASKS[registry](name), capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r"\d+(?:\.\w+)+(?:-[\w.]+)?", answer.stdout)
    return version[0] if answer.returncode == 0 and version else None


def contradicted(facts: Iterable[Fact], newest: Callable[[str], str | None]) -> Iterator[str]:
    """Yield a line for each newest version of a package that is so no longer, or that could not be asked about."""
    named = [fact for fact in facts if fact.kind == "version" and not fact.source.startswith("https:")]
    sources = sorted({fact.source for fact in named})
    with ThreadPoolExecutor(AT_ONCE) as pool:
        newest_of = dict(zip(sources, pool.map(newest, sources), strict=True))
    for fact in named:
        now = newest_of[fact.source]
        if now is None:
            yield f"{fact.source}: no answer (offline?); {fact.file} says {fact.value}"
        elif not is_newest(fact.value, now):
            yield f"{fact.source} is at {now}; {fact.file} says {fact.value}"


def main(arguments: Sequence[str]) -> None:
    """Print what is due and, unless `--due` is given, what the registries contradict."""
    facts = read_facts(LISTED.read_text(encoding="utf-8"))
    late = due(facts, datetime.now(UTC).date())
    for fact in late:
        sys.stdout.write(f"warning: due {fact.recheck}: {fact.file}: {fact.snippet} <{fact.source}>\n")
    if "--due" not in arguments:
        for line in contradicted(facts, newest_version):
            sys.stdout.write(f"warning: {line}\n")
    never = sum(fact.checked is None for fact in facts)
    cards = read_cards()
    whole = sum("checked" in card for card in cards)
    sys.stdout.write(
        f"{len(facts)} facts that age: {len(late)} due, {never} never compared with their source; "
        f"{whole} of {len(cards)} fragments checked statement by statement\n"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
