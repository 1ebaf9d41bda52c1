"""Grows a library to a given size on disk, and keeps it in a working folder for the next run."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import growth as growth_module
import sources as sources_module
import zipf
from growth import BLOCK, Growth
from sources import Document, Source, read_sources

SHORT_FROM = 500_000
"""A corpus of at least this many fragments gets short bodies."""

TASKS = 16
"""Parts that a corpus is written in; the templates are sent to a process once per part."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """A library on disk. `documents` is a file with one JSON document per line; `bytes` is the size of the library."""

    size: int
    seed: int
    root: Path
    documents: Path
    bytes: int

    def read_documents(self) -> Iterator[dict[str, object]]:
        """Yield the searchable fields of each document."""
        with self.documents.open(encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)

    def some_files(self, count: int) -> list[Path]:
        """Return *count* files of the library, evenly spaced, in its order."""
        wanted = {turn * self.size // count for turn in range(count)}
        paths = (str(document["path"]) for document in self.read_documents())
        return [self.root / path for number, path in enumerate(paths) if number in wanted]


def make_corpus(library: Path, size: int, workdir: Path, *, seed: int, short_from: int = SHORT_FROM) -> Corpus:
    """Return *library* grown to *size* fragments; reuse the one in *workdir* if it was grown there before.

    The library's own fragments come first. A small corpus is the beginning of a larger one with the same seed.

    Raises:
        EmptyLibrary: The library holds nothing to grow from.
    """
    sources = read_sources(library)
    short = size >= short_from
    folder = workdir / f"corpus-{size}-{_digest(sources, seed, short=short)}"
    mark = folder / "corpus.json"
    if not mark.is_file():
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "library").mkdir(parents=True)
        written = _write_sources(sources[:size], folder) + _grow(sources, folder, size, seed, short=short)
        mark.write_text(json.dumps({"bytes": written, "seed": seed, "size": size}), encoding="utf-8")
    total = int(json.loads(mark.read_text(encoding="utf-8"))["bytes"])
    return Corpus(size, seed, folder / "library", folder / "documents.jsonl", total)


def _write_sources(sources: list[Source], folder: Path) -> int:
    """Write the library's own files and return their size in bytes."""
    with (folder / "documents.jsonl").open("w", encoding="utf-8") as lines:
        for source in sources:
            path = folder / "library" / source.document.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(source.content)
            lines.write(_line(source.document))
    return sum(len(source.content) for source in sources)


def _grow(sources: list[Source], folder: Path, size: int, seed: int, *, short: bool) -> int:
    """Write the fragments that follow the library's own, in several processes, and return their size in bytes."""
    growth = Growth(sources, seed=seed, short=short)
    step = max(BLOCK, -(-size // (TASKS * BLOCK)) * BLOCK)
    parts = [(start, min(start + step, size)) for start in range(0, size, step)]
    write = partial(_write_part, growth, folder)
    if len(parts) == 1:
        written = write(parts[0])
    else:
        with ProcessPoolExecutor(os.cpu_count()) as processes:
            written = sum(processes.map(write, parts))
    with (folder / "documents.jsonl").open("ab") as whole:
        for start, _ in parts:
            part = _part_file(folder, start)
            with part.open("rb") as lines:
                shutil.copyfileobj(lines, whole)
            part.unlink()
    return written


def _write_part(growth: Growth, folder: Path, part: tuple[int, int]) -> int:
    """Write the fragments whose numbers lie in *part* (start, stop) and return their size in bytes."""
    written = 0
    made: set[str] = set()
    with _part_file(folder, part[0]).open("w", encoding="utf-8") as lines:
        for document, text in growth.fragments(*part):
            path = f"{folder}/library/{document.path}"
            parent = path.rpartition("/")[0]
            if parent not in made:
                Path(parent).mkdir(parents=True, exist_ok=True)
                made.add(parent)
            content = text.encode()
            with open(path, "wb") as file:
                file.write(content)
            lines.write(_line(document))
            written += len(content)
    return written


def _part_file(folder: Path, start: int) -> Path:
    return folder / f"part-{start}.jsonl"


def _line(document: Document) -> str:
    return json.dumps(document.as_json(), ensure_ascii=False) + "\n"


def _digest(sources: list[Source], seed: int, *, short: bool) -> str:
    """Return a digest of everything that shapes a corpus: library, seed, length of bodies and generator."""
    digest = hashlib.sha256(f"{seed} {short}".encode())
    for module in (growth_module, sources_module, zipf):
        assert module.__file__ is not None
        digest.update(Path(module.__file__).read_bytes())
    for source in sources:
        digest.update(json.dumps(asdict(source.document)).encode() + source.content)
    return digest.hexdigest()[:12]
