"""The demonstration of PostgreSQL shows what docs/postgresql.md promises of a database that dies and comes back."""

import subprocess
import sys
from pathlib import Path

import pytest
from postgresql_server import PASSWORD, program
from support import brought

pytestmark = pytest.mark.slow

DEMO = Path(__file__).with_name("postgresql_demo.py")


def test_the_demonstration_answers_fails_answers_in_part_and_answers_as_before() -> None:
    brought(lambda: program("initdb"))
    done = subprocess.run([sys.executable, DEMO], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    _, started, whole, dead, partial, back = done.stdout.split("\n== ")
    assert "published to stable: schema orchestr8_1" in started
    whole, dead, partial, back = (text.partition("\n")[2].strip() for text in (whole, dead, partial, back))
    assert "error-handling-resilience" in whole
    assert dead == "A database of the library does not answer; try again in a moment."
    assert partial.startswith("Partial: 1 database of the library did not answer.\n")
    assert partial.count("orchestr8://") > 1
    assert back == whole
    assert PASSWORD not in done.stdout + done.stderr
