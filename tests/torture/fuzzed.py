"""Fuzzes one target in this process, which libFuzzer ends.

Run: PYTHONPATH=tests python -m torture.fuzzed MODULE TARGET FOLDER [-FLAG=VALUE …] CORPUS
"""

import sys
from importlib import import_module
from pathlib import Path

FUZZED = "orchestr8_sqlite"


def main() -> None:
    """Instrument the product, and only that, from its first import on; then fuzz."""
    import atheris  # not everywhere installed, and whoever looks for cases imports this module

    program, module, name, folder, *flags = sys.argv
    with atheris.instrument_imports(include=[FUZZED]):
        (target,) = (one for one in import_module(module).TARGETS if one.name == name)
        atheris.Setup([program, *flags], target.prepare(Path(folder)))
        atheris.Fuzz()


if __name__ == "__main__":
    main()
