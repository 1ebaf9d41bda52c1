"""Prints the output of commands: unchanged to a pipe, but without control characters to a terminal.

Texts of a library may contain escape sequences, which could move the cursor, rename the window or hide a line.
"""

import re
import sys

import typer

from orchestr8_sqlite.text.wording import HIDDEN, UNSEEN

AS_IT_IS = True
"""Keeps typer from removing escape sequences from output to a pipe."""

STANDS_FOR = "\N{REPLACEMENT CHARACTER}"


def echo(text: str, *, err: bool = False) -> None:
    """Print *text* and a line feed to standard output, or to standard error."""
    stream = sys.stderr if err else sys.stdout
    typer.echo(harmless(text) if stream.isatty() else text, err=err, color=AS_IT_IS)


def echo_json(text: str) -> None:
    """Print JSON or TOML; on a terminal, escape the control characters in its strings."""
    typer.echo(_commands().sub(_escaped, text) if sys.stdout.isatty() else text, color=AS_IT_IS)


def harmless(text: str) -> str:
    """Return *text* with a visible sign for each character that controls a terminal or is invisible on it."""
    return _commands().sub(STANDS_FOR, text.replace("\r\n", "\n"))


def _commands() -> re.Pattern[str]:
    return re.compile(f"(?![\n\t])[{UNSEEN}{HIDDEN}]")


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
