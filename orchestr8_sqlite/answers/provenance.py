"""Tells where a served text or skill comes from: root, file, commit of its git checkout, digest of its bytes."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from orchestr8_sqlite.answers.documents import Document
from orchestr8_sqlite.answers.skill_files import MAIN_FILE, SkillEntry, is_skill_uri, parse_skill_uri
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.uris import Read, parse_uri

FRAGMENT_SOURCE = """
SELECT s.root, s.path, s.sha256 FROM fragment f JOIN source s ON s.id = f.source_id WHERE f.path = :path
"""
FILE_SOURCE = """
SELECT s.root, s.path, s.sha256 FROM json_each(:splits) p JOIN fragment f ON f.path = json_extract(p.value, '$[0]')
  JOIN skill_file b ON b.fragment_id = f.id AND b.path = json_extract(p.value, '$[1]')
  JOIN source s ON s.id = b.source_id
"""
SKILL_SOURCE = """
SELECT s.root, s.path, s.sha256 FROM json_each(:splits) p JOIN skill k ON k.path = json_extract(p.value, '$[0]')
  JOIN skill_file b ON b.fragment_id = k.fragment_id AND b.path = json_extract(p.value, '$[1]')
  JOIN source s ON s.id = b.source_id
"""
SKILL_FILES = """
SELECT b.path, b.sha256, s.root, s.path FROM skill k JOIN skill_file b ON b.fragment_id = k.fragment_id
  JOIN source s ON s.id = b.source_id WHERE k.path = :path ORDER BY b.path
"""
UNREVIEWED = """
SELECT d.root, d.path, d.code, min(d.line) FROM json_each(:files) f
 CROSS JOIN finding d ON d.root = json_extract(f.value, '$[0]') AND d.path = json_extract(f.value, '$[1]')
 WHERE d.reviewer IS NULL GROUP BY 1, 2, 3 ORDER BY 4 NULLS FIRST, 3
"""
SHORT_COMMIT, SHORT_DIGEST = 10, 12


class Source(NamedTuple):
    """The file that a URI is read from; `commit` is None outside a git checkout.

    `unreviewed` has a text for each kind of finding in it that nobody has accepted, with its first line:
    `download-run:12`.
    """

    uri: str
    root: str
    path: str
    sha256: str
    commit: str | None
    unreviewed: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """Return the source in a few tokens: `library/skills/retry.md@1f0c2a9b3d sha256:5feceb66ffc8`."""
        commit = f"@{self.commit[:SHORT_COMMIT]}" if self.commit else ""
        return f"{self.root}/{self.path}{commit} sha256:{self.sha256[:SHORT_DIGEST]}"


class SkillState(NamedTuple):
    """What tells one state of a skill from another, and what to know before it is obeyed.

    `sha256` covers the names and bytes of all its files (`digest_list`); `commit` is None outside a git checkout.
    `unreviewed` has, by path within the skill, the texts of `Source.unreviewed`, for files that have any.
    """

    sha256: str
    commit: str | None
    unreviewed: Mapping[str, tuple[str, ...]]


def find_source(catalog: Catalog, uri: str) -> Source | None:
    """Return where the text at *uri* comes from, or None if it is not a single file.

    Raises:
        RequestError: The URI is not acceptable.
    """
    if is_skill_uri(uri):
        rows = catalog.rows(SKILL_SOURCE, {"splits": _splits(parse_skill_uri(uri))})
    elif isinstance(target := parse_uri(uri), Read):
        rows = catalog.rows(FRAGMENT_SOURCE, {"path": target.id})
        rows = rows or catalog.rows(FILE_SOURCE, {"splits": _splits(target.id)})
    else:
        return None
    if not rows:
        return None
    root, path, sha256 = rows[0]
    commit = _commit_of(path, catalog.commits.get(root, {}))
    return Source(uri, root, path, sha256, commit, _unreviewed(catalog, [(root, path)]).get((root, path), ()))


def state_of(catalog: Catalog, skill: SkillEntry) -> SkillState:
    """Return the state of a skill; the commit is that of its SKILL.md."""
    from orchestr8_sqlite.model.digests import digest_list  # noqa: PLC0415 - a text that is loaded needs no hashlib

    files = {path: (sha256, (root, at)) for path, sha256, root, at in catalog.rows(SKILL_FILES, {"path": skill.path})}
    root, at = files[MAIN_FILE][1]
    found = _unreviewed(catalog, [place for _, place in files.values()])
    return SkillState(
        digest_list({path: sha256 for path, (sha256, _) in files.items()}),
        _commit_of(at, catalog.commits.get(root, {})),
        {path: found[place] for path, (_, place) in files.items() if place in found},
    )


def trace(
    catalog: Catalog, documents: Iterable[Document], *, shown: bool = False
) -> tuple[list[Document], tuple[Source, ...]]:
    """Return *documents* with their sources, and the sources; if *shown*, each text gets a line that names its own."""
    traced: list[Document] = []
    sources: list[Source] = []
    for document in documents:
        source = None if document.is_answer else find_source(catalog, document.uri)
        if source is not None:
            sources.append(source)
            document = document._replace(source=source.line, unreviewed=source.unreviewed)  # noqa: PLW2901 - the same
        traced.append(document.with_line(_shown(source)) if shown and source else document)
    return traced, tuple(sources)


def _shown(source: Source) -> str:
    found = f"\n\nUnreviewed findings: {', '.join(source.unreviewed)}" if source.unreviewed else ""
    return f"Source: {source.line}{found}"


def _unreviewed(catalog: Catalog, files: Sequence[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return, by root and path, the texts of `Source.unreviewed` for those of *files* that have any."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for root, path, code, line in catalog.rows(UNREVIEWED, {"files": json.dumps(files)}):
        found[root, path] = (*found.get((root, path), ()), f"{code}:{line}" if line else str(code))
    return found


def _commit_of(path: str, commits: Mapping[str, str]) -> str | None:
    """Return the commit of the innermost checkout that contains *path*."""
    around = [folder for folder in commits if not folder or path.startswith(f"{folder}/")]
    return commits[max(around, key=len)] if around else None


def _splits(path: str) -> str:
    """Return all ways to read *path* as a skill and a file of it, as JSON."""
    parts = path.split("/")
    return json.dumps([("/".join(parts[:cut]), "/".join(parts[cut:])) for cut in range(1, len(parts))])
