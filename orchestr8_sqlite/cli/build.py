"""`build` and `lint`: the commands that read a library."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestr8_sqlite.cli.options import (
    Category,
    Config,
    Deny,
    Ignore,
    Json,
    Reviews,
    Roots,
    Select,
    print_json,
    print_rows,
)
from orchestr8_sqlite.cli.terminal import echo, echo_json
from orchestr8_sqlite.errors import RefusedLibrary, RequestError
from orchestr8_sqlite.model.parameters import parse_category
from orchestr8_sqlite.settings import read_level
from orchestr8_sqlite.text.wording import counted

if TYPE_CHECKING:
    from orchestr8_sqlite.builder.build import BuildReport
    from orchestr8_sqlite.cli.reports import Places
    from orchestr8_sqlite.library.project import Project
    from orchestr8_sqlite.library.roots import Progress
    from orchestr8_sqlite.model.records import Diagnostic, Review

Accept = Annotated[
    list[str] | None,
    typer.Option("--accept", metavar="RULE:FILE", help="Write an entry to reviews.toml that accepts it; repeatable."),
]
FORMATS = ("text", "json", "github", "sarif")
EXAMPLES = 3
"""Maximum diagnostics of one kind that `build` prints; it only counts the rest."""


def build(
    roots: Roots = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Index file to write.")] = Path("index.db"),
    category: Category = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a library with warnings or errors.")] = False,
    deny: Deny = None,
    leave_out: Annotated[
        bool, typer.Option("--leave-out", help="With --deny: leave these files out instead; --watch always does.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="Read and write everything again.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Keep running, and build again when a file changes.")] = False,
    select: Select = None,
    ignore: Ignore = None,
    heed: Reviews = True,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Build the index of library folders, or update it with what has changed.

    Example: orchestr8-sqlite build resources -o index.db
    """
    from orchestr8_sqlite.cli.reports import Places
    from orchestr8_sqlite.cli.reviews import accepted_line, reviews_of, void_entries

    project = _project(roots, config, category, deny, select, ignore)
    project = project._replace(strict=project.strict or strict)
    places = Places(project)
    reviews = reviews_of(project, places, heed=heed)
    if watch:
        from orchestr8_sqlite.cli.watch import watch_and_report

        watch_and_report(project, places, output, reviews, as_json=as_json)
        return
    report = _build(project, places, output, reviews, leave_out=leave_out, full=full)
    if as_json:
        _print_json(report)
        return
    void = filter(places.is_wanted, void_entries(report.reviewed, project, places))
    folders = [] if project.origins else map(str, project.roots)
    _print_grouped([*report.diagnostics, *void], places, " ".join(["orchestr8-sqlite lint", *folders]))
    echo(
        f"{report.target}: {counted(report.fragments, 'fragment')}, {counted(report.scenarios, 'scenario')}, "
        f"{counted(report.keywords, 'keyword')}, {counted(report.prompts, 'prompt')} "
        f"from {counted(report.files, 'file')}"
        + (f" ({report.rejected} left out)" if report.rejected else "")
        + (f" ({report.ignored} outside the layout)" if report.ignored else "")
    )
    changed = (
        counted(len(report.changed), "changed file") if report.changed else "changed settings, file times or commits"
    )
    how = {
        "whole": "built",
        "updated": f"updated for {changed}",
        "unchanged": "unchanged",
    }[report.how.value]
    size = f"{report.size / 1_048_576:.1f} MiB"
    echo(f"{_counts(report.diagnostics)}{accepted_line(report.reviewed)}; {size}, {how} in {report.seconds:.2g} s")


def _project(
    roots: Sequence[Path] | None,
    config: Path | None,
    category: str | None,
    deny: str | None,
    select: Sequence[str] | None,
    ignore: Sequence[str] | None,
) -> "Project":
    """Return the settings of a library; options on the command line take precedence."""
    from orchestr8_sqlite.library.project import find_project

    project = find_project(roots or (), config)
    if project.sources and project.are_own_roots and project.base is not None:
        from orchestr8_sqlite.library.sources.sync import origins_of
        from orchestr8_sqlite.settings import sources_cache

        project = project._replace(origins=origins_of(project.base, project.sources, sources_cache()))
    return project._replace(
        category=parse_category(category) if category else project.category,
        deny=read_level(deny) or project.deny,
        rules=project.rules.with_options(select or (), ignore or ()),
    )


def _build(
    project: "Project", places: "Places", output: Path, reviews: "tuple[Review, ...]", *, leave_out: bool, full: bool
) -> "BuildReport":
    from orchestr8_sqlite.builder.build import build_index

    try:
        with _progress() as progress:
            return build_index(
                project.roots,
                output,
                category=project.category,
                strict=project.strict,
                deny=project.deny,
                leave_out=leave_out,
                full=full,
                progress=progress,
                own=tuple(project.categories.items()),
                lists=project.synonyms,
                pinned=project.pinned,
                wanted=places.is_wanted,
                reviews=reviews,
                origins=project.origins,
            )
    except RefusedLibrary as refused:
        for problem in refused.problems:
            echo(places.line(problem), err=True)
        raise RefusedLibrary(refused.sentence) from None


