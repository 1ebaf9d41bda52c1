"""Shows an index in PostgreSQL at work: two servers, a client over MCP, a server that dies and comes back.

`make postgres-demo` runs it. It starts servers of its own on this machine, and removes them at the end.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from postgresql_server import PASSWORD, Server, postgresql_server

BUNDLED = Path(__file__).parents[1] / "orchestr8_sqlite" / "bundled.db"
QUERY = "retry a flaky API call with exponential backoff"
ROLES = """
CREATE ROLE publisher LOGIN PASSWORD '{0}';
CREATE ROLE reader LOGIN PASSWORD '{0}';
CREATE DATABASE library;
GRANT CREATE ON DATABASE library TO publisher;
"""
RIGHTS = """
ALTER DEFAULT PRIVILEGES FOR ROLE publisher GRANT USAGE ON SCHEMAS TO reader;
ALTER DEFAULT PRIVILEGES FOR ROLE publisher GRANT SELECT ON TABLES TO reader;
"""


def main() -> None:
    """Publish, answer, lose a server, answer in part, and answer as before."""
    with ExitStack() as stack:
        servers = [stack.enter_context(postgresql_server()) for _ in range(2)]
        for server in servers:
            for statement in filter(str.strip, ROLES.format(PASSWORD).split(";")):
                server.ask("postgres", statement)
            server.ask("library", RIGHTS)
        tell(f"Two PostgreSQL servers run, on ports {servers[0].port} and {servers[1].port}.")
        show(run("publish", str(BUNDLED), "--no-gate", "--to", addresses(servers, "publisher")))
        asyncio.run(serve(servers))


async def serve(servers: Sequence[Server]) -> None:
    """Ask a server over MCP while one of the databases dies and comes back."""
    place = addresses(servers, "reader")
    tell(f'A client asks over MCP: "{QUERY}".')
    await ask(place)
    tell("The second server is killed. The same request:")
    servers[1].kill()
    await ask(place)
    tell("The same with --partial:")
    await ask(place, "--partial")
    tell("The second server is back. The same request:")
    servers[1].start()
    await ask(place)


async def ask(place: str, *options: str) -> None:
    """Start a server on *place*, search over stdio, and show the answer."""
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "orchestr8_sqlite", "serve", "--db", place, *options]
    )
    with tempfile.TemporaryFile("w+") as log:
        async with stdio_client(command, errlog=log) as streams, ClientSession(*streams) as session:
            await session.initialize()
            answer = await session.call_tool("search", {"query": QUERY})
            show("\n".join(part.text for part in answer.content if part.type == "text"))


def addresses(servers: Sequence[Server], role: str) -> str:
    """Return the addresses of all databases, for one role."""
    return ",".join(server.address("library", role) for server in servers)


def run(*arguments: str) -> str:
    """Return what a command of the program prints."""
    command = [sys.executable, "-m", "orchestr8_sqlite", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def tell(text: str) -> None:
    show(f"\n== {text}")


def show(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
