"""Plays simulated runs: one seed and what happened in it, or many.

Run: PYTHONPATH=tests python -m simulation.run --seed NUMBER
     PYTHONPATH=tests python -m simulation.run --first NUMBER --runs NUMBER
"""

import argparse
import gc
import sys
import time
from collections.abc import Iterable
from contextlib import suppress

from simulation import Broken
from simulation.world import World

COMMAND = "PYTHONPATH=tests python -m simulation.run --seed"


def broken_of(seeds: Iterable[int]) -> list[str]:
    """Return what was broken in the runs of *seeds*, each with the command that plays it again."""
    found = []
    gc.disable()  # what a run leaves goes at once, after it
    for number, seed in enumerate(seeds):
        try:
            World(seed).play()
        except Broken as problem:
            found.append(f"{problem}; see it by: {COMMAND} {seed}")
        if number % 100 == 99:
            gc.collect()
    gc.collect()
    gc.enable()
    return found


def main() -> int:
    """Play, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="play this one, and print what happens")
    parser.add_argument("--first", type=int, default=0, help="the first of many seeds")
    parser.add_argument("--runs", type=int, default=1000, help="how many")
    options = parser.parse_args()
    began = time.perf_counter()
    if options.seed is not None:
        world = World(options.seed, is_told=True)
        with suppress(Broken):
            world.play()
        lines = [*(world.log or ()), repr(world.knobs)]
        sys.stdout.write("\n".join([*lines, world.problem or "nothing was broken", ""]))
        return 1 if world.problem else 0
    found = broken_of(range(options.first, options.first + options.runs))
    seconds = time.perf_counter() - began
    sys.stdout.write("\n".join([*found, f"{options.runs:,} runs in {seconds:.1f} s, {len(found)} broken", ""]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
