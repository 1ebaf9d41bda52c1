"""What the inspection page holds of other people's packages: their bytes as locked, with their licenses."""

import hashlib

import pytest
from support import brought
from vendoring import COPIES, SOURCES, copy_of, locked_version, vendored

SHA256 = {"d3-hierarchy": "c81111db56caaba8e071667bc012d960e90518aade409e4dd592c6ef9f08ba65"}
"""Of our copies. `make vendor` after a new version in tests/package.json changes them: read what changed first."""


def test_only_what_is_listed_is_vendored() -> None:
    assert {path.name for path in COPIES.iterdir()} == {copy_of(package).name for package in SOURCES}
    assert SHA256.keys() == SOURCES.keys()


@pytest.mark.parametrize("package", SOURCES)
def test_copy_is_unchanged_and_names_its_version_and_license(package: str) -> None:
    text = copy_of(package).read_bytes()
    assert hashlib.sha256(text).hexdigest() == SHA256[package]
    license_, built = text.decode().split("*/\n", 1)
    assert "Permission to use, copy, modify, and/or distribute" in license_
    assert f" v{locked_version(package)} " in built.splitlines()[0]


@pytest.mark.slow
@pytest.mark.parametrize("package", SOURCES)
def test_copy_is_what_the_locked_package_has(package: str) -> None:
    assert copy_of(package).read_text(encoding="utf-8") == brought(lambda: vendored(package))
