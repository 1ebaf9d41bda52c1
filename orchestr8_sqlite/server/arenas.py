"""Where the threads of a server take memory from."""

import ctypes
import sys

M_ARENA_MAX = -8
"""Of mallopt(3)."""


def share_one_arena() -> None:
    """Let threads that start from now on take memory where the first one does; with a C library but glibc, nothing.

    In an arena of its own each would keep what its largest request took.
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(M_ARENA_MAX, 1)
