"""`init`: writes a starter library: a fragment of each category, and settings."""

from pathlib import Path
from typing import Annotated

import typer

from orchestr8_sqlite.cli.options import Json, print_json
from orchestr8_sqlite.cli.terminal import echo
from orchestr8_sqlite.errors import RequestError

STARTER = Path(__file__).with_name("starter")
NEXT = """
Read one, then write your own; docs/authoring.md says what makes one found and used.

  orchestr8-sqlite lint {folder}
  orchestr8-sqlite build {folder} -o index.db
  orchestr8-sqlite search "undo my last commit" --db index.db
  orchestr8-sqlite install claude-code --root {folder} --write"""


def init(
    folder: Annotated[Path, typer.Argument(help="Folder to create; it may exist.")] = Path("library"),
    as_json: Json = False,
) -> None:
    """Start a library with a fragment of each category, and orchestr8.toml.

    Example: orchestr8-sqlite init library
    """
    from shlex import quote

    files = {file.relative_to(STARTER): file for file in sorted(STARTER.rglob("*.*")) if file.is_file()}
    taken = [name for name in files if (folder / name).exists()]
    if taken:
        more = f" and {len(taken) - 1} more exist" if len(taken) > 1 else " exists"
        raise RequestError(f"{folder / taken[0]}{more} already, so nothing was written; choose another folder.")
    for name, file in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(file.read_bytes())
    written = [(folder / name).as_posix() for name in files]
    if as_json:
        print_json({"folder": str(folder), "files": written})
        return
    for path in written:
        echo(path)
    echo(NEXT.format(folder=quote(str(folder))))
