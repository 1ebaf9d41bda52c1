"""One simulated run: what is drawn from its seed, what happens, and what must be true all the while."""

import asyncio
import json
import logging
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

from orchestr8_sqlite.errors import ServeError
from orchestr8_sqlite.server.http import patience, workers
from orchestr8_sqlite.server.http import worker as worker_module
from orchestr8_sqlite.server.http.access import Access
from orchestr8_sqlite.server.http.patience import PatientProtocol, Seldom
from orchestr8_sqlite.server.http.rate import BURST_SECONDS
from orchestr8_sqlite.server.http.serve import answer_by_workers, live
from orchestr8_sqlite.server.http.worker import serve
from orchestr8_sqlite.server.supply import build_process, freshness
from orchestr8_sqlite.server.supply.freshness import Freshness
from orchestr8_sqlite.settings import ServerSettings, Settings
from simulation import Broken, threads
from simulation.children import KILLED, Child, builder, worker
from simulation.clients import Burst, Client, Deaf, Good, Hasty, Listening, Reply, Request, Silent, Slow
from simulation.library import EDITIONS, GARBAGE, NOTHING, Shelf
from simulation.loop import Inhabitant, Loop, inhabitant
from simulation.network import Connection, Listener
from simulation.threads import Threads

SLACK = 0.5
"""Seconds that pass between an event and what must follow it, in pipes and threads."""

LONGEST_PAUSE = 60.0
END_SECONDS = 10.0
"""How long the server may take to end: 5 s for answers, then 8 s at most for a worker that does not."""

TICK_SECONDS = 10.0
"""How often workers renew the header Date, about which nothing is judged."""

STREAMS = ("orchestr8_sqlite", "uvicorn", "mcp", "asyncio")


def remote(address: str) -> str | None:
    """Return whom a connection counts for: each address for itself, but None for this machine."""
    return None if address == "127.0.0.1" else address


class Knobs(NamedTuple):
    """What is drawn for a run: the product's bounds, small so that they are met, and how bad the world is."""

    head_seconds: float
    unread_seconds: float
    most_unread: int
    most_connections: int
    most_of_a_client: int
    start_seconds: float
    longest_line: int
    rate: float
    high_water: int
    kernel: int
    failing_starts: float
    build_seconds: float
    held_up: float
    longest_hold: float


def draw_knobs(random: Random) -> Knobs:
    """Return those of one run."""
    return Knobs(
        head_seconds=random.choice((2.0, 5.0, 10.0)),
        unread_seconds=random.choice((1.0, 4.0)),
        most_unread=random.choice((20_000, 70_000, 1 << 20)),
        most_connections=random.choice((2, 4, 1000)),
        most_of_a_client=random.choice((1, 3, 100)),
        start_seconds=random.choice((5.0, 20.0)),
        longest_line=random.choice((300, 1 << 20)),
        rate=random.choice((0.2, 1.0, 20.0)),
        high_water=random.choice((1_000, 8_000)),
        kernel=random.choice((2_000, 6_000)),
        failing_starts=random.choice((0.0, 0.0, 0.3)),
        build_seconds=random.choice((0.2, 3.0)),
        held_up=random.choice((0.0, 0.0, 0.5)),
        longest_hold=random.choice((0.02, 0.3)),
    )


class Due(NamedTuple):
    """A process that has to be started: its kind, when, and how many failures in a row that makes."""

    kind: str
    at: float
    failures: int


