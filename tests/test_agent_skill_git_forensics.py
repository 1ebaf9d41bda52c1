"""The script of the skill git-forensics reads hot spots, ownership and coupling from a history."""

import os
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from agent_skills import assert_refused, run_json, run_script

SCRIPT = ("git-forensics", "mine_history.py")


class Repository:
    """A repository whose commits are dated a day apart."""

    def __init__(self, root: Path) -> None:
        self.root, self.day = root, 0.0
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str, author: str = "ann") -> None:
        stamp = f"{round(1_780_000_000 + 86400 * self.day)} +0000"
        identity = {
            f"GIT_{role}_{key}": value
            for role in ("AUTHOR", "COMMITTER")
            for key, value in (("NAME", author), ("EMAIL", f"{author}@example.com"), ("DATE", stamp))
        }
        environment = {**os.environ, **identity, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["git", *arguments], cwd=self.root, env=environment, check=True, capture_output=True)

    def commit(self, subject: str, files: dict[str, str], author: str = "ann", days: int = 1) -> None:
        self.day += days
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", subject, author=author)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def rows(repository: Repository, view: str, *arguments: str) -> list[dict[str, Any]]:
    report = run_json(*SCRIPT, view, "--repo", repository.root, "--since", "", *arguments)
    found: list[dict[str, Any]] = report["rows"]
    return found


def test_a_file_that_is_long_and_changes_often_comes_first(repository: Repository) -> None:
    repository.commit("start", {"src/core.py": "a\n" * 10, "src/long.py": "b\n" * 500, "package-lock.json": "1\n"})
    repository.commit("fix a crash", {"src/core.py": "a\n" * 11, "package-lock.json": "2\n"})
    repository.commit("add", {"src/core.py": "a\n" * 12, "package-lock.json": "3\n"}, author="bob")
    assert rows(repository, "hotspots") == [
        {"score": 36, "commits": 3, "lines": 12, "fixes": 1, "churn": 12, "authors": 2}
        | {"last": "2026-05-31", "file": "src/core.py"}
    ]


def test_the_history_of_a_renamed_file_counts_for_its_present_name(repository: Repository) -> None:
    text = "".join(f"line {number}\n" for number in range(30))
    repository.commit("start", {"old/a.py": text})
    repository.commit("change", {"old/a.py": text + "more\n"})
    repository.git("mv", "old", "new")
    repository.commit("move", {})
    (row,) = rows(repository, "hotspots")
    assert (row["file"], row["commits"], row["churn"]) == ("new/a.py", 3, 31)


def test_the_main_author_of_a_folder_is_named_and_gone_after_half_a_year(repository: Repository) -> None:
    repository.commit("start", {"billing/a.py": "x\n" * 90}, author="eve")
    repository.commit("more", {"billing/a.py": "x\n" * 100, "web/b.py": "y\n" * 5}, days=200)
    billing, web = rows(repository, "owners")
    assert (billing["folder"], billing["main"], billing["share"], billing["gone"]) == ("billing", "eve", 90, True)
    assert (web["main"], web["share"], web["gone"]) == ("ann", 100, False)


def test_files_that_change_together_are_paired_and_mass_edits_ignored(repository: Repository) -> None:
    for turn in range(5):
        repository.commit(f"turn {turn}", {"api/rules.py": f"{turn}\n", "web/rules.ts": f"{turn}\n"})
    repository.commit("alone", {"api/rules.py": "alone\n"})
    for turn in range(6):
        repository.commit("format", {f"mass/{number}.py": f"{turn}\n" for number in range(31)})
    assert rows(repository, "coupling") == [
        {"together": 5, "share": 100, "a": "api/rules.py", "b": "web/rules.ts", "same_folder": False}
    ]


def test_repairs_are_counted_a_quarter(repository: Repository) -> None:
    repository.commit("start", {"a.py": "1\n"})
    repository.commit("Revert the start", {"a.py": "2\n"})
    repository.commit("prefix names", {"a.py": "3\n"}, days=60)
    assert [(row["quarter"], row["commits"], row["fixes_percent"]) for row in rows(repository, "summary")] == [
        ("2026-Q3", 1, 0),
        ("2026-Q2", 2, 50),
    ]


def test_a_folder_outside_any_repository_is_refused(tmp_path: Path) -> None:
    assert_refused(run_script(*SCRIPT, "hotspots", "--repo", tmp_path), "not a git repository")


def test_a_range_without_commits_has_its_own_exit_code(repository: Repository) -> None:
    repository.commit("start", {"a.py": "1\n"})
    done = run_script(*SCRIPT, "owners", "--repo", repository.root, "--path", "nowhere")
    assert (done.returncode, done.stdout) == (1, "")
    assert "below nowhere" in done.stderr


