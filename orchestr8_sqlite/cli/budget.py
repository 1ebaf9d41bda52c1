"""`budget`: shows what the clients' own listings of skills would keep of a library."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from orchestr8_sqlite.cli.options import Database, Json, print_json, print_rows
from orchestr8_sqlite.cli.terminal import echo
from orchestr8_sqlite.text.wording import counted

if TYPE_CHECKING:
    from orchestr8_sqlite.budget.listing import Listing
    from orchestr8_sqlite.budget.rules import Rule

UNKNOWN = "?"


def budget(
    db: Database = None,
    client: Annotated[
        str | None,
        typer.Option(
            help="Only this one, and what it leaves out: claude-code | codex | vscode | copilot-cli | gemini | cursor",
            show_default=False,
        ),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option(
            min=1, help="Tokens of the model's context. Default: as usual for the client.", show_default=False
        ),
    ] = None,
    fail_over: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Exit with 1 if more than N skills lose their description.", show_default=False
        ),
    ] = None,
    show: Annotated[int, typer.Option(min=0, help="With --client: maximum skills to list.")] = 20,
    as_json: Json = False,
) -> None:
    """Show what the clients' own listings of skills would keep, cut and drop.

    Counts the index's Agent Skills, if it has any, and all its fragments as if each were a skill. --fail-over looks at
    the first of these.

    Example: orchestr8-sqlite budget --client codex --fail-over 0 --db index.db
    """
    from orchestr8_sqlite.budget.listing import list_skills
    from orchestr8_sqlite.budget.rules import find_rule, read_rules
    from orchestr8_sqlite.budget.skills import read_skills
    from orchestr8_sqlite.index.catalog import Catalog
    from orchestr8_sqlite.server.standing import standing_tokens
    from orchestr8_sqlite.settings import read_settings

    rules = [find_rule(client)] if client else [*read_rules().values()]
    database = read_settings(db).file
    with Catalog.open(database) as catalog:
        agent_skills, fragments = read_skills(catalog, whole=False), read_skills(catalog, whole=True)
    kinds = {counted(len(agent_skills), "Agent Skill"): agent_skills, counted(len(fragments), "fragment"): fragments}
    listings = [
        (kind, list_skills(rule, skills, context)) for kind, skills in kinds.items() if skills for rule in rules
    ]
    server = standing_tokens(database)
    unmet = [] if fail_over is None else _unmet([listing for _, listing in listings[: len(rules)]], fail_over)
    if as_json:
        rows = [{"counted": kind, **_facts(listing)} for kind, listing in listings]
        print_json({"index": str(database), "listings": rows, "server": server._asdict(), "unmet": unmet})
    else:
        print_rows(
            ("counted", "client", "whole", "cut", "name only", "dropped", "alike", "tokens"),
            [(kind, *_row(listing)) for kind, listing in listings],
        )
        echo(f"orchestr8-sqlite instead: {server.tools:,} tokens of tools, {server.instructions:,} of instructions")
        if client:
            _print_rule(rules[0], listings[0][1])
            _print_left_out(listings[0][1], show)
        for problem in unmet:
            echo(problem, err=True)
    raise typer.Exit(1 if unmet else 0)


def _unmet(listings: Sequence["Listing"], most: int) -> list[str]:
    """Return a sentence for each listing in which more than *most* skills lose their description."""
    return [
        f"{one.rule.title} shows {one.lost:,} of {counted(len(one.entries), 'skill')} without description (over {most})"
        for one in listings
        if one.is_known and one.lost > most
    ]


def _row(listing: "Listing") -> tuple[object, ...]:
    if not listing.is_known:
        return (listing.rule.title, *[UNKNOWN] * 5, f"up to {listing.tokens:,}")
    fates = (f"{count:,}" for count in listing.fates.values())
    return (listing.rule.title, *fates, f"{listing.pairs:,}", f"{listing.tokens:,}")


def _facts(listing: "Listing") -> dict[str, object]:
    rule = listing.rule
    facts: dict[str, object] = {
        "client": rule.id,
        "version": rule.version,
        "checked": rule.checked.isoformat(),
        "sources": rule.sources,
        "overflow": rule.overflow.value,
        "room": listing.room,
        "counts": rule.counts,
        "skills": len(listing.entries),
    }
    if listing.is_known:
        facts |= {fate.value: count for fate, count in listing.fates.items()}
        facts |= {"pairsAlike": listing.pairs, "alike": listing.alike()}
        facts |= {"left": [{"name": one.skill.name, "fate": one.fate, "left": one.left} for one in listing.entries]}
    return {**facts, "tokens": listing.tokens}


def _print_rule(rule: "Rule", listing: "Listing") -> None:
    """Print the rule, and where it is from."""
    echo("")
    room = "no limit" if listing.is_known else "no limit is published"
    if listing.room is not None:
        own = f", some of it for {counted(len(rule.own), 'skill')} of its own" if rule.own else ""
        room = f"room for {listing.room:,} {rule.counts}{own}"
    seen = f" {rule.version}" if rule.version else ""
    echo(f"{rule.title}{seen}, looked at on {rule.checked}: {room}")
    for source in rule.sources:
        echo(f"  source: {'its requests, recorded' if source == 'run' else source}")


def _print_left_out(listing: "Listing", most: int) -> None:
    """Print the skills that are not listed whole, and those that look the same."""
    from orchestr8_sqlite.budget.listing import Fate

    changed = [entry for entry in listing.entries if entry.fate is not Fate.WHOLE]
    if not listing.is_known or not changed or not most:
        return
    echo("")
    rows = [
        (entry.fate, entry.skill.name, f"{len(entry.left or ''):,}", f"{len(entry.skill.description):,}")
        for entry in changed
    ]
    print_rows(("fate", "skill", "characters left", "of"), rows[:most])
    if len(rows) > most:
        echo(f"… and {len(rows) - most:,} more; list all with: --show {len(rows)}")
    for names in listing.alike()[:most]:
        echo(f"look the same: {', '.join(names[:most])}{', …' if len(names) > most else ''}")
