"""The command `orchestr8-sqlite`. Each subcommand imports heavy modules only when it runs.

Exit codes: 0 for success, 1 if a problem was found, 2 for wrong usage.
"""

import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path

from orchestr8_sqlite.errors import Orchestr8Error, RequestError

HOOK = "suggest"
ONCE = ("--db", "--deny", "--from")
"""Options of `serve`, besides `--root`, that are read without typer."""


def main() -> None:
    """Run the command line; report a known problem as one sentence on standard error, never as a traceback."""
    try:
        _main()
    except SystemExit as end:
        if end.code == 2 and sys.argv[1:2] == [HOOK]:  # by which a hook would block the user's prompt
            sys.exit(1)
        raise


def _main() -> None:
    _let_texts_out()
    try:
        _check_arguments(sys.argv[1:])
        _tell_unread_settings()
        _run(sys.argv[1:])
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as problem:
        sys.stderr.write(f"{problem.filename or 'A file'} cannot be used: {problem.strerror}.\n")
        sys.exit(1)
    except Orchestr8Error as problem:
        sys.stderr.write(f"{_harmless(str(problem))}\n")
        sys.exit(2 if isinstance(problem, RequestError) else 1)


def _check_arguments(arguments: Sequence[str]) -> None:
    """Raise RequestError if an argument contains bytes that are not text: no index or message could contain them."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise RequestError(f"{argument!a} is not UTF-8; rename the file, or write the text as UTF-8.") from None


def _tell_unread_settings() -> None:
    if not Path(".env").exists():  # importing the settings takes longer than this check
        return
    from orchestr8_sqlite.settings import unread_settings

    if sentence := unread_settings():
        sys.stderr.write(f"{sentence}\n")


def _let_texts_out() -> None:
    """Let every character be printed: pipes get UTF-8, even on Windows; terminals get ? for what they lack."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.encoding.casefold() != "utf-8":
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="replace")


def _harmless(text: str) -> str:
    """Return *text*, which may quote untrusted input, in a form that is safe on standard error."""
    if not sys.stderr.isatty():
        return text
    from orchestr8_sqlite.cli.terminal import harmless

    return harmless(text)


def _run(arguments: Sequence[str]) -> None:
    """Run the command; `serve` and `suggest`, as clients call them, skip typer, whose import takes time."""
    match arguments:
        case [name] | [name, "--db", _] if name == HOOK:
            from orchestr8_sqlite.cli.hook import run_hook

            run_hook(arguments[2] if arguments[2:] else None)
        case ["serve", *options] if _are_plain(options):
            _serve(options)
        case _:
            from orchestr8_sqlite.cli.app import run

            run(arguments)


def _are_plain(options: Sequence[str]) -> bool:
    """Tell whether *options* are only `--root`s and at most one each of ONCE, each followed by a value."""
    names, values = options[::2], options[1::2]
    known = {*names} <= {"--root", *ONCE} and all(names.count(name) <= 1 for name in ONCE)
    return known and len(names) == len(values) and all(value[:1] not in ("", "-") for value in values)


def _serve(options: Sequence[str]) -> None:
    from orchestr8_sqlite.server.stdio.start import serve_stdio
    from orchestr8_sqlite.settings import SourceSettings, read_server_settings

    given = list(zip(options[::2], options[1::2], strict=True))
    once = dict(given)
    database = once.get("--db")
    roots = [Path(value) for name, value in given if name == "--root"]
    source = SourceSettings(once["--from"]) if "--from" in once else None
    serve_stdio(read_server_settings(database, roots, deny=once.get("--deny"), source=source))