def test_coupling_below_a_path_names_partners_outside_of_it(repository: Repository) -> None:
    for turn in range(5):
        names = ("api/rules.py", "web/rules.ts", "web/other.ts")
        repository.commit(f"turn {turn}", dict.fromkeys(names, f"{turn}\n"))
    found = rows(repository, "coupling", "--path", "./api")
    assert [(row["a"], row["b"]) for row in found] == [
        ("api/rules.py", "web/other.ts"),
        ("api/rules.py", "web/rules.ts"),
    ]


def test_names_that_git_quotes_are_files_like_others_and_compiled_requirements_are_not(repository: Repository) -> None:
    for text in ("1\n", "1\n2\n"):
        repository.commit("x", {'a "b/c\td.py': text, "requirements-dev.txt": text})
    (row,) = rows(repository, "hotspots")
    assert row["file"] == 'a "b/c\td.py'
    assert row["score"] > 0


def test_usual_words_for_a_repair_count(repository: Repository) -> None:
    for number, subject in enumerate(["bugfix: save", "Fixing it", "bugs", "crashes on save", "prefix", "debug"]):
        repository.commit(subject, {"a.py": "x\n" * (number + 1)})
    assert [row["fixes"] for row in rows(repository, "hotspots")] == [4]


def test_lock_files_of_every_tool_are_left_out(repository: Repository) -> None:
    names = ("bun.lock", "bun.lockb", "Pipfile.lock", "deno.lock", "packages.lock.json", "Package.resolved", "lock.py")
    for number in range(2):
        repository.commit("change", {f"app/{name}": f"{number}\n" for name in names})
    assert [row["file"] for row in rows(repository, "hotspots")] == ["app/lock.py"]


@pytest.mark.parametrize("since", ["3m", "1y", "v2.3.0", "last release", "2026-13-01", "2026-02-30"])
def test_a_date_that_git_would_guess_is_refused(since: str, repository: Repository) -> None:
    repository.commit("start", {"a.py": "1\n"})
    assert_refused(run_script(*SCRIPT, "summary", "--repo", repository.root, "--since", since), "is no date")


def test_a_bare_date_begins_at_midnight(repository: Repository) -> None:
    repository.day = round(datetime(2026, 6, 1, 0, 0, 30).astimezone().timestamp() - 1_780_000_000) / 86400 - 1
    repository.commit("start", {"a.py": "1\n"})
    report = run_json(*SCRIPT, "summary", "--repo", repository.root, "--since", "2026-06-01")
    assert report["commits"] == 1


@pytest.mark.parametrize("arguments", [("--top", "0"), ("--top", "-1"), ("--depth", "-1")])
def test_a_number_below_one_is_refused(arguments: tuple[str, ...], repository: Repository) -> None:
    repository.commit("start", {"a.py": "1\n"})
    done = run_script(*SCRIPT, "owners", "--repo", repository.root, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "must be 1 or more" in done.stderr


def test_a_hook_of_another_repository_does_not_change_which_one_is_read(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit("start", {"a.py": "1\n"})
    (tmp_path / "other").mkdir()
    Repository(tmp_path / "other").commit("one", {"b.py": "1\n"})
    Repository(tmp_path / "other").commit("two", {"b.py": "2\n"})
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    assert [row["commits"] for row in rows(repository, "summary")] == [1]


def test_one_clock_that_is_ahead_makes_nobody_else_gone(repository: Repository) -> None:
    repository.commit("start", {"one/a.py": "x\n"})
    repository.commit("ahead", {"two/b.py": "y\n"}, author="bob", days=3650)
    rows_ = rows(repository, "owners", "--idle-days", "3000")
    assert [(row["main"], row["gone"]) for row in rows_] == [("ann", False), ("bob", False)]


def test_who_left_a_path_but_works_elsewhere_is_not_gone(repository: Repository) -> None:
    repository.commit("start", {"billing/a.py": "x\n" * 90}, author="eve")
    repository.commit("more", {"billing/a.py": "x\n" * 91}, days=70)
    repository.commit("other", {"web/b.py": "y\n"}, author="eve")
    (billing,) = rows(repository, "owners", "--path", "billing", "--idle-days", "60")
    assert (billing["main"], billing["gone"]) == ("eve", False)
    repository.commit("later", {"web/b.py": "z\n"}, days=90)
    (billing,) = rows(repository, "owners", "--path", "billing", "--idle-days", "60")
    assert (billing["main"], billing["gone"]) == ("eve", True)
