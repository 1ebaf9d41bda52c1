"""Records as flat tuples, which pickle passes between processes in a third of the time that dataclasses take."""

from collections.abc import Callable
from itertools import starmap
from operator import attrgetter
from typing import Any

from orchestr8_sqlite.model.records import Diagnostic, Fragment, Prompt, Reference, SourceFile

Flat = tuple[Any, ...]
FlatRecord = list[Any] | Fragment | Prompt | None


def _getter(record: type) -> Callable[[Any], Flat]:
    """Return a getter of the fields of a *record*, in the order of its constructor."""
    return attrgetter(*record.__dataclass_fields__)  # type: ignore[attr-defined]


FRAGMENT, SOURCE, DIAGNOSTIC, REFERENCE = map(_getter, (Fragment, SourceFile, Diagnostic, Reference))
NAMES = list(Fragment.__dataclass_fields__)
REFERENCES, OWN_SOURCE = NAMES.index("references"), NAMES.index("source")


def flat_source(source: SourceFile) -> Flat:
    """Return a file as a tuple."""
    return SOURCE(source)


def flat_diagnostics(diagnostics: tuple[Diagnostic, ...]) -> Flat:
    """Return each diagnostic as a tuple."""
    return tuple(map(DIAGNOSTIC, diagnostics))


def flat_record(record: Fragment | Prompt | None, source: SourceFile) -> FlatRecord:
    """Return a fragment of the file *source* as a list; anything else unchanged."""
    if not isinstance(record, Fragment) or record.source is not source:
        return record
    values = list(FRAGMENT(record))
    values[REFERENCES] = tuple(map(REFERENCE, record.references))
    values[OWN_SOURCE] = None
    return values


def read_source(flat: Flat) -> SourceFile:
    """Return the file that *flat* was made from."""
    return SourceFile(*flat)


def read_diagnostics(flat: Flat) -> tuple[Diagnostic, ...]:
    """Return the diagnostics that *flat* was made from."""
    return tuple(starmap(Diagnostic, flat))


def read_record(flat: FlatRecord, source: SourceFile) -> Fragment | Prompt | None:
    """Return the record of the file *source* that *flat* was made from."""
    if not isinstance(flat, list):
        return flat
    flat[REFERENCES] = tuple(starmap(Reference, flat[REFERENCES]))
    flat[OWN_SOURCE] = source
    return Fragment(*flat)
