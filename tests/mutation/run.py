"""Runs mutmut, prints what became of the mutants of each module, and exits 1 where one survives unexplained.

Run: PYTHONPATH=tests python -m mutation.run [PATTERN …], with patterns of names for some mutants (`*settings*`).
"""

import resource
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

EXPLAINED = Path(__file__).with_name("explained.txt")
PACKAGE = "orchestr8_sqlite."
FEWEST = 0.9
"""Share of the mutants of a module that tests must notice, whatever is explained."""

MOST_MEMORY = 2 << 30
"""Bytes of address space: a mutant whose loop never ends may collect what it yields."""

KILLED, SURVIVED, NOT_RUN = "killed", "survived", "not checked"
NOTICED = {KILLED: KILLED, "timeout": KILLED, "segfault": KILLED, "suspicious": KILLED, "no tests": SURVIVED}
"""What mutmut calls a mutant → what counts: one that runs on and on, or takes all memory, is noticed."""


class Change(NamedTuple):
    """What a mutant changes: the function by module and name, and its lines before and after, without indentation."""

    function: str
    before: str
    after: str


class Mutant(NamedTuple):
    """A mutant, by mutmut's name for it, and what became of it."""

    name: str
    outcome: str

    @property
    def function(self) -> str:
        """Return the function that it is a mutant of: settings.environment, library.trust.phrases.Text.is_code."""
        module, _, name = self.name.rpartition("__mutmut_")[0].removeprefix(PACKAGE).rpartition(".")
        return f"{module}.{name.removeprefix('x_').removeprefix('xǁ').replace('ǁ', '.')}"

    @property
    def module(self) -> str:
        """Return its module below the package."""
        return self.name.removeprefix(PACKAGE).rpartition(".")[0]


def read_explained(text: str) -> dict[Change, str]:
    """Return the changes that are explained, each with why.

    `# why` begins an explanation, a line without indentation names the function, and below it stand the lines before
    (`-`) and after (`+`) of one change after another.

    Raises:
        ValueError: A line is none of these.
    """
    explained: dict[Change, str] = {}
    why = function = before = ""
    for number, line in enumerate(text.splitlines(), start=1):
        sign, said = line.strip()[:2], line.strip()[2:].strip()
        if line.startswith("# "):
            why = said
        elif sign == "- ":
            before = said
        elif sign in ("+ ", "+"):
            explained[Change(function, before, said)] = why
        elif line and not line[0].isspace():
            function = line.strip()
        elif line.strip():
            raise ValueError(f"{EXPLAINED.name}:{number}: {line.strip()!r} is neither # nor - nor + nor a function.")
    return explained


def read_mutants(listed: str) -> list[Mutant]:
    """Return the mutants that `mutmut results --all true` has *listed*."""
    named = (line.strip().rpartition(": ") for line in listed.splitlines() if "__mutmut_" in line)
    return [Mutant(name, NOTICED.get(outcome, outcome)) for name, _, outcome in named]


def change_of(mutant: Mutant, shown: str) -> Change:
    """Return what *mutant* changes, of which `mutmut show` has *shown* the difference."""
    lines = [line for line in shown.splitlines() if line[:1] in "-+" and line[:3] not in ("---", "+++")]
    before, after = (" ".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+")
    return Change(mutant.function, before, after)


def complaints(
    mutants: Sequence[Mutant], survivors: Iterable[Change], explained: Mapping[Change, str], *, whole: bool
) -> Iterator[str]:
    """Yield what is to be done: about survivors that are not explained, modules of too few killed, stale lines."""
    survivors = set(survivors)
    for change in sorted(survivors - explained.keys()):
        yield f"not noticed: {change.function}\n    - {change.before}\n    + {change.after}"
    if whole:
        for change in sorted(explained.keys() - survivors):
            yield f"explained, but killed or gone: {change.function}\n    - {change.before}\n    + {change.after}"
    for module, counts in tally(mutants).items():
        if counts[KILLED] < FEWEST * counts.total():
            yield f"{module}: only {counts[KILLED]} of {counts.total()} mutants are killed."


def tally(mutants: Iterable[Mutant]) -> dict[str, Counter[str]]:
    """Return how many mutants of each module came to what."""
    counts: dict[str, Counter[str]] = {}
    for one in mutants:
        counts.setdefault(one.module, Counter())[one.outcome] += 1
    return counts


def table(mutants: Iterable[Mutant], gaps: Mapping[str, int]) -> str:
    """Return the counts of each module; *gaps* are the survivors that are not explained."""
    lines = [f"{'module':32}{'mutants':>9}{'killed':>9}{'share':>9}{'explained':>11}{'gaps':>6}"]
    for module, counts in tally(mutants).items():
        killed, gap = counts[KILLED], gaps.get(module, 0)
        share = f"{killed / counts.total():.1%}"
        left = counts.total() - killed - gap
        lines.append(f"{module:32}{counts.total():9}{killed:9}{share:>9}{left:11}{gap:6}")
    return "\n".join(lines)


def main() -> int:
    """Run mutmut and return the exit code."""
    patterns = sys.argv[1:]
    if not patterns:
        shutil.rmtree("mutants", ignore_errors=True)
    subprocess.run([*MUTMUT, "run", "--max-children", "1", *patterns], check=True, preexec_fn=_bound)
    every = read_mutants(_asked("results", "--all", "true"))
    mutants = [one for one in every if not patterns or any(fnmatch(one.name, pattern) for pattern in patterns)]
    explained = read_explained(EXPLAINED.read_text(encoding="utf-8"))
    survivors = {one: change_of(one, _asked("show", one.name)) for one in mutants if one.outcome != KILLED}
    gaps = Counter(one.module for one, change in survivors.items() if change not in explained)
    told = list(complaints(mutants, survivors.values(), explained, whole=not patterns))
    sys.stdout.write("\n".join(["", table(mutants, gaps), *told, ""]))
    return 1 if told else 0


MUTMUT = (sys.executable, "-m", "mutmut")


def _asked(*arguments: str) -> str:
    return subprocess.run([*MUTMUT, *arguments], capture_output=True, text=True, check=True).stdout


def _bound() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


if __name__ == "__main__":
    sys.exit(main())
