"""The typer application: every command is registered here, in the order that `--help` shows."""

import typer

from orchestr8_sqlite import __version__
from orchestr8_sqlite.cli import build, doctor, evaluate, inspect, install, query, serve

app = typer.Typer(
    name="orchestr8-sqlite",
    help="Compile a library of Markdown fragments into one SQLite file and find the right one just in time.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(build.build)
app.command()(serve.serve)
app.command()(query.search)
app.command()(query.load)
app.command()(inspect.sql)
app.command()(inspect.stats)
app.command()(build.lint)
app.command("eval")(evaluate.evaluate)
app.command()(inspect.path)
app.command()(inspect.export)
app.command()(install.install)
app.command()(doctor.doctor)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"orchestr8-sqlite {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    """Options before the command."""
