"""The exceptions that callers may catch.

    Orchestr8Error
    ├── SettingsError        an environment variable or option has an unusable value
    ├── LibraryError         a root cannot be read at all
    ├── BuildError           a build was refused; the old index is untouched
    │   ├── RefusedLibrary   the library has problems or findings that the options do not allow
    │   └── CheckError       the written index failed a check
    ├── CatalogError         the index file is foreign, damaged, too old or too new
    │   ├── MissingIndex     there is no such file
    │   └── Unreachable      a database with a part of the index does not answer
    ├── ShippingError        an index could not be published or pulled
    │   ├── SourceError      the other side cannot be reached, or failed: trying again may help
    │   └── RefusedRelease   what a source offers is not what it should be, or is older than what is here
    ├── ClientFileError      the configuration of a client cannot be read or must not be changed
    ├── ServeError           the server cannot listen on the address, or cannot start a worker
    └── RequestError         a URI or parameter is wrong; says what to send instead
        └── UnknownResource  no fragment, category or prompt has that name

Every message is one sentence for a person or a model: what, where, what to do.
A message of `RequestError` may reach an MCP client, so it never contains a path of this machine.
"""

from collections.abc import Sequence
from typing import Any


class Orchestr8Error(Exception):
    """Base of every error that this package raises on purpose."""


class SettingsError(Orchestr8Error):
    """An environment variable or an option has an unusable value."""


class LibraryError(Orchestr8Error):
    """A library root cannot be read at all."""


class BuildError(Orchestr8Error):
    """The build was refused or failed; the previous index, if any, is untouched."""


class RefusedLibrary(BuildError):
    """The library has problems that are not allowed; only changing its files or the options helps.

    *problems* are the diagnostics of these problems, each with its `line_of_text`.
    """

    def __init__(self, sentence: str, problems: Sequence[Any] = ()) -> None:
        super().__init__("\n".join([*(problem.line_of_text for problem in problems), sentence]))
        self.sentence = sentence
        self.problems = problems


class CheckError(BuildError):
    """The written index contradicts itself or the files that were read."""


class CatalogError(Orchestr8Error):
    """The index database cannot be opened or read."""


class MissingIndex(CatalogError):
    """There is no index at the given path."""


class Unreachable(CatalogError):
    """A database with a part of the index does not answer; trying again may help."""


class ShippingError(Orchestr8Error):
    """An index could not be published or pulled; what was there before is untouched."""


class SourceError(ShippingError):
    """The source or target cannot be reached or failed; trying again may help."""


class RefusedRelease(ShippingError):
    """What a source offers is not what it should be, or is older than what is here."""


class ClientFileError(Orchestr8Error):
    """The configuration file of a client cannot be read, or has content that must not be overwritten."""


class ServeError(Orchestr8Error):
    """The server cannot start or continue to serve over HTTP."""


class RequestError(Orchestr8Error):
    """A URI or a parameter is not acceptable."""


class UnknownResource(RequestError):
    """Nothing in the index has that name."""
