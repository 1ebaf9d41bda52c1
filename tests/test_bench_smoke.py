"""Which ratios fail the small measurement that runs before a change lands."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import smoke
from corpus import Corpus


@pytest.fixture
def setting(tmp_path: Path) -> smoke.Setting:
    return smoke.Setting(Corpus(0, 1, tmp_path, tmp_path, 0), tmp_path, [])


def test_a_ratio_fails_when_it_is_worse_than_recorded_by_more_than_half() -> None:
    recorded = {"a": 3.0, "b": 3.0}
    assert smoke.worse_than(recorded, {"a": 4.5, "b": 4.51, "new": 99.0}) == ["b"]


def test_a_failing_measurement_is_repeated_once_and_the_better_ratio_counts(setting: smoke.Setting) -> None:
    found: Iterator[Mapping[str, float]] = iter([{"a": 9.0, "b": 1.0}, {"a": 1.1, "b": 2.0}])
    assert smoke.measure_twice([lambda _: next(found)], setting, {"a": 1.0, "b": 1.0}) == {"a": 1.1, "b": 1.0}


def test_a_measurement_within_its_bounds_is_not_repeated(setting: smoke.Setting) -> None:
    found: Iterator[Mapping[str, float]] = iter([{"a": 1.2}])
    assert smoke.measure_twice([lambda _: next(found)], setting, {"a": 1.0}) == {"a": 1.2}
