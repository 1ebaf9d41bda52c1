"""An index in PostgreSQL while its publisher dies, its databases die, or generations change under load."""

import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

from environments import MissingProgram
from postgresql_server import Server, postgresql_server
from releases import VERSIONS, index_of

from orchestr8_sqlite.errors import CatalogError, Orchestr8Error, SourceError
from orchestr8_sqlite.index import postgresql as reading
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.settings import Address, Place, Settings
from orchestr8_sqlite.shipping import postgresql as publishing
from orchestr8_sqlite.shipping.publish import Order
from torture import Case, Lost, Skipped, Tried, Wrong

DATABASES = ("one", "two")
URIS = ("orchestr8://skills/version", "orchestr8://match?query=retrying+call+3", "orchestr8://skills")
SENTENCE = re.compile(r"^The index at postgresql://127\.0\.0\.1:\d+/\w+ cannot be reached: [^\n]+\.$")
READERS = 6

Answers = tuple[str, ...]
Act = Callable[[], None]


def cases(seed: int, *, bounded: bool) -> Iterator[Case]:
    """Yield the faults, each with a server of its own."""
    most, few, seconds = (4, 4, 6) if bounded else (1000, 60, 60)
    yield Case("PostgreSQL: publisher killed", f"at up to {most} steps", partial(_kill_publisher, seed, most))
    yield Case("PostgreSQL: database killed as it is filled", f"{few} times", partial(_kill_filled, seed, few))
    yield Case("PostgreSQL: database killed as it answers", f"{few} times", partial(_kill_asked, seed, few))
    yield Case("PostgreSQL: generations change under load", f"{seconds} s", partial(_change, seconds))


# What is right


def _answers(service: Service) -> Answers:
    return tuple(service.read(uri).text for uri in URIS)


def _answers_at(place: Place) -> Answers:
    with closing(Service(Settings(place, "info", 0))) as service:
        return _answers(service)


def _known() -> list[Answers]:
    """Return the answers of each generation, of its file."""
    return [_answers_at(index_of(version)) for version in range(1, VERSIONS + 1)]


class Library:
    """Two databases of a server, to which generations are published."""

    def __init__(self, server: Server) -> None:
        self.server, self.known = server, _known()
        for database in DATABASES:
            server.ask("postgres", f"CREATE DATABASE {database}")
        self.address = ",".join(map(server.address, DATABASES))

    def publish(self, version: int) -> None:
        publishing.publish_to_postgresql(Order(index_of(version), "stable"), self.address)

    def forget(self) -> None:
        """Let the next reader ask what is announced."""
        reading.follower_of(Address(self.address)).close()
        reading.follower_of.cache_clear()

    @property
    def version(self) -> int:
        """Return the generation that both databases hold and that is announced.

        Raises:
            Wrong: The answers are those of no generation.
        """
        self.forget()
        answers = _answers_at(Address(self.address))
        if answers not in self.known:
            raise Wrong(f"the answers are those of no generation: {answers}")
        return self.known.index(answers) + 1

    def end(self) -> None:
        """Let the next publishers clean up.

        Raises:
            Lost: They cannot, or leave something behind.
        """
        for version in (1, 2, 3):
            self.publish(version)
        ask = r"SELECT nspname::text FROM pg_namespace WHERE nspname ~ '^orchestr8_\d' ORDER BY 1"
        left = [self.server.ask(database, ask) for database in DATABASES]
        if self.version != VERSIONS or left[0] != left[1] or len(left[0]) != publishing.KEPT:
            raise Lost(f"the next publishers leave {left}")


@contextmanager
def _library() -> Iterator[Library]:
    try:
        with postgresql_server() as server:
            yield Library(server)
    except MissingProgram as problem:
        raise Skipped(str(problem)) from None


def _steps(owner: Any, names: Sequence[str], act: Callable[[int], None], run: Act) -> int:  # noqa: ANN401 - a class
    """Run with *act* before each call of methods of a class, and return how many there were."""
    count, lock = [0], threading.Lock()

    def counted(plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: object, **named: object) -> Any:  # noqa: ANN401 - as the method
            with lock:
                count[0] += 1
                number = count[0]
            act(number)
            return plain(*arguments, **named)

        return call

    with ExitStack() as stack:
        for name in names:
            stack.enter_context(patch.object(owner, name, counted(getattr(owner, name))))
        run()
    return count[0]


def _chosen(seed: int, total: int, most: int) -> list[int]:
    """Return steps to inject a fault at."""
    return sorted(random.Random(seed).sample(range(1, total + 1), min(most, total)))


