"""Finds long runs of base64 and hexadecimal digits, and judges what they decode to."""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from orchestr8_sqlite.library.trust.occurrences import Run
from orchestr8_sqlite.library.trust.phrases import OVERRIDE

LINE = 60
"""Fewest digits in a line that may be part of a longer encoded text."""

LEAST = 120
"""Fewest digits of an encoded text that is examined: longer than any usual digest."""

HEXADECIMAL = re.compile(rb"[0-9a-fA-F]+")
LEAST_HEXADECIMAL = 200
LEAST_DIGITS = 20
"""Fewest distinct base64 digits; words and rules of dashes have fewer, or no numbers."""

MOST_DECODED = 65_536
HARMLESS = re.compile(
    rb"data:(?:image|font|audio|video)/[\w.+-]{1,40}(?:;[\w=.-]{1,40}){0,3};base64,$"
    rb"|\bsha\d{1,3}[-:=]$|\b(?:ssh-[a-z0-9]{2,10}|ecdsa-[\w-]{1,30})\s$|-----begin [a-z ]{1,40}-----\s*$",
    re.IGNORECASE,
)
"""Text before pictures, digests, public keys, certificates and private keys; other rules cover private keys."""

TOKEN = b"eyJ"
"""Beginning of the first parts of a JSON Web Token; dots join the parts."""

DIGEST = re.compile(rb"sha\d{1,3}-")
MEDIA = (
    b"\x89PNG",
    b"\xff\xd8\xff",
    b"GIF8",
    b"RIFF",
    b"wOFF",
    b"wOF2",
    b"OTTO",
    b"\0\1\0\0",
    b"%PDF",
    b"<svg",
    b"\x30\x82",
)
PROGRAMS = (
    b"MZ",
    b"\x7fELF",
    b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
    b"PK\x03\x04",
    b"\x1f\x8b\x08",
    b"BZh",
    b"\xfd7zXZ",
)
CODE = re.compile(
    rb"#!\s?/|\b(?:curl|wget|powershell|invoke-\w{3,}|eval|exec|subprocess|os\.system|child_process|chmod)\b"
    rb"|\bnc -|/bin/(?:ba)?sh\b"
    rb"|base64 -d|<script|import (?:os|socket|subprocess)\b|/dev/tcp/",
    re.IGNORECASE,
)
NEAR = 250
"""Bytes before an encoded text that are checked for what it is."""

BETWEEN = 20
"""Most bytes of white space between two lines of one encoded text."""

URL_BEFORE = re.compile(rb"://\S{0,200}$")


class Encoded(NamedTuple):
    """An encoded text: the code of the finding, and its start and end in bytes."""

    code: str
    start: int
    end: int


def find_encoded(content: bytes, runs: Iterable[Run]) -> Iterator[Encoded]:
    """Yield the long encoded texts among the *runs* of UTF-8 *content*, except pictures, digests and keys."""
    for start, end, digits in _joined(content, runs):
        before = content[max(0, start - NEAR) : start]
        is_token = digits.startswith(TOKEN) and (before.endswith(b".") or content.startswith(b".", end))
        if len(digits) < LEAST or is_token or DIGEST.match(digits) or HARMLESS.search(before):
            continue
        code = _judge(_decode(digits), is_part=before.endswith(b".") or URL_BEFORE.search(before) is not None)
        if code is not None:
            yield Encoded(code, start, end)


def _joined(content: bytes, runs: Iterable[Run]) -> Iterator[tuple[int, int, bytes]]:
    """Yield (start, end, digits) of the long runs; lines of one text are joined."""
    start, end, parts = 0, 0, list[bytes]()
    for run in runs:
        if run.end - run.start < LINE:
            continue
        follows = run.start - end <= BETWEEN and not content[end : run.start].strip()
        if not (parts and follows):
            if parts:
                yield start, end, b"".join(parts)
            start, parts = run.start, []
        parts.append(content[run.start : run.end])
        end = run.end
    if parts:
        yield start, end, b"".join(parts)


def _decode(digits: bytes) -> bytes | None:
    """Return the decoded *digits*, or None if they are only words or a rule of dashes."""
    digits = digits[:MOST_DECODED]
    if HEXADECIMAL.fullmatch(digits):
        enough = len(digits) >= LEAST_HEXADECIMAL and len({*digits}) >= 8
        return bytes.fromhex(digits[: len(digits) // 2 * 2].decode()) if enough else None
    has_all = any(48 <= one < 58 for one in digits) and digits.upper() != digits != digits.lower()
    if not has_all or len({*digits}) < LEAST_DIGITS:
        return None
    try:
        return base64.b64decode(digits[: len(digits) // 4 * 4].translate(bytes.maketrans(b"-_", b"+/")))
    except binascii.Error:
        return None


def _judge(decoded: bytes | None, *, is_part: bool) -> str | None:
    """Return the code of the finding for decoded bytes, or None if they are harmless."""
    if decoded is None or decoded.startswith(MEDIA):
        return None
    if decoded.startswith(PROGRAMS):
        return "encoded-code"
    if _is_text(decoded):
        return "encoded-code" if CODE.search(decoded) or OVERRIDE.search(decoded.lower()) else "encoded-text"
    return None if is_part else "encoded-data"


def _is_text(decoded: bytes) -> bool:
    printable = sum(32 <= byte < 127 or byte in b"\t\n\r" for byte in decoded[:1000])
    return printable >= 0.95 * min(len(decoded), 1000)
