"""The command `orchestr8-sqlite`. Heavy imports wait until the command that needs them runs.

Exit codes: 0 done, 1 a problem was found, 2 the command was called wrongly.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from orchestr8_sqlite.errors import Orchestr8Error, RequestError


def main() -> None:
    """Run the command line; a known problem is one sentence on standard error, never a traceback."""
    try:
        _run(sys.argv[1:])
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as problem:
        sys.stderr.write(f"{problem.filename or 'A file'} cannot be used: {problem.strerror}.\n")
        sys.exit(1)
    except Orchestr8Error as problem:
        sys.stderr.write(f"{problem}\n")
        sys.exit(2 if isinstance(problem, RequestError) else 1)


def _run(arguments: Sequence[str]) -> None:
    """Run the command; `serve` as clients call it goes without typer, whose import they would wait for."""
    match arguments:
        case ["serve"]:
            _serve(None)
        case ["serve", "--db", database] if not database.startswith("-"):
            _serve(Path(database))
        case _:
            from orchestr8_sqlite.cli.app import run

            run(arguments)


def _serve(database: Path | None) -> None:
    from orchestr8_sqlite.server.start import serve_stdio
    from orchestr8_sqlite.settings import read_server_settings

    serve_stdio(read_server_settings(database))