def _publish_steps(library: Library, version: int, act: Callable[[int], None]) -> int:
    return _steps(publishing.Shard, ("run", "commit"), act, lambda: library.publish(version))


# Faults


def _die_at(step: int, number: int) -> None:
    if step == number:
        os.kill(os.getpid(), signal.SIGKILL)


def _kill_publisher(seed: int, most: int, _: Path) -> Tried:
    with _library() as library:
        library.publish(1)
        total = _publish_steps(library, 2, lambda _: None)
        version, announced = 2, 0
        chosen = _chosen(seed, total, most)
        for step in chosen:
            new = 5 - version
            run = partial(_publish_steps, library, new, partial(_die_at, step))
            publisher = get_context("fork").Process(target=run)
            publisher.start()
            publisher.join(60)
            found = library.version
            if found not in (version, new) or (step < total // 2 and found != version):
                raise Wrong(f"killed at step {step} of {total}: generation {found} instead of {version}")
            announced += found != version
            version = found
        library.end()
    return Tried(len(chosen), f"publisher killed {len(chosen)} times, {announced} after it had announced")


def _kill_server_at(server: Server, step: int, number: int) -> None:
    if step == number:
        server.kill()


def _kill_filled(seed: int, most: int, _: Path) -> Tried:
    with _library() as library:
        library.publish(1)
        total = _publish_steps(library, 2, lambda _: None)
        version, failed = 2, 0
        chosen = _chosen(seed, total, most)
        for step in chosen:
            new = 5 - version
            try:
                _publish_steps(library, new, partial(_kill_server_at, library.server, step))
                expected = new
            except SourceError as problem:
                if "cannot be reached or broke off: " not in str(problem):
                    raise Lost(f"killed at step {step}: {problem}") from None
                failed, expected = failed + 1, version
            library.server.start()
            if (found := library.version) != expected:
                raise Wrong(f"killed at step {step} of {total}: generation {found} instead of {expected}")
            version = found
        library.end()
    return Tried(len(chosen), f"killed {len(chosen)} times while publishing: {failed} failed, nothing of them visible")


def _kill_asked(seed: int, most: int, _: Path) -> Tried:
    with _library() as library:
        library.publish(1)
        refused = right = 0

        def ask() -> None:
            nonlocal refused, right
            library.forget()
            try:
                if _answers_at(Address(library.address)) != library.known[0]:
                    raise Wrong("another answer than that of the file")
                right += 1
            except CatalogError as problem:
                if not SENTENCE.match(str(problem)):
                    raise Lost(str(problem)) from None
                refused += 1

        total = _steps(reading.Shard, ("run", "execute"), lambda _: None, ask)
        chosen = _chosen(seed, total, most)
        for step in chosen:
            reached = _steps(reading.Shard, ("run", "execute"), partial(_kill_server_at, library.server, step), ask)
            if reached >= step:
                library.server.start()
            if library.version != 1:
                raise Wrong(f"killed at statement {step} of {total}: another generation")
        library.end()
    return Tried(
        len(chosen), f"killed {len(chosen)} times while answering: {right - 1} right answers, {refused} errors"
    )


class Readers:
    """Threads that ask without a pause, and compare each answer with those of all generations."""

    def __init__(self, library: Library) -> None:
        self.asked, self.wrong = 0, list[str]()
        self._library = library
        self._ended, self._lock = threading.Event(), threading.Lock()
        self._threads = [threading.Thread(target=self._ask) for _ in range(READERS)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        with closing(Service(Settings(Address(self._library.address), "info", 0))) as service:
            while not self._ended.is_set():
                for place, uri in enumerate(URIS):
                    try:
                        text = service.read(uri).text
                    except Orchestr8Error as problem:
                        text = f"{type(problem).__name__}: {problem}"
                    with self._lock:
                        self.asked += 1
                        if text not in {answers[place] for answers in self._library.known}:
                            self.wrong.append(text)


def _change(seconds: float, _: Path) -> Tried:
    with _library() as library:
        library.publish(1)
        library.forget()
        readers = Readers(library)
        published, until = 1, time.monotonic() + seconds
        try:
            while time.monotonic() < until:
                published += 1
                library.publish((published - 1) % VERSIONS + 1)
        finally:
            readers.end()
        if readers.wrong:
            count = f"{len(readers.wrong)} of {readers.asked}"
            raise Wrong(f"{count} answers are of no generation, such as: {readers.wrong[0]}")
        if library.version != (published - 1) % VERSIONS + 1:
            raise Wrong("the newest generation is not the one that answers")
        library.end()
        said = f"{readers.asked:,} requests of {READERS} readers, {published} generations: 0 wrong answers, 0 errors"
    return Tried(readers.asked, said)
