"""Threads of a server take memory from one place."""

import platform
import subprocess
import sys

import pytest

THREADS = """
import ctypes, sys, threading
from orchestr8_sqlite.server.arenas import share_one_arena
if sys.argv[1] == "shared":
    share_one_arena()
begin = threading.Barrier(4)
def hold():
    begin.wait()
    held.append([bytes(5_000) for _ in range(100)])
    begin.wait()
held = []
threads = [threading.Thread(target=hold) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
ctypes.CDLL(None).malloc_stats()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has an arena for each thread")
@pytest.mark.parametrize(("how", "is_one"), [("shared", True), ("as it is", False)])
def test_threads_share_an_arena_where_each_would_have_its_own(how: str, is_one: bool) -> None:
    done = subprocess.run([sys.executable, "-c", THREADS, how], capture_output=True, text=True, check=True)
    assert (done.stderr.count("Arena ") == 1) is is_one
