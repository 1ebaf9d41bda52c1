"""A PostgreSQL server of one's own, never run as root."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from environments import MissingProgram

PASSWORD = "pass@word:1/2"
"""Of the role that owns the server; an address has to escape it."""


def program(name: str) -> Path:
    """Return a program of PostgreSQL, or PgBouncer; Debian keeps most of them out of the PATH.

    Raises:
        MissingProgram: It is not installed.
    """
    places = [*sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), Path("/usr/sbin") / name]
    found = shutil.which(name) or next((str(place) for place in places if place.exists()), None)
    if found is None:
        raise MissingProgram(f"{name} is missing: install it.")
    return Path(found)


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def address_at(port: int, database: str, user: str = "owner", password: str = PASSWORD) -> str:
    """Return the address of a database behind a port of 127.0.0.1."""
    return f"postgresql://{user}:{quote(password, safe='')}@127.0.0.1:{port}/{database}"


class Server:
    """A server in a folder of its own, on a port of 127.0.0.1."""

    def __init__(self, home: Path, *, fsync: bool = False) -> None:
        self._home = home
        self._user = "nobody" if os.geteuid() == 0 else None
        self.port = free_port()
        secret = home / "password"
        secret.write_text(PASSWORD, encoding="utf-8")
        if self._user is not None:
            shutil.chown(home, self._user)
            shutil.chown(secret, self._user)
        options = ["--auth=scram-sha-256", "--username=owner", f"--pwfile={secret}", "--encoding=UTF8", "--no-locale"]
        options.append("--wal-segsize=1")  # MiB; files can then be limited to little more
        self._run("initdb", "--no-sync", *options)
        with (home / "data" / "postgresql.conf").open("a", encoding="utf-8") as settings:
            settings.write(
                f"port = {self.port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\nfsync = {fsync}\n"
            )

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        self._run("pg_ctl", "--wait", f"--log={self._home / 'log'}", "start")

    def kill(self) -> None:
        """End all processes of the server at once, without a checkpoint."""
        self._run("pg_ctl", "--mode=immediate", "stop")

    def limit_files(self, most: str) -> None:
        """Let no new connection write a file of more bytes, as if the disk were full; "unlimited" ends that."""
        pid = (self._home / "data" / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0]
        subprocess.run(["prlimit", f"--pid={pid}", f"--fsize={most}:"], user=self._user, check=True, cwd="/")

    def address(self, database: str, user: str = "owner", password: str = PASSWORD) -> str:
        """Return the address of a database."""
        return address_at(self.port, database, user, password)

    def ask(self, database: str, sql: str, **values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, which is committed."""
        with psycopg.connect(self.address(database), autocommit=True) as db:
            done = db.execute(sql.encode(), values or None)
            return done.fetchall() if done.description else []

    def _run(self, name: str, *arguments: str) -> None:
        command = [str(program(name)), *arguments, "-D", str(self._home / "data")]
        subprocess.run(command, user=self._user, check=True, stdout=subprocess.DEVNULL, cwd="/")


@contextmanager
def postgresql_server(*, fsync: bool = False) -> Iterator[Server]:
    """Yield a running server; without *fsync* it does not wait until the disk has what it writes."""
    with tempfile.TemporaryDirectory(prefix="postgresql-") as home:
        server = Server(Path(home), fsync=fsync)
        server.start()
        try:
            yield server
        finally:
            server.kill()


BOUNCER = """
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = plain
auth_file = {users}
pool_mode = transaction
default_pool_size = {size}
"""


@contextmanager
def pgbouncer(server: Server, *, size: int) -> Iterator[int]:
    """Yield the port of a PgBouncer that gives each transaction one of *size* connections to a database."""
    with tempfile.TemporaryDirectory(prefix="pgbouncer-") as folder:
        home, port = Path(folder), free_port()
        users, settings = home / "users", home / "pgbouncer.ini"
        users.write_text(f'"owner" "{PASSWORD}"\n', encoding="utf-8")
        settings.write_text(BOUNCER.format(server=server.port, port=port, users=users, size=size), encoding="utf-8")
        user = "nobody" if os.geteuid() == 0 else None
        if user is not None:
            for path in (home, users, settings):
                shutil.chown(path, user)
        command = [str(program("pgbouncer")), "--quiet", str(settings)]
        with subprocess.Popen(command, user=user, cwd="/", stderr=subprocess.DEVNULL) as process:
            try:
                _wait_for(address_at(port, "postgres"))
                yield port
            finally:
                process.kill()


def _wait_for(address: str) -> None:
    until = time.monotonic() + 10
    while True:
        try:
            psycopg.connect(address).close()
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return
