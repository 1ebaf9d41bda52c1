"""An index file that is replaced while a server reads it, and clients that wait to be told."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from serving import HANDSHAKES, MODERN, Message, Wire, wired
from support import build, markdown, write_files

from orchestr8_sqlite.server.app import LibraryServer

RESOURCES, PROMPTS = (f"notifications/{kind}/list_changed" for kind in ("resources", "prompts"))
UPDATED = "notifications/resources/updated"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
EVERYTHING = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}

every_revision = pytest.mark.parametrize("revision", [HANDSHAKES[0], HANDSHAKES[3], MODERN])

RETRY = markdown("title: Retry\nuseWhen: [Retrying a flaky call]", "# Retry\n\nWait.\n")
PROMPT = "name: fix\ntitle: Fix\ndescription: Mends it\narguments: [{name: what}]"
BASE: dict[str, str | bytes] = {
    "skills/retry.md": RETRY,
    "guides/roses.md": "# Roses\n\nPrune them.\n",
    "skills/pdf/SKILL.md": markdown("name: pdf\ndescription: Fill forms", "# PDF\n\nFill.\n"),
    "skills/pdf/logo.png": b"\x89PNG\0\1",
    "prompts/workflows/fix.md": markdown(PROMPT, "Fix ${what}.\n"),
}
EDITS: dict[str, dict[str, str | bytes | None]] = {
    "same": {},
    "text": {"skills/retry.md": RETRY.replace("Wait.", "Wait longer.")},
    "new fragment": {"skills/backoff.md": markdown("useWhen: [Retrying with backoff]", "# Backoff\n\nDouble it.\n")},
    "no roses": {"guides/roses.md": None},
    "prompt title": {"prompts/workflows/fix.md": markdown(PROMPT.replace("Fix", "Repair"), "Fix ${what}.\n")},
    "prompt argument": {"prompts/workflows/fix.md": markdown(PROMPT.replace("what", "it"), "Fix ${it}.\n")},
    "prompt text": {"prompts/workflows/fix.md": markdown(PROMPT, "Fix ${what} now.\n")},
    "no prompt": {"prompts/workflows/fix.md": None},
    "no skill": {"skills/pdf/SKILL.md": None, "skills/pdf/logo.png": None},
    "other image": {"skills/pdf/logo.png": b"\x89PNG\0\2"},
}


def make_variants(folder: Path) -> dict[str, Path]:
    """Return the index of BASE and of what each of EDITS makes of it, written below *folder*."""
    root = write_files(folder / "library", BASE)
    made = {"base": build(root, folder / "base.db")}
    for name, edit in EDITS.items():
        edited = folder / name / "library"
        shutil.copytree(root, edited)  # keeps the times of the files
        for path, content in edit.items():
            if content is None:
                (edited / path).unlink()
            else:
                write_files(edited, {path: content})
        made[name] = build(edited, folder / f"{name}.db")
    return made


class Index:
    """An index file that a server reads, and what it may be replaced by."""

    def __init__(self, path: Path, variants: dict[str, Path]) -> None:
        self.path = path
        self._variants = variants
        self.become("base")

    def become(self, name: str) -> None:
        """Put another index in its place, as a build does."""
        Path(shutil.copy(self._variants[name], self.path.with_suffix(".new"))).replace(self.path)


@asynccontextmanager
async def waiting(server: LibraryServer, revision: str, *uris: str) -> AsyncIterator[Wire]:
    """Yield a client that wants to hear of all lists and of *uris*, and has been told of none."""
    async with wired(server, revision) as wire:
        if revision == MODERN:
            await wire.result("server/discover")
            await listen(wire, *uris)
        with anyio.fail_after(10):  # the server may still be reading that the handshake is over
            while revision != MODERN and not server.changes._sessions:
                await anyio.sleep(0.001)
        for uri in uris if revision != MODERN else ():
            assert await wire.result("resources/subscribe", uri=uri) == {}
        await server.changes.check()
        wire.heard.clear()
        yield wire


async def listen(wire: Wire, *uris: str) -> int:
    """Begin to listen to all lists and to *uris*; return the id of the request once it is acknowledged."""
    before = len(wire.heard)
    request_id = await wire.start(
        "subscriptions/listen", notifications={**EVERYTHING, **({"resourceSubscriptions": list(uris)} if uris else {})}
    )
    acknowledged = (await wire.hear(before + 1))[-1]
    assert acknowledged["method"] == ACKNOWLEDGED
    return request_id


async def told(server: LibraryServer, wire: Wire) -> list[str]:
    """Return all that *wire* has been told: methods, with the URI where there is one, in alphabetical order."""
    if wire.revision == MODERN:
        server.changes.close()
        await wire.reply(2)
    else:
        await wire.result("ping")
    return sorted(name_of(message) for message in wire.heard)


def name_of(message: Message) -> str:
    uri = message["params"].get("uri") if message["method"] == UPDATED else None
    return f"{message['method']} {uri}" if uri else str(message["method"])
