"""The command `orchestr8-sqlite`. Heavy imports wait until the command that needs them runs.

Exit codes: 0 done, 1 a problem was found, 2 the command was called wrongly.
"""

import sys

from orchestr8_sqlite.cli.app import app
from orchestr8_sqlite.errors import Orchestr8Error, RequestError


def main() -> None:
    """Run the command line; a known problem is one sentence on standard error, never a traceback."""
    try:
        app()
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as problem:
        sys.stderr.write(f"{problem.filename or 'A file'} cannot be used: {problem.strerror}.\n")
        sys.exit(1)
    except Orchestr8Error as problem:
        sys.stderr.write(f"{problem}\n")
        sys.exit(2 if isinstance(problem, RequestError) else 1)
