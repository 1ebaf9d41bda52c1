"""Inputs that a fuzzer makes, guided by the code that they reach: none leads to an error that nobody foresaw.

libFuzzer (by atheris) changes inputs and keeps those that reach code, or reach it more often, than all before. Each
target is fuzzed in a process of its own, with bounds of time and memory for each input. A target that was not seen to
be guided (nothing counted, nothing found, hardly anything tried) is lost too. How many inputs are tried hangs on the
machine.
"""

import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from torture import Case, Lost, Skipped, Tried, Wrong
from torture.fuzz_inputs import Target

MODULES = ("torture.fuzz_documents", "torture.fuzz_requests", "torture.fuzz_answers")
SECONDS = 60
"""For which inputs are tried, where their number is not bounded."""

BOUNDED_INPUTS = 300
SLOWEST = 10
"""Seconds that one input may take."""

MOST_MEMORY = 1024
"""MiB of the fuzzing process."""

START = 60
"""Seconds more that a process may take in all."""

SEEDS, BOUNDED_SEEDS = 500, 60
LEAST_INPUTS = 100
LEAST_COVERED = 20
"""Edges of the product's code: far less than the simplest target has."""

STATUS = re.compile(
    r"^#\d+\s+(?P<what>INITED|DONE)\s+cov: (?P<covered>\d+) ft: (?P<features>\d+) corp: (?P<kept>\d+)", re.MULTILINE
)
TRIED = re.compile(r"^stat::number_of_executed_units:\s*(?P<inputs>\d+)", re.MULTILINE)
EXCEPTION = re.compile(r"=== Uncaught Python exception: ===\n(?P<kind>\w+)(?:: (?P<said>.*))?")
PLACES = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>\S+)')
ARTIFACTS = ("crash-*", "timeout-*", "oom-*", "leak-*")
LONGEST_SHOWN = 300


class Progress(NamedTuple):
    """What libFuzzer says of its work: inputs tried, edges covered, features with the seeds alone and at the end.

    A feature is an edge with how often an input took it. `kept` are the inputs of the corpus.
    """

    inputs: int
    covered: int
    seeded: int
    features: int
    kept: int

    @property
    def sentence(self) -> str:
        """Return what it came to."""
        found = f"features from {self.seeded:,} of the seeds to {self.features:,}"
        return f"{self.inputs:,} inputs covered {self.covered:,} edges, {found}, {self.kept:,} inputs kept"


def cases(seed: int, *, bounded: bool) -> Iterator[Case]:
    """Yield a case a target; a bounded one tries some inputs, others a minute long."""
    if find_spec("atheris") is None:
        yield Case("fuzzed inputs", "all targets", _skip)
        return
    for module in MODULES:
        for target in import_module(module).TARGETS:
            yield Case(f"fuzzed {target.name}", f"seed {seed}", _fuzzing(module, target, seed, bounded=bounded))


def _skip(_: Path) -> None:
    raise Skipped("atheris is not installed: it has wheels for some versions of CPython on Linux x86_64 alone")


def _fuzzing(module: str, target: Target, seed: int, *, bounded: bool) -> Callable[[Path], Tried]:
    """Return what fuzzes *target*."""
    bound = {"runs": BOUNDED_INPUTS} if bounded else {"max_total_time": SECONDS}

    def run(folder: Path) -> Tried:
        target.lay_out(folder)
        corpus = write_corpus(folder / "corpus", target, random.Random(seed), BOUNDED_SEEDS if bounded else SEEDS)
        words = folder / "words.dict"
        words.write_text("".join(map(dictionary_line, target.words)), encoding="ascii")
        flags = {
            "seed": seed + 1,  # 0 means any
            **bound,
            "max_len": target.longest,
            "timeout": SLOWEST,
            "rss_limit_mb": MOST_MEMORY,
            "dict": words,
            "artifact_prefix": f"{folder}{os.sep}",
            "print_final_stats": 1,
        }
        options = [f"-{name}={value}" for name, value in flags.items()]
        code, said = _run([module, target.name, str(folder), *options, str(corpus)], SECONDS + START)
        progress = judge(code, said, _artifact(folder))
        return Tried(progress.inputs, progress.sentence)

    return run


