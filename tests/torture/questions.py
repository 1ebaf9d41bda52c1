"""What a file in the place of an index answers, asked in a process of its own: by the service and by commands."""

import io
import json
import logging
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, redirect_stderr, redirect_stdout, suppress
from functools import partial
from pathlib import Path

from orchestr8_sqlite.answers.prompts import list_prompts
from orchestr8_sqlite.cli import main
from orchestr8_sqlite.doctor.index import check_index
from orchestr8_sqlite.doctor.report import CheckVerdict
from orchestr8_sqlite.errors import CatalogError
from orchestr8_sqlite.index import checksums
from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.requests import MatchRequest, Mode, Ranker
from orchestr8_sqlite.server.identity import read_instructions
from orchestr8_sqlite.service.service import Answer, Service
from orchestr8_sqlite.settings import Settings
from torture import Lost, Wrong

PATIENCE = 10
"""Seconds after which what does not answer is taken to hang."""

RIGHT, SENTENCE, BUG = "right", "sentence", "bug"

TYPICAL = ["retry with exponential backoff", "typescript api design", "kubernets deploiment"]
Answers = dict[str, tuple[str, str]]
"""By question: how it ended, and with which text."""


class Questions:
    """What is asked of each file: searches, texts, lists and commands, chosen from the sound index at *path*."""

    def __init__(self, path: Path) -> None:
        with Catalog.open(path) as catalog:
            fragments = catalog.fragments(limit=10_000)
            prompts = [(one.name, {argument.name: "x" for argument in one.arguments}) for one in list_prompts(catalog)]
        some = fragments[:: max(1, len(fragments) // 8)]
        self.uris = [one.uri for one in some]
        self.queries = [*TYPICAL, *(one.title for one in some)]
        self.prompt = prompts[0]
        self.right = ask(self, path)
        bad = {name: text for name, (how, text) in self.right.items() if how != RIGHT}
        assert not bad, bad

    def of_service(self, service: Service) -> Iterator[tuple[str, Callable[[], str]]]:
        """Yield questions by name."""

        def text(method: Callable[..., Answer], *arguments: object) -> str:
            return method(*arguments).text

        for query in self.queries:
            yield f"search {query}", partial(text, service.search, MatchRequest(query))
        for query in self.queries[:3]:
            yield f"classic {query}", partial(text, service.search, MatchRequest(query, ranker=Ranker.CLASSIC))
            yield f"full {query}", partial(text, service.search, MatchRequest(query, mode=Mode.FULL))
        for uri in ["orchestr8://", *self.uris]:
            yield uri, partial(text, service.read, uri)
        yield "load", partial(text, service.load, self.uris[:3])
        yield "prompt", lambda: service.prompt(*self.prompt)[1]

    def commands(self) -> Iterator[list[str]]:
        """Yield commands that read an index, without the option that names it."""
        yield ["search", self.queries[0], "--mode", "index"]
        yield ["load", self.uris[0]]
        yield ["stats"]
        yield ["sql", "SELECT uri, tags FROM fragment_detail ORDER BY uri"]

    def judge(self, answers: Answers) -> str:
        """Return RIGHT or SENTENCE where every answer is the right one or a sentence, and raise what it is else."""
        for name, (how, text) in answers.items():
            if how == BUG:
                raise Lost(f"{name}: {text}")
            if how == SENTENCE and ("\n" in text.strip() or not text.strip().endswith(".")):
                raise Lost(f"{name}: no sentence: {text}")
            if how == RIGHT and text != self.right[name][1]:
                raise Wrong(f"{name}: {text[:300]}")
        return SENTENCE if any(how == SENTENCE for how, _ in answers.values()) else RIGHT


def ask(questions: Questions, path: Path, *, as_large: bool = False) -> Answers:
    """Return the answers of the file at *path*, from a process of its own.

    Args:
        as_large: Whether it is taken for a file that is too large to be compared at once.

    Raises:
        Lost: The process crashed, or it hangs.
    """
    return dict(json.loads(in_another_process(partial(_answer, questions, path, as_large))))


def in_another_process(work: Callable[[], str]) -> bytes:
    """Return what *work* returns in a fork of this process."""
    mine, its = os.pipe()
    process = os.fork()
    if process == 0:
        with suppress(BaseException), open(its, "wb") as file:
            file.write(work().encode())
        os._exit(0)
    os.close(its)
    try:
        said, is_over = _read(mine)
    finally:
        os.close(mine)
    if not is_over:
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    if not is_over:
        raise Lost(f"no answer after {PATIENCE} s")
    if status or not said:
        raise Lost(f"the process crashed: status {status}")
    return said


def _read(descriptor: int) -> tuple[bytes, bool]:
    """Return what comes until the end, and whether that came in time."""
    said, end = b"", time.monotonic() + PATIENCE
    while select.select([descriptor], [], [], max(0, end - time.monotonic()))[0]:
        piece = os.read(descriptor, 1 << 20)
        if not piece:
            return said, True
        said += piece
    return said, False


def _answer(questions: Questions, path: Path, as_large: bool) -> str:
    logging.disable()
    if as_large:
        checksums.SMALL = 0
    answers: Answers = {}
    with closing(Service(Settings(path, "error", 1))) as service:
        for name, question in questions.of_service(service):
            answers[name] = _outcome(question)
    answers["instructions"] = _outcome(lambda: read_instructions(path))
    if "index cannot be read" in answers["instructions"][1]:
        answers["instructions"] = SENTENCE, answers["instructions"][1]
    for command in questions.commands():
        how, text = run_here([*command, "--db", str(path)])
        answers[f"$ {command[0]}"] = how, text.replace(str(path), "INDEX")
    answers["doctor"] = _outcome(lambda: examine(path))
    return json.dumps(answers)


def _outcome(question: Callable[[], str]) -> tuple[str, str]:
    try:
        return RIGHT, question()
    except CatalogError as problem:
        return SENTENCE, str(problem)
    except BaseException:  # noqa: BLE001 - whatever it is, it was not foreseen
        return BUG, traceback.format_exc()


def examine(path: Path) -> str:
    """Return what `doctor` says of the index, in a word; what is wrong is raised as the sentence that it is."""
    problems = [check for check in check_index(path) if check.verdict is CheckVerdict.PROBLEM]
    if problems:
        raise CatalogError(f"{problems[0].finding}; {problems[0].advice}.")
    return "sound"


def run_here(arguments: Sequence[str]) -> tuple[str, str]:
    """Return how a command ends in this process, and what it prints."""
    sys.argv = ["orchestr8-sqlite", *arguments]
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
            code: object = 0
        except SystemExit as ended:
            code = ended.code
        except BaseException:  # noqa: BLE001 - the same
            return BUG, traceback.format_exc()
    return outcome_of(code, out.getvalue(), err.getvalue())


def outcome_of(code: object, out: str, err: str) -> tuple[str, str]:
    """Return how a command ended: 0 with an answer and no warning, or 1 with a sentence and no answer."""
    if code in (0, None) and not err:
        return RIGHT, out
    if code == 1 and not out and "Traceback" not in err:
        return SENTENCE, err
    return BUG, f"exit code {code}: {out[:200]} {err}"
