"""Collects what the page shows, for a server, which does not import what measures.

Started as `python -m orchestr8_sqlite.inspection INDEX`, it writes twice to standard output: first what is known
without asking the library its own requests, then everything. Each time there is a line of JSON with `generation`,
`is_asked` and the number of `bytes`, and as many bytes: the packed data. If that fails, it ends with one line on
standard error.
"""

import json
import sys
from pathlib import Path

from orchestr8_sqlite.errors import CatalogError
from orchestr8_sqlite.inspection.collecting import inspect
from orchestr8_sqlite.inspection.packing import pack
from orchestr8_sqlite.system import give_way


def main(index: Path) -> None:
    """Write what the page shows of *index*."""
    give_way()
    for is_asked in (False, True):
        data = inspect(index, is_asked=is_asked)
        packed = pack(data)
        head = {"generation": data["library"]["generation"], "is_asked": is_asked, "bytes": len(packed)}
        sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + packed)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except CatalogError as problem:
        sys.exit(str(problem))
