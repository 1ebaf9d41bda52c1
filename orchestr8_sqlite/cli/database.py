"""`sql`, `stats`, `diff`, `path` and `export`: commands that inspect an index."""

import os
import sqlite3
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from orchestr8_sqlite.cli.options import Database, Json, complete_file, print_csv, print_json, print_rows
from orchestr8_sqlite.cli.terminal import echo
from orchestr8_sqlite.errors import RequestError
from orchestr8_sqlite.index.gathering import Step, gathered
from orchestr8_sqlite.settings import Address, read_settings
from orchestr8_sqlite.text.wording import counted

TOTALS = gathered(
    """
SELECT count(*), coalesce(sum(token_estimate), 0), coalesce(max(token_estimate), 0) FROM fragment
""",
    Step("fragment", "SELECT token_estimate FROM fragment"),
)
CATEGORIES = gathered(
    """
SELECT category, count(*) AS fragments, sum(token_estimate) AS tokens,
       sum((SELECT count(*) FROM scenario s WHERE s.fragment_id = f.id)) AS scenarios
  FROM fragment f GROUP BY category ORDER BY category
""",
    added=1,
    order=[1],
)
SQL_HINT = (
    "Views: fragment_detail, keyword_detail, field_detail, score_evidence, reference_detail, provenance; "
    "all tables: orchestr8-sqlite stats --tables."
)
ROOTS = "SELECT root, count(*) FROM source GROUP BY root ORDER BY root"
GRACE_SECONDS = 1.0
"""How long a statement may exceed its timeout before the process ends."""

DIAGNOSTICS = "SELECT severity, code, count(*) FROM diagnostic GROUP BY severity, code ORDER BY severity, 3 DESC, code"


