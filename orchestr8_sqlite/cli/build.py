"""`build` and `lint`: the commands that read a library."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestr8_sqlite.cli.options import Category, Deny, Json, Roots, print_json
from orchestr8_sqlite.cli.terminal import echo
from orchestr8_sqlite.model.parameters import parse_category
from orchestr8_sqlite.settings import read_level
from orchestr8_sqlite.text.wording import counted

if TYPE_CHECKING:
    from orchestr8_sqlite.library.roots import Progress
    from orchestr8_sqlite.model.records import Diagnostic

EXAMPLES = 3
"""Diagnostics of one kind that `build` prints; it counts the others."""


def build(
    roots: Roots,
    output: Annotated[Path, typer.Option("--output", "-o", help="Index file to write.")] = Path("index.db"),
    category: Category = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a library with warnings or errors.")] = False,
    deny: Deny = None,
    leave_out: Annotated[
        bool, typer.Option("--leave-out", help="With --deny: leave such files out instead; --watch always does.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="Read and write everything again.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Keep running, and build again when a file changes.")] = False,
    as_json: Json = False,
) -> None:
    """Build the index of one or more library folders, or bring it up to date by reading only what has changed.

    Example: orchestr8-sqlite build resources -o index.db
    """
    from orchestr8_sqlite.builder.build import build_index

    category, deny = category and parse_category(category), read_level(deny)
    if watch:
        from orchestr8_sqlite.cli.watch import watch_and_report

        watch_and_report(roots, output, category=category, strict=strict, deny=deny, as_json=as_json)
        return
    with _progress() as progress:
        report = build_index(
            roots,
            output,
            category=category,
            strict=strict,
            deny=deny,
            leave_out=leave_out,
            full=full,
            progress=progress,
        )
    if as_json:
        from dataclasses import asdict

        names = ("files", "fragments", "scenarios", "keywords", "prompts", "rejected", "ignored", "generation", "size")
        values = {name: getattr(report, name) for name in names}
        diagnostics = [asdict(diagnostic) for diagnostic in report.diagnostics]
        if report.stages:
            values["stages"] = {stage: round(seconds, 3) for stage, seconds in report.stages.items()}
        values["how"] = report.how.value
        if report.how.value == "updated":
            values["changed"] = ["/".join(key) for key in report.changed]
        print_json({**values, "seconds": round(report.seconds, 3), "diagnostics": diagnostics})
        return
    _print_grouped(report.diagnostics, " ".join(map(str, roots)))
    echo(
        f"{report.target}: {report.fragments:,} fragments, {report.scenarios:,} scenarios, "
        f"{report.keywords:,} keywords, {report.prompts:,} prompts from {report.files:,} files"
        + (f" ({report.rejected} left out)" if report.rejected else "")
        + (f" ({report.ignored} outside the layout)" if report.ignored else "")
    )
    changed = counted(len(report.changed), "changed file") if report.changed else "file times or a commit"
    how = {
        "whole": "built",
        "updated": f"updated for {changed}",
        "unchanged": "unchanged",
    }[report.how.value]
    size = f"{report.size / 1_048_576:.1f} MiB"
    echo(f"{_counts(report.diagnostics)}; {size}, {how} in {report.seconds:.2g} s")


def lint(
    roots: Roots,
    category: Category = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on warnings too.")] = False,
    deny: Deny = None,
    as_json: Json = False,
) -> None:
    """Check library folders as a build does, and write nothing; exit code 1 if there are errors.

    Example: orchestr8-sqlite lint resources --strict
    """
    from dataclasses import asdict

    from orchestr8_sqlite.builder.build import lint_library
    from orchestr8_sqlite.library.trust.findings import denied
    from orchestr8_sqlite.model.records import Severity

    deny = read_level(deny)
    with _progress() as progress:
        found = lint_library(roots, category=category and parse_category(category), progress=progress)
    if as_json:
        print_json([asdict(diagnostic) for diagnostic in found.diagnostics])
    else:
        for diagnostic in found.diagnostics:
            echo(diagnostic.line_of_text)
        echo(f"{found.fragments:,} fragments, {found.prompts:,} prompts: {_counts(found.diagnostics)}")
    bad = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    is_denied = deny is not None and any(denied(found.diagnostics, deny))
    if is_denied or any(diagnostic.severity in bad for diagnostic in found.diagnostics):
        raise typer.Exit(1)


@contextmanager
def _progress() -> Iterator["Progress"]:
    """Yield a progress callback: a bar on a terminal, else a line every 1,000 files."""
    if not sys.stderr.isatty():
        yield lambda done, total: None if done % 1000 else echo(f"read {done:,} of {total:,} files", err=True)
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Reading", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _print_grouped(diagnostics: "Sequence[Diagnostic]", roots: str) -> None:
    """Print the first diagnostics of each kind, how many more there are, and how to see all."""
    codes = Counter((diagnostic.severity, diagnostic.code) for diagnostic in diagnostics)
    for (severity, code), count in sorted(
        codes.items(), key=lambda item: (item[0][0] != "error", -item[1], item[0][1])
    ):
        alike = [d for d in diagnostics if (d.severity, d.code) == (severity, code)]
        for diagnostic in alike[:EXAMPLES]:
            echo(diagnostic.line_of_text, err=True)
        if count > EXAMPLES:
            echo(f"  … and {count - EXAMPLES:,} more [{code}]", err=True)
    if any(count > EXAMPLES for count in codes.values()):
        echo(f"All of them: orchestr8-sqlite lint {roots}", err=True)


def _counts(diagnostics: "Sequence[Diagnostic]") -> str:
    counts = Counter(diagnostic.severity.value for diagnostic in diagnostics)
    return ", ".join(counted(counts[severity], severity) for severity in ("error", "warning"))
