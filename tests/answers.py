"""Answers read back by what is said of their form in docs/protocol.md, with nothing known of how they were made."""

import re
from typing import NamedTuple

URI = r"orchestr8://[!-~]+"
HEAD = re.compile(rf"## [A-Z][a-z-]+: ({URI}) · [0-9.e+]+")
DOCUMENT_HEAD = re.compile(r"## (\S.*)")
NOTE = re.compile(rf"\[(?:cut|left out): .*\bload ({URI})\]")
INDEX_LINE = re.compile(rf"(\d+)\. ({URI}) ~\d+")
CATALOG_LINE = re.compile(rf"(\d+)\. ({URI}) · [0-9.e+]+ · ~\d+")
DETAIL = re.compile(r"   (?:tags|gives|when|why): .*")
FRAME = re.compile(
    r"# Resource Matches: .*|# Resource Catalog: .*|\d+ of \d+\+?, best first; .*"
    r"|To load: tool `load` or read the URI\.|Read .*\.|Not in the library: .*\."
)
FENCE = "~~~~"


class Text(NamedTuple):
    """One text of an answer: the URI in its head (empty without one), what stands in its fence, the lines behind it."""

    uri: str
    body: str
    notes: tuple[str, ...]


def read_list(text: str, line: re.Pattern[str]) -> list[str]:
    """Return the URIs of an answer in index or catalog mode; every line of it must be one that such an answer has."""
    uris: list[str] = []
    for one in text.splitlines():
        if entry := line.fullmatch(one):
            uris.append(entry[2])
            assert int(entry[1]) == len(uris), one
        else:
            assert DETAIL.fullmatch(one) or FRAME.fullmatch(one), one
    return uris


def read_texts(text: str, head: re.Pattern[str]) -> list[Text]:
    """Return the texts of an answer in full mode, or of several texts."""
    found: list[Text] = []
    lines = iter(text.split("\n"))
    for line in lines:
        if heading := head.fullmatch(line):
            found.append(Text(heading[1], "", ()))
        elif line == FENCE:
            body = []
            while (inner := next(lines)) != FENCE:
                body.append(inner)
            last = found.pop() if found and not found[-1].body and head.pattern else Text("", "", ())
            found.append(last._replace(body="\n".join(body)))
        elif line and found:
            found[-1] = found[-1]._replace(notes=(*found[-1].notes, line))
        else:
            assert not line or NOTE.fullmatch(line), line
    return found