class World:
    """One run. `play` raises `Broken` where something promised was not true."""

    def __init__(self, seed: int, *, is_told: bool = False) -> None:
        self.seed = seed
        self.log: list[str] | None = [] if is_told else None
        self.random = Random(seed)
        self.knobs = draw_knobs(self.random)
        self.count = self.random.choice((0, 0, 0, 1, 1, 2))
        """Processes that answer beside the starting one; 0 where that one answers."""
        self.is_built = self.random.random() < 0.6
        """Whether the server builds the index, or somebody else puts it in place."""
        self.seconds = self.random.choice((4.0, 4.0, 8.0, 8.0, 15.0, 200.0 if self.random.random() < 0.2 else 20.0))
        self.told_seconds = 6.0 if self.knobs.held_up else 2.0
        """Within which a listening client hears of a new index: it is looked at every second, by threads."""
        self.loop = Loop(self)
        self.threads = Threads(Random(seed), self.knobs.held_up, self.knobs.longest_hold)
        self.listener = Listener(self)
        self.shelf = Shelf(self.loop.time)
        self.library = self.random.choice(EDITIONS)
        self.builds_fail = False
        self.spawns_fail = False
        self.has_served = False
        self.problem = ""
        self.children: list[Child] = []
        self.due: list[Due] = []
        self.failures: Counter[int] = Counter()
        self.stopped_at = float("inf")
        self.wall_offsets: list[tuple[float, float]] = [(self.now, 0.0)]
        self.staleness: list[tuple[float, bool]] = [(self.now, self.is_built)]
        """When the index began to be behind the library, or no longer was, as the server can know."""
        self.asked: Counter[tuple[int, str]] = Counter()
        self.let_in: Counter[tuple[int, str]] = Counter()
        self.first_asked: dict[tuple[int, str], float] = {}
        self._edited = asyncio.Event()
        self._numbers = 0

    @property
    def now(self) -> float:
        """Return the simulated seconds."""
        return self.loop.clock.now

    def tell(self, what: str) -> None:
        """Note what happens, for whoever reads a run."""
        if self.log is not None:
            self.log.append(f"{self.now - 1000:10.4f}  {what}")

    def broken(self, what: str) -> None:
        """Take note of what is not as promised; the run ends with it."""
        self.tell(f"BROKEN: {what}")
        self.problem = self.problem or what

    # The run

    def play(self) -> None:
        """Let everything happen and be judged.

        Raises:
            Broken: Something was not as promised.
        """
        with self._in_place():
            try:
                self.loop.run_until_complete(self._happen())
            except Broken as problem:
                self.broken(str(problem))
            finally:
                self.threads.end()
                for task in asyncio.all_tasks(self.loop):
                    task.cancel()
                self.loop.run_until_complete(asyncio.sleep(0))
                self.loop.run_until_complete(asyncio.sleep(0.001))
                self.loop.close()
        if self.problem:
            raise Broken(f"seed {self.seed}: {self.problem}")

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        knobs = self.knobs
        watch = _Watch(self)
        replaced = (
            patch.multiple(
                patience,
                HEAD_SECONDS=knobs.head_seconds,
                UNREAD_SECONDS=knobs.unread_seconds,
                MOST_UNREAD=knobs.most_unread,
                MOST_OF_A_CLIENT=knobs.most_of_a_client,
                seldom=Seldom(self.loop.time),
            ),
            patch.object(PatientProtocol, "most", knobs.most_connections),
            patch.object(worker_module, "TICK_SECONDS", TICK_SECONDS),
            patch.object(workers, "START_SECONDS", knobs.start_seconds),
            patch.object(build_process, "MAX_LINE", knobs.longest_line),
            patch.object(sqlite3, "connect", threads.connect),
            patch.object(freshness, "wall_clock", self._wall_clock),
        )
        for one in replaced:
            one.start()
        with _listened(watch):
            try:
                yield
            finally:
                for one in replaced:
                    one.stop()

    def _wall_clock(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.now + self.wall_offsets[-1][1])

    async def _happen(self) -> None:
        if not self.is_built or self.random.random() < 0.5:
            self.place(self.random.choice(EDITIONS))
        stop = asyncio.Event()
        living = asyncio.ensure_future(self._live(stop))
        playing = [asyncio.ensure_future(one) for one in self._schedule()]
        await asyncio.wait({living}, timeout=self.seconds)
        if not living.done():
            self._judge_due()
            self.tell("the server is stopped")
            self.stopped_at = self.now
            stop.set()
            await asyncio.wait({living}, timeout=END_SECONDS)
        if not living.done():
            raise Broken(f"the server has not ended after {END_SECONDS:g} s")
        living.result()
        if left := [child.number for child in self.children if child.exit_code is None]:
            raise Broken(f"the server has ended, and left {left} running")
        await asyncio.sleep(0)
        await self._end_clients(playing)

    async def _end_clients(self, playing: list[asyncio.Task[Any]]) -> None:
        await asyncio.sleep(0.01)
        for task in playing:
            if not task.done():
                task.cancel()
        for outcome in await asyncio.gather(*playing, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome

    async def _live(self, stop: asyncio.Event) -> None:
        roots = (self.shelf.path.parent / "library",) if self.is_built else ()
        settings = ServerSettings(Settings(self.shelf.path, "info", 200), "text", roots, self.is_built)
        access = Access("127.0.0.1", 8765, rate=self.knobs.rate)
        listener: Any = self.listener

        async def alone(stop: asyncio.Event, fresh: Freshness) -> bool:
            self.has_served = True
            return await serve(settings, access, listener, stop, lambda: None, fresh)

        answer = partial(answer_by_workers, self.count, settings, access, listener) if self.count else alone
        try:
            await live(settings, answer, stop)
        except ServeError as problem:
            if self.has_served:
                raise Broken(f"a server with workers that served has ended: {problem}") from None
            self.tell("no worker could start")
            self.stopped_at = min(self.stopped_at, self.now)
        if self.stopped_at > self.now:
            raise Broken("the server has ended by itself")

    # What happens

    def _schedule(self) -> Iterator[Any]:
        random = self.random
        for _ in range(random.choice((0, 1, 1, 2))):
            yield self._at(self._misfortune)
        for _ in range(random.choice((0, 1, 1, 3))):
            yield self._at(self._change)
        kinds = (Good, Good, Good, Good, Hasty, Burst, Silent, Deaf, Slow, Listening)
        for _ in range(random.choice((1, 1, 1, 3))):
            kind = random.choice(kinds)
            at, crowd = random.random() * self.seconds, random.choice((1, 1, 1, 3))
            for _ in range(crowd if kind is not Good else 1):
                self._numbers += 1
                address = random.choice(("127.0.0.1", "192.0.2.7", "192.0.2.8", "2001:db8::1"))
                yield self._play(kind(self, self._numbers, address, Random(random.random())), at)

    async def _at(self, happen: Any) -> None:
        random = Random(self.random.random())
        await asyncio.sleep(random.random() * self.seconds)
        await happen(random)

    async def _play(self, client: Client, at: float) -> None:
        await asyncio.sleep(at)
        self.tell(f"client {client.number}: {type(client).__name__.lower()}")
        await client.play()

    async def _misfortune(self, random: Random) -> None:
        """Let something go wrong, for a while or for good."""
        what = random.choice(("kill", "kill", "kill", "builds fail", "spawns fail", "the wall clock jumps"))
        if what == "kill":
            for _ in range(random.choice((1, 1, 3))):
                running = [child for child in self.children if child.exit_code is None]
                if running:
                    child = random.choice(running)
                    self.tell(f"{child.kind} {child.number} is killed")
                    child.exit(KILLED)
                await asyncio.sleep(random.random() * 2)
        elif what == "the wall clock jumps":
            self.wall_offsets.append((self.now, random.choice((-1e6, -3600.0, 5.0, 1e8))))
        elif what == "builds fail":
            self.builds_fail = True
            self._edit(random)
            await asyncio.sleep(random.random() * 10)
            self.builds_fail = False
        else:
            self.spawns_fail = True
            await asyncio.sleep(random.random() * random.choice((10, 1000)))
            self.spawns_fail = False

    async def _change(self, random: Random) -> None:
        """Edit the library, or put another index in place; now and then a broken one, or none."""
        if self.is_built:
            self._edit(random)
            return
        self.place(random.choice((*EDITIONS, *EDITIONS, GARBAGE, NOTHING)))

    def _edit(self, random: Random) -> None:
        self.library = random.choice([one for one in EDITIONS if one != self.library])
        self.tell(f"the library becomes edition {self.library}")
        edited, self._edited = self._edited, asyncio.Event()
        edited.set()

    async def next_edit(self) -> None:
        """Wait until the library is edited."""
        await self._edited.wait()

    def place(self, content: int) -> None:
        """Put another index in place."""
        self.tell(f"index: {content}")
        self.shelf.put(content)

    # Processes

    def start(self, protocol: Any, command: list[str]) -> Child:
        """Start a program, if the system lets it, and judge whether that was due."""
        kind = "builder" if "build" in command else "worker"
        failures = self._judge_start(kind)
        if kind == "worker" and self.now > self.stopped_at:
            self.broken(f"a {kind} is started though the server ends")
        if self.spawns_fail:
            self.tell(f"a {kind} cannot be started")
            self._expect(kind, self.now, failures)
            raise BlockingIOError(11, "Resource temporarily unavailable")
        running = Counter(child.kind for child in self.children if child.exit_code is None)
        if running[kind] >= max(self.count, 1) or (kind == "builder" and running[kind]):
            self.broken(f"a {kind} too many")
        self._numbers += 1
        child = Child(self, self._numbers, protocol, Random(self.random.random()), kind)
        self.failures[child.number] = failures
        self.children.append(child)
        self.tell(f"{kind} {child.number} starts")
        child.run(builder if kind == "builder" else worker)
        return child

    def _judge_start(self, kind: str) -> int:
        """Return how many failures in a row have come before this start."""
        if kind == "builder" and self.now >= self.stopped_at:
            return 0
        due = min((due for due in self.due if due.kind == kind), key=lambda due: abs(due.at - self.now), default=None)
        if due is not None and abs(due.at - self.now) <= SLACK:
            self.due.remove(due)
            return due.failures
        known = [child for child in self.children if child.kind == kind]
        if len(known) + sum(due.kind == kind for due in self.due) >= (1 if kind == "builder" else self.count):
            self.broken(f"a {kind} is started at another time than its pause says: {self.due}")
        return 0

    def ended(self, child: Child) -> None:
        """Take note of the end of a process."""
        self.tell(f"{child.kind} {child.number} has ended: {child.exit_code}")
        if self.now < self.stopped_at:
            ran = self.now - child.started
            before = 0 if ran > LONGEST_PAUSE else self.failures[child.number]
            self._expect(child.kind, self.now, before)
            if child.kind == "builder":
                self._note_staleness(stale=True)

    def _expect(self, kind: str, now: float, before: int) -> None:
        """Expect another start after 1, 2, 4 … 60 s, as docs/scaling.md says."""
        self.due.append(Due(kind, now + min(2.0**before, LONGEST_PAUSE), before + 1))
        if kind == "builder":
            self._note_staleness(stale=True)

    def _judge_due(self) -> None:
        """Judge, while the server runs, that no process is missing or hangs at its start."""
        if self.count and not self.has_served:
            return  # perhaps no worker can start, and the server is about to end
        if late := [due for due in self.due if due.at + SLACK < self.now]:
            raise Broken(f"not started again: {late}")
        longest = self.knobs.start_seconds + workers.PATIENCE_SECONDS + SLACK
        for child in self.children:
            if child.exit_code is None and not child.is_ready and self.now - child.started > longest:
                raise Broken(f"worker {child.number} hangs at its start, and is not replaced")

    def reported(self, child: Child, *, stale: bool) -> None:
        """Take note of what a builder has reported of the library."""
        self.tell(f"builder {child.number} reports, stale: {stale}")
        self._note_staleness(stale=stale)

    def _note_staleness(self, *, stale: bool) -> None:
        if self.staleness[-1][1] != stale:
            self.staleness.append((self.now, stale))

    # What must be true of connections

    def check_connections(self, connection: Connection) -> None:
        """Judge how many connections a process holds, now that it has taken *connection* or refused it."""
        of_process = [one for one in self.listener.connections if one.owner is connection.owner]
        held = [one for one in of_process if one.is_open]
        of_clients = Counter(remote(one.client_address) for one in held)
        del of_clients[None]
        if len(held) > self.knobs.most_connections:
            self.broken(f"{len(held)} connections are held, {self.knobs.most_connections} may be")
        if max(of_clients.values(), default=0) > self.knobs.most_of_a_client:
            self.broken(f"{of_clients} connections are held, {self.knobs.most_of_a_client} may be of a client")
        owner = remote(connection.client_address)
        same = [one for one in of_process if remote(one.client_address) == owner]
        is_full = len(of_process) > self.knobs.most_connections
        if not connection.is_open and not is_full and (owner is None or len(same) <= self.knobs.most_of_a_client):
            self.broken("a connection is refused though there are few")

    def unread_in(self, owner: Inhabitant | None) -> int:
        """Return the bytes that wait in a process for clients that do not read."""
        waiting = (one for one in self.listener.connections if one.owner is owner and one.is_paused)
        return sum(one.get_write_buffer_size() for one in waiting)

    def check_memory(self, owner: Inhabitant | None) -> None:
        """Judge how many bytes wait in a process for clients that do not read."""
        if (waiting := self.unread_in(owner)) > self.knobs.most_unread:
            self.broken(f"{waiting:,} bytes wait for clients, {self.knobs.most_unread:,} may")

    def judge_abort(self, connection: Connection) -> None:
        """Judge why the server ends a connection without a word."""
        now, client = self.now, connection.of_client
        is_silent = client.head_since is not None and now - client.head_since >= self.knobs.head_seconds - 0.001
        is_deaf = connection.is_paused and now - connection.taken_at >= self.knobs.unread_seconds - 0.001
        is_much = self.unread_in(connection.owner) > self.knobs.most_unread
        if not is_silent and not is_deaf and not is_much and now < self.stopped_at:
            self.broken(f"client {client.number} is cut off for nothing")

    # What must be true of answers

    def asks(self, client: Client, request: Request) -> None:
        """Take note that a client begins to ask."""
        assert client.connection is not None
        self.tell(f"client {client.number} ({client.address}) asks: {request.name}")
        key = id(client.connection.owner), client.address
        self.asked[key] += 1
        self.first_asked.setdefault(key, self.now)

    def judge(self, client: Client, request: Request, reply: Reply, sent: float) -> None:
        """Judge one answer."""
        self.tell(f"client {client.number}: {request.name}: {reply.status}")
        assert client.connection is not None
        if reply.status == 503 and b"Too many connections" in reply.body:
            return  # judged when it was refused
        if reply.status == 503 and b"The server is stopping" in reply.body:
            if self.now < self.stopped_at + worker_module.GRACE_SECONDS:
                raise Broken(f"{request.name} is given up too early")
            return
        if reply.status == 429:
            self._judge_rate(client, client.connection)
            return
        if request.name != "no HTTP":  # answered before anybody counts
            self._judge_excess(client, client.connection)
        if reply.status not in request.statuses:
            raise Broken(f"{request.name} is answered with {reply.status}: {reply.body[:200]!r}")
        if request.name == "health":
            self._judge_health(reply, sent)
        elif request.statuses == (200,):
            self._judge_content(request, reply, sent)

    def _judge_rate(self, client: Client, connection: Connection) -> None:
        burst = max(1.0, self.knobs.rate * BURST_SECONDS)
        if remote(client.address) is None or self.asked[id(connection.owner), client.address] <= int(burst):
            raise Broken(f"client {client.number} ({client.address}) is told that it asks too much")

    def _judge_excess(self, client: Client, connection: Connection) -> None:
        key = id(connection.owner), client.address
        self.let_in[key] += 1
        seconds = self.now - self.first_asked[key]
        most = max(1.0, self.knobs.rate * BURST_SECONDS) + seconds * self.knobs.rate + 1
        if remote(client.address) is not None and self.let_in[key] > most:
            raise Broken(f"{client.address} had {self.let_in[key]} answers in {seconds:.1f} s")

    def _judge_content(self, request: Request, reply: Reply, sent: float) -> None:
        possible = self.shelf.between(sent, self.now)
        marks = self.shelf.marks(reply.body)
        if len(marks) > 1:
            raise Broken(f"{request.name} mixes editions {marks}")
        if marks and not marks <= possible:
            raise Broken(f"{request.name} shows edition {marks}, in place were {possible}")
        if not marks and not possible & {NOTHING, GARBAGE}:
            raise Broken(f"{request.name} shows nothing of the index: {reply.body[:200]!r}")

    def _judge_health(self, reply: Reply, sent: float) -> None:
        said = json.loads(reply.body)
        possible = self.shelf.between(sent, self.now)
        edition = self.shelf.edition_of.get(said.get("generation", ""))
        is_readable = reply.status == 200
        if is_readable != (edition is not None) or (is_readable and edition not in possible):
            raise Broken(f"health says {said}, in place were {possible}")
        if not is_readable and not possible & {NOTHING, GARBAGE}:
            raise Broken("health says that there is no index")
        stale = {one["what"]: one for one in said.get("stale", ())}
        if said["status"] != ("no index" if not is_readable else "stale" if stale else "ok"):
            raise Broken(f"health contradicts itself: {said}")
        if is_readable and "index" in stale:
            raise Broken(f"health says that what it reads cannot be read: {said}")
        self._judge_staleness(stale.get("library"), sent)

    def _judge_staleness(self, said: dict[str, Any] | None, sent: float) -> None:
        """Judge what health says of the library, unless that has just changed."""
        began, is_stale = self.staleness[-1]
        if began > sent - SLACK or self.now >= self.stopped_at:  # a server that ends tells its workers nothing more
            return
        if is_stale != (said is not None):
            raise Broken(
                f"health says {said} of the library, which is {'stale' if is_stale else 'fresh'} since {began}"
            )
        if said is None:
            return
        seconds = self.now - began
        if not seconds - 2 - SLACK <= said["seconds"] <= seconds + 2:
            raise Broken(f"health says {said}, it is {seconds:.1f} s")
        since = datetime.fromisoformat(said["since"])
        zero = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=began)
        offsets = [offset for at, offset in self.wall_offsets if at >= sent] + [self._offset_at(sent)]
        if all(abs((since - zero).total_seconds() - offset) > 2 + SLACK for offset in offsets):
            raise Broken(f"health says that the library is stale since {since}")

    def _offset_at(self, moment: float) -> float:
        return [offset for at, offset in self.wall_offsets if at <= moment][-1]

    def judge_refusal(self, client: Client) -> None:
        """Judge that nobody accepts the connection of a client."""
        self.tell(f"client {client.number} is not let in")

    def judge_silence(self, client: Client, request: Request) -> None:
        """Judge that a connection has ended without an answer to *request*."""
        connection = client.connection
        assert connection is not None
        self.tell(f"client {client.number}: {request.name}: none, {connection.ended_by}")
        if connection.ended_by == "closed" and self.now < self.stopped_at:
            raise Broken(f"client {client.number} has no answer to {request.name}, its connection was closed")

    def judge_listening(self, client: Client, began: float, since: float, heard: list[float]) -> None:
        """Judge what a client has heard that listened from *began* until now."""
        assert client.connection is not None
        if client.connection.ended_by != "killed" and not client.inbox.endswith(b"0\r\n\r\n"):
            raise Broken(f"client {client.number} listens, and its stream was cut off")
        self.tell(f"client {client.number} has heard of {len(heard)} changes")
        changes = list(zip(self.shelf.times, self.shelf.contents, strict=True))
        if len(heard) > sum(at >= since - self.told_seconds for at, _ in changes):
            raise Broken(f"client {client.number} was told of changes that did not happen")
        until = min(self.now, self.stopped_at)
        ends = [at for at, _ in changes[2:]] + [until]
        for ((first, before), (at, after)), end in zip(pairwise(changes), ends, strict=False):
            stay = min(at - first, end - at)
            if at < began or stay <= self.told_seconds or min(before, after) < 1:
                continue
            if not any(at <= one <= at + self.told_seconds for one in heard):
                raise Broken(f"client {client.number} was not told of edition {after}")


class _Watch(logging.Handler):
    """Takes a traceback in the log for what it is: a bug."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        """Judge one line."""
        owner = inhabitant.get()
        if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
            return  # an answer is given up after the last 5 s; who listens judges what it got
        if (owner is None or not owner.is_dead) and record.exc_info:
            self._world.broken(f"the log has a traceback: {record.getMessage()}: {record.exc_info[1]!r}")


@contextmanager
def _listened(watch: logging.Handler) -> Iterator[None]:
    """Let *watch* hear all errors, and nobody hear anything else."""
    before = []
    for name in STREAMS:
        logger = logging.getLogger(name)
        before.append((logger, logger.level, logger.propagate))
        logger.addHandler(watch)
        logger.propagate = False
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level, propagate in before:
            logger.removeHandler(watch)
            logger.propagate = propagate
            logger.setLevel(level)
