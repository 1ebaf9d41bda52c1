"""Git checkouts that tests make, with the program git."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

Git = Callable[..., str]
"""Runs git in a folder and returns what it prints."""


def run_git(folder: Path, *arguments: str) -> str:
    names = {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@a.test", "GIT_COMMITTER_NAME": "A"}
    environment = {**os.environ, **names, "GIT_COMMITTER_EMAIL": "a@a.test", "GIT_CONFIG_GLOBAL": os.devnull}
    command = ["git", "-C", str(folder), "-c", "protocol.file.allow=always", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, check=True, encoding="utf-8").stdout.strip()


def commit(git: Git, folder: Path) -> str:
    """Make a checkout of *folder* where it is none, commit what is in it, and return the commit."""
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "Change")
    return git(folder, "rev-parse", "HEAD")