def _print_json(report: "BuildReport") -> None:
    from dataclasses import asdict

    names = ("files", "fragments", "scenarios", "keywords", "prompts", "rejected", "ignored", "generation", "size")
    values = {name: getattr(report, name) for name in names}
    diagnostics = [asdict(diagnostic) for diagnostic in report.diagnostics]
    if report.stages:
        values["stages"] = {stage: round(seconds, 3) for stage, seconds in report.stages.items()}
    values["how"] = report.how.value
    values["accepted"] = report.reviewed.accepted
    if report.how.value == "updated":
        values["changed"] = ["/".join(key) for key in report.changed]
    print_json({**values, "seconds": round(report.seconds, 3), "diagnostics": diagnostics})


def lint(
    roots: Roots = None,
    category: Category = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on warnings too.")] = False,
    deny: Deny = None,
    select: Select = None,
    ignore: Ignore = None,
    form: Annotated[
        str, typer.Option("--format", help="text | json | github | sarif", autocompletion=lambda: [*FORMATS])
    ] = "text",
    overlap: Annotated[
        bool, typer.Option("--overlap", help="Also ask all scenarios, for fragments that answer each other's; slow.")
    ] = False,
    rules: Annotated[bool, typer.Option("--rules", help="List the rules.")] = False,
    accepting: Accept = None,
    reason: Annotated[str | None, typer.Option(help="With --accept: why that is harmless.")] = None,
    reviewer: Annotated[str | None, typer.Option(help="With --accept: who says so.")] = None,
    until: Annotated[
        str | None, typer.Option(metavar="DATE", help="With --accept: the last day; 90 days from now by default.")
    ] = None,
    heed: Reviews = True,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Check library folders as a build does, and look for copies; write nothing.

    The exit code is 1 if there are errors.

    Example: orchestr8-sqlite lint resources --strict
    """
    from orchestr8_sqlite.builder.build import lint_library
    from orchestr8_sqlite.cli.reports import Places, write_report
    from orchestr8_sqlite.cli.reviews import accept, accepted_line, reviews_of, void_entries
    from orchestr8_sqlite.library.rules import SAID
    from orchestr8_sqlite.model.records import Severity

    if rules:
        print_rows(("rule", "what it says"), sorted(SAID.items()))
        return
    if form not in FORMATS:
        raise RequestError(f"--format must be one of {', '.join(FORMATS)}, not {form!r}.")
    project = _project(roots, config, category, deny, select, ignore)
    places = Places(project)
    with _progress() as progress:
        found = lint_library(
            project.roots,
            category=project.category,
            progress=progress,
            own=tuple(project.categories.items()),
            lists=project.synonyms,
            pinned=project.pinned,
            deny=project.deny,
            similar=True,
            overlap=overlap,
            origins=project.origins,
            reviews=reviews_of(project, places, heed=heed and not accepting),
        )
    if accepting:
        accept(accepting, found, project, places, reason=reason, reviewer=reviewer, until=until)
        return
    said = [*found.diagnostics, *void_entries(found.reviewed, project, places)]
    wanted = [one for one in said if places.is_wanted(one)]
    form = "json" if as_json else form
    for line in write_report(form, wanted, places):
        (echo_json if form in ("json", "sarif") else echo)(line)
    if form == "text":
        counts = _counts(wanted) + accepted_line(found.reviewed)
        echo(f"{counted(found.fragments, 'fragment')}, {counted(found.prompts, 'prompt')}: {counts}")
    bad = {Severity.ERROR, Severity.WARNING} if strict or project.strict else {Severity.ERROR}
    if found.is_denied or any(diagnostic.severity in bad for diagnostic in wanted):
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


def _print_grouped(diagnostics: "Sequence[Diagnostic]", places: "Places", command: str) -> None:
    """Print the first diagnostics of each kind, how many more there are, and how to see all."""
    codes = Counter((diagnostic.severity, diagnostic.code) for diagnostic in diagnostics)
    for (severity, code), count in sorted(
        codes.items(), key=lambda item: (item[0][0] != "error", -item[1], item[0][1])
    ):
        alike = [d for d in diagnostics if (d.severity, d.code) == (severity, code)]
        for diagnostic in alike[:EXAMPLES]:
            echo(places.line(diagnostic), err=True)
        if count > EXAMPLES:
            echo(f"  … and {count - EXAMPLES:,} more [{code}]", err=True)
    if any(count > EXAMPLES for count in codes.values()):
        echo(f"To see all: {command}", err=True)


def _counts(diagnostics: "Sequence[Diagnostic]") -> str:
    counts = Counter(diagnostic.severity.value for diagnostic in diagnostics)
    return ", ".join(counted(counts[severity], severity) for severity in ("error", "warning"))