def write_corpus(folder: Path, target: Target, choice: random.Random, most: int) -> Path:
    """Write at most *most* of the seeds of *target*, cut to its longest input, and return their folder."""
    folder.mkdir()
    seeds = list(target.seeds())
    for number, content in enumerate(choice.sample(seeds, min(most, len(seeds)))):
        (folder / str(number)).write_bytes(content[: target.longest])
    return folder


def dictionary_line(word: str) -> str:
    """Return *word* as a line of a dictionary of libFuzzer: its bytes, all of them escaped."""
    return '"' + "".join(f"\\x{byte:02X}" for byte in word.encode("utf-8", "surrogatepass")) + '"\n'


def _run(arguments: list[str], seconds: float) -> tuple[int, str]:
    """Return the exit code of a fuzzing process, and what it said.

    Raises:
        Lost: It does not end.
    """
    paths = (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-m", "torture.fuzzed", *arguments]
    try:
        done = subprocess.run(
            command,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            env=environment,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        raise Lost(f"the fuzzing process takes more than {seconds} s") from None
    return done.returncode, done.stdout


def _artifact(folder: Path) -> bytes | None:
    """Return the input that ended the process, None where none did."""
    found = [path for pattern in ARTIFACTS for path in folder.glob(pattern)]
    return found[0].read_bytes() if found else None


def judge(code: int, said: str, artifact: bytes | None) -> Progress:
    """Return how far a fuzzing process came, by its exit code, what it said, and the input that ended it.

    Raises:
        Wrong: An answer is not what a naive reader expects.
        Lost: An error that nobody foresaw, too much time or memory; or nothing was guided by the code.
    """
    if code or artifact is not None:
        shown = "" if artifact is None else f"; input: {_shown(artifact)}"
        exception = EXCEPTION.search(said)
        if exception is None:
            raise Lost(f"{_summary(said, code)}{shown}")
        if exception["kind"] == Wrong.__name__:
            raise Wrong(f"{exception['said']}{shown}")
        place = PLACES.findall(said)[-1:]
        where = "".join(f" in {name}, {Path(file).name}:{line}" for file, line, name in place)
        raise Lost(f"{exception['kind']}: {exception['said']}{where}{shown}")
    progress = read_progress(said)
    if progress is None:
        raise Lost(f"the fuzzer tells nothing of its work: {said[-LONGEST_SHOWN:]}")
    if progress.covered < LEAST_COVERED:
        raise Lost(f"hardly any code is counted, so nothing was guided: {progress}")
    if progress.inputs < LEAST_INPUTS or progress.features <= progress.seeded:
        raise Lost(f"too few inputs were tried, or none was new: {progress}")
    return progress


def read_progress(said: str) -> Progress | None:
    """Return what libFuzzer *said* of its work, None where that is not all there."""
    status = {one["what"]: one for one in STATUS.finditer(said)}
    tried = TRIED.search(said)
    if tried is None or status.keys() != {"INITED", "DONE"}:
        return None
    begun, done = status["INITED"], status["DONE"]
    numbers = (tried["inputs"], done["covered"], begun["features"], done["features"], done["kept"])
    return Progress(*map(int, numbers))


def _summary(said: str, code: int) -> str:
    """Return what libFuzzer says of an end that is no exception."""
    errors = [line for line in said.splitlines() if "ERROR: libFuzzer: " in line]
    return errors[-1].partition("ERROR: ")[2] if errors else f"exit code {code}: {said[-LONGEST_SHOWN:]}"


def _shown(content: bytes) -> str:
    return repr(content[:LONGEST_SHOWN]) + (f" … {len(content):,} bytes" if len(content) > LONGEST_SHOWN else "")
