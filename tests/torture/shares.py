"""Who notices a byte of an index that has changed: the figures of docs/damage.md.

Run: PYTHONPATH=tests python -m torture.shares [NUMBER OF MUTANTS]
"""

import random
import sqlite3
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

from orchestr8_sqlite.index import catalog
from orchestr8_sqlite.index.checksums import comparison_of
from orchestr8_sqlite.index.connections import identity_of
from torture import Lost
from torture.corrupt import whole
from torture.mutants import anywhere, changed
from torture.questions import BUG, SENTENCE, Answers, Questions, ask, in_another_process

CHECKS = ("quick_check", "integrity_check")
WRONG = "another answer without a word"


def main() -> None:
    """Print how many of so many mutants are noticed by whom, and how long each way of looking takes."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    sound, chance = whole(), random.Random(0)
    counts: Counter[str] = Counter()
    seconds: dict[str, float] = defaultdict(float)
    for _ in range(number):
        with tempfile.TemporaryDirectory(prefix="torture-") as folder:
            path = Path(folder) / "index.db"
            data = bytearray(sound.index.read_bytes())
            changed(1, anywhere)(data, chance)
            path.write_bytes(data)
            outcome = answered(sound.questions, path)
            counts[outcome] += 1
            for check in ("checksum", *CHECKS):
                began = time.perf_counter()
                noticed = compare(path) if check == "checksum" else is_noticed(path, check)
                seconds[check] += time.perf_counter() - began
                counts[check] += noticed
                counts[f"{check}, {WRONG}"] += noticed and outcome == WRONG
    for name, count in sorted(counts.items()):
        took = f", {1000 * seconds[name] / number:.1f} ms" if name in seconds else ""
        sys.stdout.write(f"{name}: {count} of {number}{took}\n")


def answered(questions: Questions, path: Path) -> str:
    """Return what becomes of the questions where nobody compares the file with its checksum."""
    try:
        with patch.object(catalog, "comparison_of", return_value=None):
            answers = ask(questions, path)
    except Lost as problem:
        return f"no answers: {problem}"
    return outcome_of(questions, answers)


def outcome_of(questions: Questions, answers: Answers) -> str:
    """Return the worst that became of any question but doctor's, which looks more closely."""
    answers = {name: answer for name, answer in answers.items() if name != "doctor"}
    if any(text != questions.right[name][1] for name, (how, text) in answers.items() if how not in (SENTENCE, BUG)):
        return WRONG
    hows = {how for how, _ in answers.values()}
    return "a traceback" if BUG in hows else "a sentence of SQLite's" if SENTENCE in hows else "all answers right"


def compare(path: Path) -> bool:
    return comparison_of(path, identity_of(path.stat())).result() != ""


def is_noticed(path: Path, check: str) -> bool:
    """Tell whether a check of SQLite finds something."""

    def work() -> str:
        try:
            with closing(sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True)) as db:
                return str(db.execute(f"PRAGMA {check}(1)").fetchone()[0])
        except (sqlite3.Error, UnicodeError) as problem:
            return str(problem) or "raised"

    return in_another_process(work) != b"ok"


if __name__ == "__main__":
    main()
