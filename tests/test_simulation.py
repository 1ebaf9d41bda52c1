"""The supervision of a server under simulated time, processes and connections: every run follows from its seed.

The code is the product's. `tests/simulation` simulates the clock, the sockets, the processes and the library.
"""

import gc
import subprocess
import sys
from pathlib import Path

import pytest
from simulation import Broken
from simulation.run import COMMAND, broken_of
from simulation.world import World

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
"""A run ends like a power failure: what it leaves open is taken away with its loop."""

FEW, MANY = 50, 1_000
PARTS = 10


def test_nothing_is_broken_in_some_simulated_runs() -> None:
    assert broken_of(range(FEW)) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_is_broken_in_many_simulated_runs(part: int) -> None:
    each = MANY // PARTS
    assert broken_of(range(FEW + part * each, FEW + (part + 1) * each)) == []


def test_run_follows_from_its_seed_alone() -> None:
    logs = []
    for _ in range(2):
        world = World(7, is_told=True)
        world.play()
        logs.append(world.log)
        del world
        gc.collect()
    assert logs[0]
    assert logs[0] == logs[1]


def test_broken_run_says_by_which_command_it_is_seen_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def play(world: World) -> None:
        if world.seed == 3:
            raise Broken("seed 3: a request is answered twice")

    monkeypatch.setattr(World, "play", play)
    assert broken_of(range(5)) == [f"seed 3: a request is answered twice; see it by: {COMMAND} 3"]


@pytest.mark.slow
def test_seed_can_be_played_by_hand() -> None:
    tests = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-m", "simulation.run", "--seed", "1"], cwd=tests, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "nothing was broken"
