"""Indexes to publish and pull: three generations of a small library, made once."""

import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from support import build, markdown, write_files

from orchestr8_sqlite.shipping.publish import Order, publish
from orchestr8_sqlite.shipping.statement import Release
from orchestr8_sqlite.shipping.stores import open_source, open_target

VERSIONS = 3


@cache
def index_of(version: int) -> Path:
    """Return the index of generation number *version*, from 1 on."""
    home = Path(tempfile.mkdtemp(prefix=f"releases-{version}-"))
    pages = {f"skills/call{number}.md": markdown(f"useWhen: [Retrying call {number}]") for number in range(5)}
    library = write_files(home / "library", {**pages, "skills/version.md": f"# Version {version}\n\nText {version}.\n"})
    return build(library, home / "index.db")


def ship(version: int, place: str | Path, channel: str = "stable", **details: Any) -> Release:  # noqa: ANN401 - of an Order
    """Publish a generation without a gate, and return its release."""
    target = str(place)
    order = Order(index_of(version), channel, **details)
    return publish(order, open_target(target), open_source(target)).release


def version_of(index: Path) -> int | None:
    """Return which generation a file is to the last byte; None if it is none."""
    content = index.read_bytes()
    return next((one for one in range(1, VERSIONS + 1) if content == index_of(one).read_bytes()), None)


def edit(folder: Path, **fields: object) -> None:
    """Change what the channel stable says."""
    file = folder / "stable.channel.json"
    file.write_text(json.dumps({**json.loads(file.read_text(encoding="utf-8")), **fields}), encoding="utf-8")


def replay(folder: Path, version: Path) -> None:
    """Put the files of an earlier state of a folder back."""
    for file in version.iterdir():
        shutil.copy2(file, folder / file.name)
