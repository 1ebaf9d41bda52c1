"""The seeded cases of injection, bounded, as a test."""

from pathlib import Path

import pytest
from torture.injection import cases


@pytest.mark.slow
def test_no_nasty_library_and_no_nasty_query_breaks_an_answer(tmp_path: Path) -> None:
    for number, case in enumerate(cases(20261123, bounded=True)):
        folder = tmp_path / str(number)
        folder.mkdir()
        case.run(folder)
