"""The typer application, with all commands in the order that `--help` shows."""

from collections.abc import Iterable, Sequence
from importlib import import_module

import typer

from orchestr8_sqlite import __version__

COMMANDS = {
    "init": "init:init",
    "build": "build:build",
    "serve": "serve:serve",
    "search": "query:search",
    "explain": "query:explain",
    "suggest": "suggest:suggest",
    "load": "query:load",
    "sql": "database:sql",
    "stats": "database:stats",
    "list": "listing:list_contents",
    "sync": "sync:sync",
    "diff": "database:diff",
    "lint": "build:lint",
    "eval": "evaluate:evaluate",
    "budget": "budget:budget",
    "usage": "usage:usage",
    "inspect": "inspect:inspect",
    "path": "database:path",
    "export": "database:export",
    "publish": "publish:publish",
    "pull": "pull:pull",
    "rollback": "pull:rollback",
    "keygen": "publish:keygen",
    "install": "install:install",
    "doctor": "doctor:doctor",
}
"""Command → its module in this folder, and its function."""


HELP = """Compile a library of Markdown fragments into one SQLite file and find the right one just in time.

\b
Start here:
  orchestr8-sqlite search "undo my last commit"     search the bundled library
  orchestr8-sqlite install claude-code --write      connect an assistant to it
  orchestr8-sqlite init library                     start your own library
  orchestr8-sqlite build library -o index.db        build its index
  orchestr8-sqlite serve --root library             serve it and follow every change
  orchestr8-sqlite --install-completion             complete commands and options in your shell
"""


def run(arguments: Sequence[str]) -> None:
    """Run the command that *arguments* start with; if it is known, import only that one."""
    wanted = [name for name in arguments[:1] if name in COMMANDS]
    make_app(wanted or COMMANDS)()


def make_app(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Return the application with the commands *names*; importing and registering all of them takes 30 ms."""
    app = typer.Typer(
        name="orchestr8-sqlite",
        help=HELP,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name in names:
        module, _, function = COMMANDS[name].partition(":")
        command = getattr(import_module(f"orchestr8_sqlite.cli.{module}"), function)
        app.command(name, short_help=" ".join(str(command.__doc__).partition("\n\n")[0].split()))(command)
    app.callback()(options)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"orchestr8-sqlite {__version__}")
        raise typer.Exit


def options(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    """Options before the command."""
