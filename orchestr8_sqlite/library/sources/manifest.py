"""The tables `[[sources]]` of orchestr8.toml → what to fetch, and what its files may do in the library."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from orchestr8_sqlite.errors import SettingsError
from orchestr8_sqlite.model.requests import CATEGORIES
from orchestr8_sqlite.settings import read_level

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
DIGEST = re.compile(r"[0-9a-f]{64}")
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
REFERENCE = re.compile(r"(?!-)[^\0-\x20\x7f~^:?*\[\\]{1,200}")
HOST = r"[A-Za-z0-9][A-Za-z0-9.-]*"
GIT_URL = re.compile(
    rf"https?://(?P<login>[^/@]*@)?{HOST}(?::\d+)?/\S+|ssh://(?:[\w.-]+@)?{HOST}(?::\d+)?/\S+|[\w.-]+@{HOST}:(?!-)\S+"
    r"|file:///\S+"
)
"""Addresses that name no helper program of git and cannot be taken for an option."""

ARCHIVE_URL = re.compile(rf"https?://(?P<login>[^/@]*@)?{HOST}(?::\d+)?/\S+")
SUFFIXES = (".zip", ".tar.gz", ".tgz")
PLACES = ("git", "archive")
VERSIONS = ("commit", "tag", "branch")
KEYS = (
    *("name", "folder", *PLACES, *VERSIONS, "sha256", "owner", "namespace"),
    *("include", "exclude", "deny", "override"),
)


class SourceSpec(NamedTuple):
    """A table `[[sources]]`: a folder below that of the settings, a git repository, or an archive.

    `asked` says which files are meant, by key: git, tag, branch, archive, sha256, folder. `commit` is set if the
    manifest names one. Patterns match paths below the folder; `*` matches anything.
    """

    name: str
    asked: Mapping[str, str]
    commit: str | None = None
    owner: str = ""
    namespace: str = ""
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    deny: str | None = None
    override: bool = False

    @property
    def folder(self) -> str:
        """Return the part of a repository or archive that is read, empty for all of it; or the folder that is read."""
        folder = self.asked.get("folder", "")
        return "" if folder == "." else folder

    @property
    def is_fetched(self) -> bool:
        """Tell whether the files have to be fetched; a folder is read where it is."""
        return not self.asked.keys().isdisjoint(PLACES)

    @property
    def version(self) -> str:
        """Return the tag, branch or commit that the manifest names; empty for an archive or folder."""
        return self.asked.get("tag") or self.asked.get("branch") or self.commit or ""


def read_sources(tables: object, base: Path) -> tuple[SourceSpec, ...]:
    """Return the sources in *tables*, the value of `sources` in a settings file.

    Args:
        base: The folder of that file; what lies there has another name than a source that is fetched.

    Raises:
        SettingsError: A table is not complete, or names something that may not be fetched. No password is quoted.
    """
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise SettingsError("sources must be tables: [[sources]]")
    specs: list[SourceSpec] = []
    for number, table in enumerate(tables, start=1):
        spec = _read(table, f"sources, table {number}")
        if spec.name in [one.name for one in specs]:
            raise SettingsError(f"sources, table {number}: the name {spec.name} is taken; give it another one")
        if spec.is_fetched and (base / spec.name).exists():
            what = f"sources, table {number}: {spec.name} is also a name beside this file"
            raise SettingsError(f"{what}, so that its paths would be ambiguous; give it another one")
        specs.append(spec)
    return tuple(specs)


def _read(table: Mapping[str, Any], place: str) -> SourceSpec:
    for key in table:
        if key not in KEYS:
            raise SettingsError(f"{place}: there is no setting {key}; it knows {', '.join(KEYS)}")
    texts = {key: _text(table, key, place) for key in table if key not in ("include", "exclude", "override")}
    name, namespace = texts.get("name", ""), texts.get("namespace", "")
    if not NAME.fullmatch(name):
        raise SettingsError(f"{place}: name must be letters, digits, - or _; it stands before the paths of its files")
    if namespace and (not NAME.fullmatch(namespace) or namespace in CATEGORIES):
        raise SettingsError(f"{place}: namespace must be letters, digits, - or _, and not a category")
    if not isinstance(table.get("override", False), bool):
        raise SettingsError(f"{place}: override must be true or false")
    return SourceSpec(
        name=name,
        asked=_asked(texts, place),
        commit=texts.get("commit"),
        owner=texts.get("owner", ""),
        namespace=namespace,
        include=_patterns(table, "include", place),
        exclude=_patterns(table, "exclude", place),
        deny=read_level(texts.get("deny"), f"{place}: deny"),
        override=table.get("override", False),
    )


def _text(table: Mapping[str, Any], key: str, place: str) -> str:
    if not isinstance(table[key], str) or not table[key].strip():
        raise SettingsError(f"{place}: {key} must be a text")
    return str(table[key])


def _patterns(table: Mapping[str, Any], key: str, place: str) -> tuple[str, ...]:
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise SettingsError(f'{place}: {key} must be a list of patterns: {key} = ["guides/*"]')
    return tuple(found)


def _asked(texts: Mapping[str, str], place: str) -> Mapping[str, str]:
    """Return what says which files are meant, checked."""
    versions = [key for key in VERSIONS if key in texts]
    if "git" in texts:
        _check_git(texts, versions, place)
    elif "archive" in texts:
        _check_archive(texts, place)
    elif "folder" not in texts:
        raise SettingsError(f"{place}: name a folder, a git repository, or an archive")
    if "git" not in texts and versions:
        raise SettingsError(f"{place}: {versions[0]} belongs to a git repository")
    if "archive" not in texts and "sha256" in texts:
        raise SettingsError(f"{place}: sha256 belongs to an archive; a git repository has a commit")
    if "folder" in texts:
        check_below(texts["folder"], f"{place}: folder")
    asked = {key: texts[key] for key in ("git", "tag", "branch", "archive", "sha256", "folder") if key in texts}
    if "folder" in asked:
        asked["folder"] = PurePosixPath(asked["folder"]).as_posix()
    return asked


def _check_git(texts: Mapping[str, str], versions: Sequence[str], place: str) -> None:
    found = GIT_URL.fullmatch(texts["git"])
    if found is None or "::" in texts["git"]:
        raise SettingsError(f"{place}: git must be an address with https, ssh or file, or user@host:path")
    if found["login"]:
        raise SettingsError(f"{place}: git holds a login; leave it out and let git's credential helper give it")
    if "archive" in texts:
        raise SettingsError(f"{place}: it is a git repository or an archive, not both")
    if len(versions) != 1:
        raise SettingsError(f"{place}: name one commit, tag or branch")
    if "commit" in texts and not COMMIT.fullmatch(texts["commit"]):
        raise SettingsError(f"{place}: commit must be all 40 (or 64) digits")
    reference = texts.get("tag") or texts.get("branch")
    if reference is not None and (not REFERENCE.fullmatch(reference) or ".." in reference):
        raise SettingsError(f"{place}: {versions[0]} is no name of git")


def _check_archive(texts: Mapping[str, str], place: str) -> None:
    archive = texts["archive"]
    found = ARCHIVE_URL.fullmatch(archive)
    if found is not None and found["login"]:
        raise SettingsError(f"{place}: archive holds a login; leave it out")
    if found is None:
        if "://" in archive:
            raise SettingsError(f"{place}: archive must be an address with https, or a path")
        check_below(archive, f"{place}: archive")
    if not archive.partition("?")[0].endswith(SUFFIXES):
        raise SettingsError(f"{place}: archive must end with {', '.join(SUFFIXES)}")
    if not DIGEST.fullmatch(texts.get("sha256", "")):
        raise SettingsError(f"{place}: an archive needs sha256, the 64 digits that `sha256sum` prints")


def check_below(path: str, what: str) -> None:
    """Raise SettingsError if *path* could lie outside the folder that it is below."""
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or "\\" in path or ":" in path:
        raise SettingsError(f"{what} names {path!r}; name a place below, with /")
