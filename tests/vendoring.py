"""What other people wrote and the inspection page holds: copied from locked npm packages, each with its license.

Run as a program, `make vendor`, it writes the copies.
"""

import json
from pathlib import Path

from environments import NODE_FOLDER, ROOT, node_programs

COPIES = ROOT / "orchestr8_sqlite" / "inspection" / "page" / "vendor"
SOURCES = {"d3-hierarchy": "dist/d3-hierarchy.min.js"}
"""By package, the built file that the page runs; our copy has the name of the package."""


def copy_of(package: str) -> Path:
    """Return the path of our copy."""
    return COPIES / f"{package}.js"


def vendored(package: str) -> str:
    """Return what our copy must be: the license, without which it must not be passed on, and the built file.

    Raises:
        MissingProgram: The package cannot be installed.
    """
    node_programs()
    folder = NODE_FOLDER / "node_modules" / package
    license_, built = (folder / name for name in ("LICENSE", SOURCES[package]))
    return f"/*\n{license_.read_text(encoding='utf-8')}*/\n{built.read_text(encoding='utf-8')}"


def locked_version(package: str) -> str:
    """Return the version in the lock."""
    lock = json.loads((NODE_FOLDER / "package-lock.json").read_text(encoding="utf-8"))
    return str(lock["packages"][f"node_modules/{package}"]["version"])


if __name__ == "__main__":
    for name in SOURCES:
        copy_of(name).write_text(vendored(name), encoding="utf-8")