def sql(
    statement: Annotated[
        str | None,
        typer.Argument(
            help="One SELECT statement. Default: standard input, or a shell on a terminal.", show_default=False
        ),
    ] = None,
    db: Database = None,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
    timeout: Annotated[float, typer.Option(min=0.01, max=86_400, help="Maximum seconds.")] = 60,
) -> None:
    """Run a read-only SQL statement on the index, or open a small shell.

    Example: orchestr8-sqlite sql "SELECT uri, tags FROM fragment_detail WHERE category = 'skill'"
    """
    from orchestr8_sqlite.index.catalog import Catalog

    if as_json and as_csv:
        raise RequestError("Give --json or --csv, not both.")

    def show(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        if as_json:
            print_json([dict(zip(columns, row, strict=True)) for row in rows])
        elif columns:
            (print_csv if as_csv else print_rows)(columns, rows)

    is_shell = statement is None and sys.stdin.isatty()
    text = sys.stdin.read() if statement is None and not is_shell else statement or ""
    place = read_settings(db).database
    if isinstance(place, Address):
        from orchestr8_sqlite.index.postgresql import ask

        show(*ask(place, text if not is_shell else "", timeout))
        return
    with Catalog.open(place) as catalog:
        if is_shell:
            from orchestr8_sqlite.cli.shell import read_statements

            def run(asked: str) -> None:
                found = _within(catalog.db, asked, timeout)
                catalog.verify()
                show(*found)

            read_statements(catalog, run)
        else:
            found = _within(catalog.db, text, timeout)
    if not is_shell:  # after the catalog has compared what it read with the checksum
        show(*found)


def _within(db: sqlite3.Connection, statement: str, timeout: float) -> tuple[list[str], list[Sequence[object]]]:
    """Return the columns and rows of a statement; end the process if the statement cannot be interrupted in time."""
    from orchestr8_sqlite.index.statements import out_of_time, run_statement

    def give_up() -> None:
        sys.stderr.write(f"{out_of_time(timeout)}\n")
        sys.stderr.flush()
        os._exit(2)

    watchdog = threading.Timer(timeout + GRACE_SECONDS, give_up)
    watchdog.daemon = True
    watchdog.start()
    try:
        return run_statement(db, statement, timeout)
    except RequestError as problem:
        raise RequestError(f"{problem} {SQL_HINT}") from None
    finally:
        watchdog.cancel()


def stats(
    db: Database = None,
    tables: Annotated[bool, typer.Option("--tables", help="Show the tables and views, with rows and columns.")] = False,
    as_json: Json = False,
) -> None:
    """Show what an index holds.

    Example: orchestr8-sqlite stats --db index.db
    """
    from orchestr8_sqlite.index.catalog import Catalog

    settings = read_settings(db)
    if tables:
        _print_tables(settings.file, as_json=as_json)
        return
    with Catalog.open(settings.database) as catalog:
        meta = dict(catalog.meta)
        scenarios, keywords, prompts = (int(meta[name]) for name in ("scenarios", "keywords", "prompts"))
        head = f"schema {meta['schema_version']}, generation {meta['generation']}"
        fragments, tokens, largest = catalog.rows(TOTALS)[0]
        categories = catalog.rows(CATEGORIES)
        diagnostics = catalog.rows(DIAGNOSTICS)
        commits = catalog.commits
        roots = catalog.rows(ROOTS)
    place = settings.database
    size = place.stat().st_size if isinstance(place, Path) else None
    if as_json:
        print_json(
            {
                "path": str(place),
                "bytes": size,
                "meta": meta,
                "tokens": tokens,
                "largestFragmentTokens": largest,
                "categories": [
                    dict(zip(("category", "fragments", "tokens", "scenarios"), row, strict=True)) for row in categories
                ],
                "roots": [{"root": root, "files": files, "commits": commits.get(root, {})} for root, files in roots],
                "diagnostics": [dict(zip(("severity", "code", "count"), row, strict=True)) for row in diagnostics],
            }
        )
        return
    echo(f"{place}: {head}" if size is None else f"{place}: {size / 1_048_576:.1f} MiB, {head}")
    echo(
        f"{counted(fragments, 'fragment')} (~{tokens:,} tokens, largest ~{largest:,}), "
        f"{counted(scenarios, 'scenario')}, {counted(keywords, 'keyword')}, {counted(prompts, 'prompt')}"
    )
    print_rows(("category", "fragments", "tokens", "scenarios"), categories)
    print_rows(("root", "files", "commit"), _roots(roots, commits))
    if diagnostics:
        print_rows(("severity", "diagnostic", "count"), diagnostics)


def _print_tables(path: Path, *, as_json: bool) -> None:
    names, rows = ("name", "kind", "rows", "columns"), list(_tables(path))
    if as_json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_rows(names, rows)


def _tables(path: Path) -> Iterator[tuple[str, str, int | None, str]]:
    """Yield name, kind, row count (None for views) and columns of each table and view of an index."""
    from sqlite_utils import Database as Tables

    from orchestr8_sqlite.index.catalog import Catalog

    with Catalog.open(path) as catalog, catalog.reading():
        inspected = Tables(catalog.db, recursive_triggers=False, execute_plugins=False)
        shadows = tuple(f"{name}_" for name in ("fragment_text", "keyword_text"))
        for table in inspected.tables:
            if not table.name.startswith(shadows):
                kind = "virtual table" if table.virtual_table_using else "table"
                yield table.name, kind, table.count, ", ".join(column.name for column in table.columns)
        for view in inspected.views:
            yield view.name, "view", None, ", ".join(column.name for column in view.columns)


def _roots(
    roots: Sequence[tuple[str, int]], commits: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[str, int | None, str | None]]:
    """Yield each root with its files and commit, then the git checkouts below it."""
    for root, files in roots:
        known = commits.get(root, {})
        yield root, files, known.get("")
        yield from ((f"{root}/{folder}", None, commit) for folder, commit in known.items() if folder)


def diff(
    old: Annotated[
        str,
        typer.Argument(metavar="OLD", help="The older index file.", show_default=False, autocompletion=complete_file),
    ],
    new: Annotated[
        str | None,
        typer.Argument(
            autocompletion=complete_file,
            metavar="[NEW]",
            help="The newer one. Default: ORCHESTR8_DB, else the bundled index.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show how two indexes differ; exit code 1 if they do.

    Example: orchestr8-sqlite diff index.db.old index.db
    """
    from orchestr8_sqlite.index.catalog import Catalog
    from orchestr8_sqlite.index.diff import differences

    with Catalog.open(read_settings(old).file) as before, Catalog.open(read_settings(new).file) as after:
        found = list(differences(before, after))
        generations = before.generation, after.generation
    if as_json:
        keys = ("generation", "differences")
        print_json(dict(zip(keys, (generations, [one._asdict() for one in found]), strict=True)))
    elif found:
        print_rows(
            ("change", "kind", "name", "what", "tokens"),
            ((one.change, one.kind, one.name, ", ".join(one.parts), _growth(one.tokens)) for one in found),
        )
    else:
        same = len({*generations}) == 1
        echo("no differences" if same else "no differences except in settings, word lists or judged queries")
    raise typer.Exit(1 if found else 0)


def _growth(tokens: tuple[int | None, int | None]) -> str:
    """Return the tokens before and after, or one figure if they are equal."""
    return " → ".join(dict.fromkeys(f"~{count:,}" for count in tokens if count is not None))


def path(db: Database = None) -> None:
    """Print the path of the index, for other programs.

    Example: sqlite3 "$(orchestr8-sqlite path)" .schema
    """
    from orchestr8_sqlite.index.catalog import Catalog

    database = read_settings(db).file
    Catalog.open(database).close()
    echo(str(database.absolute()))


def export(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write into.")] = Path("export"),
    db: Database = None,
    form: Annotated[
        str, typer.Option("--format", help="json | datasette", autocompletion=lambda: ["json", "datasette"])
    ] = "json",
) -> None:
    """Write the index as JSON files of the original design, or as a folder for Datasette.

    Example: orchestr8-sqlite export --format datasette -o browse
    """
    from shlex import quote

    from orchestr8_sqlite.index.catalog import Catalog

    if form not in ("json", "datasette"):
        raise RequestError(f"--format must be json or datasette, not {form!r}.")
    with Catalog.open(read_settings(db).database) as catalog:
        if form == "json":
            from orchestr8_sqlite.index.export import export_json as write
        else:
            from orchestr8_sqlite.index.datasette.folder import export_datasette as write
        for written in write(catalog, output):
            echo(str(written))
    if form == "datasette":
        echo(f"Browse it: datasette {quote(str(output))}")
