"""Finds phrases that turn an assistant against its user.

The input is UTF-8 in lower case. A pattern is tried only near a fixed string that it needs, and on a bounded stretch of
text, so the time is proportional to the length of any text.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from orchestr8_sqlite.library.trust.occurrences import places_of, statements_around
from orchestr8_sqlite.text.markdown import Body

NEAR = 200
"""Bytes before and after a place that are checked for quoting."""

LONGEST = 1000
"""Bytes of a statement that are examined before and after its sign."""

DETERMINERS = rb"(?:(?:any|all|every|everything|the|your|my|of|these|those|other|and|in)\s{1,20}){0,4}"
EARLIER = rb"(?:previous(?:ly)?|prior|above|earlier|preceding|foregoing|original|system|safety|developer)"
ORDERS = (
    rb"(?:instruction|prompt|rule|guideline|direction|message|directive|command|constraint|restriction|polic)\w{0,4}"
)
EARLIER_ORDERS = EARLIER + rb"[\s,]{1,20}(?:(?:given|and|or|system|safety)\s{1,20}){0,2}" + ORDERS
OVERRIDE = re.compile(
    rb"\b(?:(?:ignore|disregard|forget|override|overrule)\s{1,20}(?:" + DETERMINERS + EARLIER_ORDERS
    + rb"|(?:(?:all|any|every)\s{1,20}(?:of\s{1,20})?)?your\s{1,20}" + ORDERS
    + rb"|(?:everything|all|anything)\s{1,20}(?:above|before\s{1,20}this|(?:that\s{1,20})?you\s{1,20}"
    rb"(?:were|have\s{1,20}been)\s{1,20}(?:told|taught|given)))"
    rb"|you\s{1,20}are\s{1,20}now\s{1,20}(?:in\s{1,20})?(?:dan\b|jailbroken|unrestricted|developer\s{1,20}mode)"
    rb")"
)  # fmt: skip
OVERRIDE_SIGNS = (b"ignore", b"disregard", b"forget", b"overr", b"you are now")

HIDES = re.compile(
    rb"(?:(?:\b(?:do|must|should|shall|may|can)\s{1,20}not|\b[a-z]{1,7}n(?:'|\xe2\x80\x99)t|\bnever)\s{1,20}(?:ever\s{1,20})?"
    rb"(?:tell|inform|alert|notify|mention|reveal|disclose|admit)"
    rb"|\bwithout\s{1,20}(?:ever\s{1,20})?(?:telling|informing|alerting|notifying|mentioning|revealing|disclosing))"
    rb"\s{1,20}(?:(?:this|that|it|any|anything|of|these|about|to)\s{1,20}){0,4}(?:(?:the|your)\s{1,20})?\Z"
)
FROM_USER = re.compile(rb" users?\b(?!'|\xe2\x80\x99|\s{1,20}(?:to|how|what|which|they|it)\b)")
FROM_SIGNS = (b" user",)
LONGEST_HIDE = 100

TELL_TO_SEND = re.compile(
    rb"(?P<send>\b(?:exfiltrate|send|upload|transmit|forward|leak|post|append|submit)\b)"
    rb"|(?P<what>\b(?:api[ _-]?keys?|access tokens?|auth tokens?|secrets|passwords|credentials|private keys?|ssh keys?"
    rb"|environment variables|env vars|conversation history|chat history|system prompt|session cookies?)\b"
    rb"|(?<!\w)\.env\b)"
    rb"|(?P<where>\bto\s{1,9}(?:this |the |the following |our |my )?(?:url |server |endpoint |address |webhook |host )?"
    rb"(?:at )?[`\"'<(]{0,3}(?:https?://|ftp://|[\w.+-]{1,60}@[\w-]{1,60}\.))"
    rb"|(?P<end>[.!?]\s)"
)
IN_ORDER = ("send", "what", "where")
ADDRESS_SIGNS = (b"://", b"@")
BEFORE_ADDRESS = 60

QUOTING = re.compile(
    rb"inject|jailbreak|attack|malicious|attempt|detect|e\.g\.|i\.e\.|example|such as|pattern|phrase|adversar|red.?team"
    rb"|sanitiz|untrusted|suspicious|payload|block|flag|scan|hostile|trick"
)
"""Words of texts that warn about such phrases."""

MOST_ASKED = 500
"""Phrases that are checked for quoting; further ones are assumed to be meant."""


class Phrase(NamedTuple):
    """A phrase, command or comment: the code of the finding, and its start and end in bytes."""

    code: str
    start: int
    end: int


class Text:
    """Tells which places of a content, UTF-8 in lower case, are code or quoted."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._body: Body | None = None
        self._asked = 0

    def is_code(self, start: int) -> bool:
        """Tell whether *start* lies in a code block or between back ticks."""
        if self._body is None:
            self._body = Body(self._content.decode("latin-1"))  # a character for each byte
        return self._body.is_code(start) or self._line_before(start).count(b"`") % 2 == 1

    def is_quoted(self, start: int) -> bool:
        """Tell whether the phrase at *start* is an example in a warning; False after MOST_ASKED calls."""
        self._asked += 1
        before = self._line_before(start)
        is_shown = (
            before.count(b'"') % 2 == 1
            or before.count("“".encode()) > before.count("”".encode())
            or before.rstrip().endswith((b" '", b"('", b"|", b"['", b"/"))
            or self.is_code(start)
        )
        around = self._content[max(0, start - NEAR) : start + NEAR]
        return self._asked <= MOST_ASKED and is_shown and QUOTING.search(around) is not None

    def _line_before(self, start: int) -> bytes:
        before = self._content[max(0, start - NEAR) : start]
        return before[before.rfind(b"\n") + 1 :]


def find_phrases(content: bytes, text: Text) -> Iterator[Phrase]:
    """Yield the phrases in *content*, the content of *text*; quoted ones get the code `quoted-instructions`."""
    for find in (_find_overrides, _find_hiding, _find_sending):
        for code, start, end in find(content):
            yield Phrase("quoted-instructions" if text.is_quoted(start) else code, start, end)


def _find_overrides(content: bytes) -> Iterator[Phrase]:
    for place in places_of(content, OVERRIDE_SIGNS):
        if found := OVERRIDE.match(content, place):
            yield Phrase("override-instructions", *found.span())


def _find_hiding(content: bytes) -> Iterator[Phrase]:
    """Yield orders to hide something from the user; the user is named last but searched for first."""
    for place in places_of(content, FROM_SIGNS):
        before = max(0, place - LONGEST_HIDE)
        if (found := HIDES.search(content, before, place + 1)) and (last := FROM_USER.match(content, place)):
            yield Phrase("hide-from-user", found.start(), last.end())


def _find_sending(content: bytes) -> Iterator[Phrase]:
    """Yield the places where a sentence asks to send a secret to an address."""
    addresses = (at for at in places_of(content, ADDRESS_SIGNS) if b"to " in content[max(0, at - BEFORE_ADDRESS) : at])
    for start, end in statements_around(content, addresses, LONGEST):
        at, begin = 0, 0
        for found in TELL_TO_SEND.finditer(content, start, end):
            if found["end"] is not None:
                at = 0
            elif found.lastgroup == IN_ORDER[at]:
                begin = begin if at else found.start()
                at = (at + 1) % len(IN_ORDER)
                if at == 0:
                    yield Phrase("exfiltration", begin, found.end())
