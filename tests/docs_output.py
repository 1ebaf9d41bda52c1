"""Runs the commands of the `console` blocks in README.md that are marked as generated, and writes their output.

With --check it changes nothing and exits 1 where the output differs.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- generated -->\n```console\n\$ (?P<command>.*)\n)(?P<output>(?:.*\n)*?)(```)")


def run(command: str) -> str:
    """Return what *command* prints on both streams, with this environment's programs first on the path."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ORCHESTR8_")}
    done = subprocess.run(
        command,
        shell=True,
        cwd=ROOT,
        env={**environment, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return done.stdout.rstrip("\n") + "\n"


def renewed(text: str) -> str:
    """Return *text* with fresh output in every generated block."""
    return BLOCK.sub(lambda block: block[1] + run(block["command"]) + block[4], text)


def main() -> int:
    """Write or check README.md."""
    readme = ROOT / "README.md"
    old = readme.read_text(encoding="utf-8")
    new = renewed(old)
    if "--check" in sys.argv:
        if old != new:
            sys.stderr.write("README.md shows output that its commands no longer print; run: make docs\n")
        return int(old != new)
    readme.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
