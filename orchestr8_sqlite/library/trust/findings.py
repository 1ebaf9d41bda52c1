"""Finds what readers should know before an assistant obeys a file: hidden texts, commands, secrets.

Each kind of finding has one level, and each level maps to one severity of diagnostics.
"""

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from orchestr8_sqlite.library.notes import Notes
from orchestr8_sqlite.library.trust.commands import find_commands
from orchestr8_sqlite.library.trust.credentials import Secret, find_passwords, find_secrets, mask, name_secret
from orchestr8_sqlite.library.trust.encoded import Encoded, find_encoded
from orchestr8_sqlite.library.trust.hidden import TRIGGER, find_hidden, name_hidden
from orchestr8_sqlite.library.trust.occurrences import runs_of_digits
from orchestr8_sqlite.library.trust.phrases import Phrase, Text, find_phrases
from orchestr8_sqlite.model.records import Diagnostic, Severity
from orchestr8_sqlite.text.wording import counted

LEVELS = {"high": Severity.ERROR, "medium": Severity.WARNING, "low": Severity.INFO}
HIGH, MEDIUM, LOW = ORDER = tuple(LEVELS.values())


END = attrgetter("end")


class Rule(NamedTuple):
    """A kind of finding: its severity, message and fix; {} in the message becomes what was found."""

    severity: Severity
    message: str
    fix: str


RULES = {
    "hidden-bidi": Rule(HIGH, "{} shows the text in another order than an assistant reads it", "remove it"),
    "hidden-text": Rule(HIGH, "{}: a text that no reader sees", "remove it"),
    "override-instructions": Rule(HIGH, "{} tells an assistant to drop what it was told", "remove it"),
    "exfiltration": Rule(HIGH, "{} sends secrets away", "remove it"),
    "unsafe-download-run": Rule(HIGH, "{} runs what an unprotected address sends", "use https and check a digest"),
    "encoded-code": Rule(HIGH, "{} hold a program or commands", "write out what they do"),
    "secret": Rule(HIGH, "{} can be read by everybody who reads this", "revoke it and write a placeholder"),
    "comment-instructs": Rule(
        MEDIUM, "{} instructs, and no rendered page shows it", "write it into the text or remove it"
    ),
    "download-run": Rule(MEDIUM, "{} runs what it downloads, unseen", "name a package, or check a digest"),
    "hide-from-user": Rule(MEDIUM, "{} tells an assistant to hide something from its user", "remove it"),
    "encoded-text": Rule(MEDIUM, "{} hold a text", "write it out"),
    "invisible-character": Rule(MEDIUM, "{}, which no reader sees", "remove it"),
    "password-in-address": Rule(MEDIUM, "{} holds a password", "change it and write a placeholder"),
    "signed-token": Rule(MEDIUM, "{} may still be good", "revoke it and write a placeholder"),
    "html-comment": Rule(LOW, "{} is read by an assistant, and no rendered page shows it", "read it"),
    "bidi-text": Rule(LOW, "{} in a text from right to left", "look whether the writing needs it"),
    "quoted-instructions": Rule(LOW, "{} would turn an assistant against its user, were it not quoted", "read it"),
    "encoded-data": Rule(LOW, "{} hold neither a text nor a program that is known", "keep data in a file of its own"),
}
"""All kinds of findings, worst first."""

MOST_OF_A_KIND = 10
"""Findings of one kind that are listed per file; the last one gives the number of others."""

SHOWN = 100
"""Bytes of a finding that a message shows."""

ASCII = bytes(range(128))
COMMENT = re.compile(rb"<!--(?P<said>.*?)(?:-->|\Z)", re.DOTALL)
MARKER = re.compile(
    rb"\W*(?:/?toc\b|markdownlint|prettier|eslint|vale\b|textlint|cspell|remark|lint\b|doctoc|(?:start|end|begin)\b|spdx"
    rb"|copyright|licen[sc]e|mcp-name|generated|auto-?generated|all-contributors|badges?\b|more\b|omit|vim:|-\*-|region"
    rb"|endregion|/?\w{1,30}$)|[\W\d_]*$"
)
"""Beginning of comments that are meant for programs other than assistants."""

LONGEST_MARKER = 80
INSTRUCTS = re.compile(
    rb"\b(?:ai|llms?|assistants?|agents?|models?|claude|chatgpt|gpt|copilot|cursor|gemini|codex|bots?)\b"
    rb"[^.]{0,60}\b(?:must|should|shall|always|never|do not|don't|ignore|please|execute|run|send|fetch|follow)\b"
    rb"|\b(?:always|never|you must|you should|you are|do not|don't|please|execute|run)\b"
    rb"[^.]{0,60}\b(?:ai|llms?|assistants?|agents?|models?|claude|chatgpt|gpt|copilot|user|instructions?|commands?)\b"
)
MOST_LOOKED_AT = 2000
"""Bytes of a comment that are searched for instructions; other rules search all of it."""


