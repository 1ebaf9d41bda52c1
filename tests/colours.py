"""Two libraries that differ in every text, so that an answer shows which one it is from.

Run as a program, `python colours.py INDEX`, it asks the index until its input ends, then prints what it saw as JSON.
"""

import json
import os
import select
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from orchestr8_sqlite.model.requests import MatchRequest, Mode
from orchestr8_sqlite.service.service import Service
from orchestr8_sqlite.settings import Settings

AMBER, COBALT = "amber", "cobalt"
OWN_FOLDER = {AMBER: "patterns", COBALT: "examples"}
"""A category that only the library of that colour has."""

URIS = ["orchestr8://skills/one", "orchestr8://skills/two", "orchestr8://guides/three"]


def library_of(colour: str) -> dict[str, str]:
    """Return the files of a library whose every text names *colour*."""
    texts = {path: document(colour, path) for path in ("skills/one", "skills/two", "guides/three", "skills/pdf/SKILL")}
    texts[f"{OWN_FOLDER[colour]}/{colour}"] = document(colour, "own")
    prompt = f"---\nname: start\ntitle: Start {colour}\n---\n\nBegin in {colour}.\n"
    return {f"{path}.md": text for path, text in texts.items()} | {"prompts/workflows/start.md": prompt}


def document(colour: str, path: str) -> str:
    return (
        f"---\ntitle: {colour} title\nname: pdf\ndescription: Retrying in {colour}\ntags: [{colour}, retry]\n"
        f"useWhen: [Retrying a {colour} call]\n---\n\n# {colour} of {path}\n\nSee orchestr8://{OWN_FOLDER[colour]}/{colour}.\n"
    )


def colours_in(text: str) -> set[str]:
    """Return the colours that *text* shows, by name or by a category that only one has."""
    return {colour for colour, folder in OWN_FOLDER.items() if colour in text or f"orchestr8://{folder}" in text}


def ask_everything(service: Service) -> Iterator[str]:
    """Yield the answers to requests that each read several things: searches, texts, lists, skills and a prompt."""
    for mode in Mode:
        answer = service.search(MatchRequest("retrying a call", mode, min_score=0))
        yield answer.text + json.dumps(answer.content)
    loaded = service.load([*URIS, "orchestr8://match?query=retrying"], related=True)
    yield loaded.text + json.dumps(loaded.content)
    for uri in ("orchestr8://registry", "orchestr8://skills", URIS[0]):
        yield service.read(uri).text
    yield service.search_skills(MatchRequest("retrying", agent_skills=True, min_score=0)).text
    yield service.load_skill("pdf").text
    row, text = service.prompt("start", {})
    yield row.title + text


def open_service(index: Path, *, kept: int = 200) -> Service:
    """Return a service over *index* that keeps so many answers."""
    return Service(Settings(index, "info", kept))


def put(variant: Path, index: Path) -> None:
    """Put a copy of *variant* in the place of *index* as a build does: written beside it, and renamed over it."""
    Path(shutil.copy(variant, index.with_suffix(".new"))).replace(index)


def main(index: Path) -> None:
    """Ask until the input ends; print `asking` at the first answer, and at the end the colours of each answer."""
    service = open_service(index, kept=2)
    seen: dict[str, int] = {}
    while not select.select([sys.stdin], [], [], 0)[0]:
        for text in ask_everything(service):
            key = "+".join(sorted(colours_in(text)))
            seen[key] = seen.get(key, 0) + 1
            if sum(seen.values()) == 1:
                os.write(1, b"asking\n")
    service.close()
    os.write(1, json.dumps(seen).encode() + b"\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
