"""A library whose every text says of which edition it is: in title, description, scenario and each section.

So an answer tells whether it is of one edition, and of which. The ledger is a fragment whose very name says so, for
answers that hold nothing but URIs.
"""

import json
import random
import re
from collections.abc import Iterator

MARK = re.compile(r"edition(\d+)")
COMMON = ("handling", "parcels", "crates", "load", "warehouse")
"""Words that stand in every fragment."""

FRAGMENTS = 80
LEDGER = "orchestr8://guides/ledger-of-edition"
PACK, SCRIPT = "orchestr8://skills/pack", "skill://pack/run.sh"
PACK_AS_FILE = "skill://pack/SKILL.md"
PROMPT = "prompts/workflows/fix"


def _rare_words() -> Iterator[str]:
    chance = random.Random(11)
    for _ in range(FRAGMENTS):
        yield "".join(chance.choice("bdfgklmnprtvz") + chance.choice("aou") for _ in range(5)) + "k"


WORDS = tuple(dict.fromkeys(_rare_words()))
"""One for each fragment, in no other."""

URIS = tuple(f"orchestr8://skills/{word}" for word in WORDS)


def body_of(uri: str, edition: int) -> str:
    """Return the text that is answered for *uri*."""
    word, mark = uri.rpartition("/")[2], f"edition{edition}"
    if uri == PACK:
        return f"# Pack\n\nFold parcels as in {mark}."
    if uri == SCRIPT:
        return f"echo {mark}\n"
    parts = (f"## Part {part}\n\nWhat {word} needs in {mark}, part {part}: a calm hand." for part in range(1, 6))
    return f"# {word} handling, {mark}\n\n" + "\n\n".join(parts)


def file_of(uri: str, edition: int) -> tuple[str, str]:
    """Return the path and the content of the file behind *uri*, as somebody has written it."""
    word, mark = uri.rpartition("/")[2], f"edition{edition}"
    if uri == PROMPT:
        front = f"name: fix\ntitle: Fix, {mark}\ndescription: Mends, {mark}\narguments: [{{name: what}}]"
        return f"{PROMPT}.md", f"---\n{front}\n---\n\nFix ${{what}} as in {mark}.\n"
    if uri == SCRIPT:
        return "skills/pack/run.sh", body_of(uri, edition)
    if uri == PACK:
        front = f"name: pack\ndescription: Wraps bottles, {mark}"
        return "skills/pack/SKILL.md", f"---\n{front}\n---\n\n{body_of(uri, edition)}\n"
    front = f"title: '{word} handling, {mark}'\ndescription: 'Handling {word} parcels, {mark}'\ntags: [shared, {word}]"
    use = f"useWhen: ['Handling parcels and crates of {word} under load in a warehouse, {mark}']"
    return f"skills/{word}.md", f"---\n{front}\n{use}\n---\n\n{body_of(uri, edition)}\n"


DOCUMENTS = (*URIS, PACK, SCRIPT, PROMPT)


def library_of(edition: int) -> dict[str, str]:
    """Return the files of the library by path, all of one edition."""
    return dict([*(file_of(uri, edition) for uri in DOCUMENTS), ledger_of(edition)])


def ledger_of(edition: int) -> tuple[str, str]:
    """Return the path and the content of the fragment that is named after the edition."""
    return f"guides/ledger-of-edition{edition}.md", "# Ledger\n\nAn account of everything bookkept.\n"


def editions_in(value: object) -> set[int]:
    """Return the editions that any text in *value* is of."""
    return {int(number) for number in MARK.findall(json.dumps(value))}