def note_findings(content: bytes, notes: Notes) -> None:
    """Note the findings in UTF-8 *content*."""
    counts: Counter[str] = Counter()
    places: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for code, text, start, end in _look(content):
        counts[code] += 1
        if counts[code] <= MOST_OF_A_KIND:
            places[code].append((_line(text, start), _shown(code, text[start:end])))
    for code, found in places.items():
        rule, more = RULES[code], counts[code] - MOST_OF_A_KIND
        for number, (line, seen) in enumerate(found, start=1):
            behind = f" (and {counted(more, 'more place')})" if number == MOST_OF_A_KIND and more else ""
            notes.add(rule.severity, code, rule.message.format(seen) + behind, rule.fix, line)


def is_denied(severity: Severity, level: str) -> bool:
    """Tell whether findings of *severity* are of *level* or worse."""
    return ORDER.index(severity) <= ORDER.index(LEVELS[level])


def denied(diagnostics: Iterable[Diagnostic], levels: Mapping[str, str]) -> Iterator[Diagnostic]:
    """Yield the findings among *diagnostics* that are denied by the *levels* of their roots."""
    for one in diagnostics:
        if one.code in RULES and one.root in levels and is_denied(one.severity, levels[one.root]):
            yield one


def _look(content: bytes) -> Iterator[tuple[str, str | bytes, int, int]]:
    """Yield (code, text, start, end) for each finding in *content*; the positions refer to that text.

    For most files, a few searches for fixed strings show that there is nothing.
    """
    if not content.isascii() and TRIGGER.search(content.translate(None, ASCII)):
        text = content.decode("utf-8", "replace")
        yield from ((one.code, text, one.start, one.start + len(one.characters)) for one in find_hidden(text))
    lowered = content.lower()
    parts, runs = Text(lowered), list(runs_of_digits(content))
    secrets = sorted(find_secrets(content, runs), key=END)
    for found in (
        find_phrases(lowered, parts),
        find_commands(lowered),
        _find_comments(lowered, parts),
        (one for one in find_encoded(content, runs) if one.code != "encoded-data" or not _is_part(one, secrets)),
        secrets,
        find_passwords(content),
    ):
        yield from ((code, content, start, end) for code, start, end in found)


def _is_part(one: Encoded, secrets: Sequence[Secret]) -> bool:
    """Tell whether encoded digits belong to one of the *secrets*, which overlap only if they begin together."""
    following = bisect_right(secrets, one.start, key=END)
    return following < len(secrets) and secrets[following].start < one.end


def _find_comments(content: bytes, text: Text) -> Iterator[Phrase]:
    """Yield the comments in *content*, except short ones meant for other programs."""
    if b"<!--" not in content:
        return
    for comment in COMMENT.finditer(content):
        said = comment["said"][:MOST_LOOKED_AT]
        if text.is_code(comment.start()):
            continue
        if INSTRUCTS.search(said):
            yield Phrase("comment-instructs", *comment.span())
        elif len(said) > LONGEST_MARKER or not MARKER.match(said.strip()):
            yield Phrase("html-comment", *comment.span())


def _line(text: str | bytes, start: int) -> int:
    return (text.count("\n", 0, start) if isinstance(text, str) else text.count(b"\n", 0, start)) + 1


def _beginning(found: bytes) -> bytes:
    """Return the beginning of *found* without a cut word: part of a secret would not be recognized and masked."""
    beginning = found[: 4 * SHOWN]
    return beginning.rsplit(maxsplit=1)[0] if len(found) > len(beginning) and beginning.strip() else beginning


def _shown(code: str, found: str | bytes) -> str:
    """Return a finding as visible text, with secrets masked."""
    if isinstance(found, str):
        return name_hidden(found)
    if code.startswith("encoded-"):
        return f"{len(found):,} bytes of base64 or hexadecimal"
    if code in ("secret", "signed-token"):
        return name_secret(found)
    text = " ".join(mask(_beginning(found)).decode("utf-8", "replace").split())
    visible = "".join(one if one.isprintable() else f"<U+{ord(one):04X}>" for one in text[:SHOWN])
    return f"‘{visible}{'…' if len(text) > SHOWN or len(found) > 4 * SHOWN else ''}’"
