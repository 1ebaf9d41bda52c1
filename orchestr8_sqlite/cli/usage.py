"""`usage`: shows from a server's log what was searched, loaded and asked for in vain."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestr8_sqlite.cli.options import Database, Json, print_json, print_rows
from orchestr8_sqlite.cli.terminal import echo
from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.text.wording import counted, one_line

if TYPE_CHECKING:
    from orchestr8_sqlite.usage.logs import Log
    from orchestr8_sqlite.usage.report import Counts, Report

URIS = "SELECT uri FROM fragment"
EXAMPLES = 3
COUNTED = ("searches", "answered", "weak", "nothing", "loads", "led to a load", "share")


def usage(
    logs: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOG...", exists=True, dir_okay=False, help="Log files in JSON, in any order; also .gz."
        ),
    ],
    db: Database = None,
    draft: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="Write the requests that nothing fits to this new file, a queries.jsonl to be judged.",
            show_default=False,
        ),
    ] = None,
    show: Annotated[int, typer.Option(min=0, help="Maximum rows of each table.")] = 10,
    as_json: Json = False,
) -> None:
    """Show from a server's log what was searched, loaded and asked for in vain.

    Example: orchestr8-sqlite usage server.log* --draft gaps.jsonl --db index.db
    """
    from orchestr8_sqlite.index.catalog import Catalog
    from orchestr8_sqlite.settings import read_settings
    from orchestr8_sqlite.usage.logs import read_logs
    from orchestr8_sqlite.usage.report import facts_of, report_of

    database = read_settings(db).database
    with Catalog.open(database) as catalog:
        held = {uri for (uri,) in catalog.rows(URIS)}
    log = read_logs(logs)
    for name, lines in log.damaged.items():
        echo(f"{name}: {counted(lines, 'damaged line')} left out", err=True)
    report = report_of(log, held)
    drafted = None if draft is None else _write_draft(draft, report)
    if as_json:
        print_json({"index": str(database), **facts_of(log, report), "drafted": drafted})
        return
    _print_counts(log, report)
    echo(f"never loaded: {len(report.never):,} of {counted(len(held), 'fragment')} in {database}")
    if report.elsewhere:
        echo(f"loaded, but not in it: {_some(report.elsewhere)}")
    _print_tables(report, show)
    if draft is not None:
        echo("")
        echo(f"{draft}: {counted(drafted or 0, 'request')} to judge")


def _write_draft(path: Path, report: "Report") -> int:
    """Write the requests that nothing fits, and return how many.

    Raises:
        RequestError: The file is there already, or the log has no texts.
    """
    from orchestr8_sqlite.usage.draft import draft_of

    lines = draft_of(report.gaps)
    if report.gaps and not any(gap.has_text for gap in report.gaps):
        raise RequestError("The log has no texts of such requests: ORCHESTR8_LOG_QUERIES=on lets a server write them.")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    except FileExistsError:
        raise RequestError(f"{path} is there already, maybe judged: name a new file.") from None
    return len(lines)


def _print_counts(log: "Log", report: "Report") -> None:
    whole, days = report.whole, ""
    if log.first and log.last:
        days = f" from {log.first.date()} to {log.last.date()}"
    echo(f"{counted(log.requests, 'request')}{days}, {counted(report.sessions, 'session')}")
    none = f"{whole.weak:,} weak, {whole.nothing:,} without anything close"
    echo(f"{counted(whole.searches, 'search', 'searches')}: {whole.answered:,} answered; nothing fitted: {none}")
    of = f"{whole.led:,} of {counted(whole.asked, 'answer')} with a list"
    echo(f"answers that led to a load: {of}{f' ({whole.rate:.1%})' if whole.rate is not None else ''}")
    if report.weak_led:
        echo(f"… and {report.weak_led:,} of those where nothing fitted")
    echo(f"{counted(whole.loads, 'fragment')} loaded, {whole.found:,} of them after a search that listed them")


def _print_tables(report: "Report", show: int) -> None:
    weeks = [*report.weeks.items()]
    _print_table(("week", *COUNTED), [(week, *_row(counts)) for week, counts in weeks], show, newest=True)
    _print_table(("rank", "loads"), [*report.ranks.items()], show)
    _print_table(("fragment", "loads", "listed"), report.fragments, show)
    _print_table(("never loaded",), [(uri,) for uri in report.never], show)
    _print_table(
        ("not covered", "requests", "such as"),
        [(word.text or "(no word)", word.times, _some(word.queries)) for word in report.words],
        show,
    )
    _print_table(
        ("nothing fits", "times", "not covered", "closest"),
        [
            (one_line(gap.query or "(no text)"), gap.times, ", ".join(gap.words), _some(gap.closest))
            for gap in report.gaps
        ],
        show,
    )


def _print_table(names: Sequence[str], rows: Sequence[Sequence[object]], show: int, *, newest: bool = False) -> None:
    """Print the first rows of a table, or the last ones if they are the *newest*; nothing if there are none."""
    if not rows or not show:
        return
    echo("")
    print_rows(names, rows[-show:] if newest else rows[:show])
    if len(rows) > show:
        echo(f"… and {len(rows) - show:,} more; list all with: --show {len(rows)}")


def _row(counts: "Counts") -> tuple[object, ...]:
    rate = "" if counts.rate is None else f"{counts.rate:.1%}"
    return (counts.searches, counts.answered, counts.weak, counts.nothing, counts.loads, counts.led, rate)


def _some(texts: Sequence[str]) -> str:
    """Return the first of *texts*, each on one line, and how many more there are."""
    more = f" … and {len(texts) - EXAMPLES:,} more" if len(texts) > EXAMPLES else ""
    return "; ".join(one_line(text) for text in texts[:EXAMPLES]) + more
