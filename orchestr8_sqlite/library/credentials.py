"""Secrets by the formats that their issuers document, and texts with such secrets masked."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from math import log2
from typing import NamedTuple

from orchestr8_sqlite.library.occurrences import Run

BEGIN = rb"(?<![A-Za-z0-9_])"
END = rb"(?![A-Za-z0-9_])"


class Format(NamedTuple):
    """A kind of secret, and what one looks like."""

    kind: str
    pattern: re.Pattern[bytes]


def _format(kind: str, pattern: bytes) -> Format:
    return Format(kind, re.compile(BEGIN + pattern + END))


FORMATS = (
    _format("AWS access key", rb"A[KS]IA[A-Z2-7]{16}"),
    _format("GitHub token", rb"(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})"),
    _format("GitLab token", rb"glpat-[A-Za-z0-9_-]{20,64}"),
    _format("Slack token", rb"xox[abeoprs]-[0-9]{8,20}-[A-Za-z0-9-]{10,250}"),
    _format("Slack webhook", rb"com/services/T\w{6,20}/B\w{6,20}/\w{20,40}"),
    _format("Google API key", rb"AIza[0-9A-Za-z_-]{35}"),
    _format("Stripe key", rb"[sr]k_live_[0-9A-Za-z]{24,250}"),
    _format("OpenAI key", rb"sk-[A-Za-z0-9_-]{20,100}T3BlbkFJ[A-Za-z0-9_-]{20,100}"),
    _format("Anthropic key", rb"sk-ant-[a-z]{3,5}[0-9]{2}-[A-Za-z0-9_-]{80,120}"),
    _format("npm token", rb"npm_[A-Za-z0-9]{36}"),
    _format("PyPI token", rb"pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,500}"),
    _format("SendGrid key", rb"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    _format("Hugging Face token", rb"hf_[A-Za-z]{34}"),
    _format(
        "private key",
        rb"-----BEGIN (?:[A-Z]{2,10} ){0,2}PRIVATE KEY(?: BLOCK)?-----(?:\\n|\s){1,40}"
        rb"(?:[A-Z][A-Za-z-]{2,20}: [^\n]{1,200}\n\s{0,40}){0,4}[A-Za-z0-9+/]{48,4000}={0,2}",
    ),
)
"""Source: the issuers' documentation of their prefixes; RFC 7468 for private keys."""

TOKEN = _format("JSON Web Token", rb"eyJ[A-Za-z0-9_-]{10,4000}\.eyJ[A-Za-z0-9_-]{10,8000}\.[A-Za-z0-9_-]{20,2000}")

SIGNS = (
    *(b"AKIA", b"ASIA", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"github_pat_", b"glpat-", b"xox", b"AIza"),
    *(b"com/services/T", b"sk_live_", b"rk_live_", b"sk-", b"npm_", b"pypi-Ag", b"hf_", b"eyJ"),
)
"""What secrets begin with, but for private keys and for `SG.`, of which the dot is no digit."""

KEY_SIGN = b"-----BEGIN "
LEAST_KEY = 48
BEFORE_KEY = 300
"""Digits of the first line of a private key, and bytes from the beginning of its head to them."""

DOTTED_SIGN = b"SG."

PLACEHOLDER = re.compile(
    rb"example|xxxx|x{3}-|fake|dummy|sample|your|placeholder|redact|changeme|secret|token|test"
    rb"|0123456|1234567|abcdefg|(.)\1{5}|eyJzdWIiOiIxMjM0NTY3ODkwI",
    re.IGNORECASE,
)
"""What no issued secret holds by chance; the last is the claim `sub` that the documentation of JWT shows."""

LEAST_ENTROPY = 3.0
"""Bits a character: twenty and more random letters and digits have more."""

SHOWN = 4
"""Characters of a secret that are shown: its format's prefix."""


class Secret(NamedTuple):
    """A secret: the code of the finding and its place in bytes."""

    code: str
    start: int
    end: int


def find_secrets(content: bytes, runs: Iterable[Run]) -> Iterator[Secret]:
    """Yield the secrets in UTF-8 *content*, but for placeholders: all of them have long *runs* of digits."""
    done = 0
    for run in runs:
        place = _beginning(content, run, done)
        found = [] if place is None else [one.pattern.match(content, place) for one in (*FORMATS, TOKEN)]
        for secret in filter(None, found):
            if not _is_placeholder(secret[0]):
                yield Secret("signed-token" if secret.re is TOKEN.pattern else "secret", *secret.span())
                done = secret.end()


def _beginning(content: bytes, run: Run, done: int) -> int | None:
    """Return where a secret may begin that holds *run* and nothing before *done*."""
    start, end = run
    if start < done:
        return None
    if content.startswith(SIGNS, start):
        return start
    if content.startswith(DOTTED_SIGN, max(0, start - len(DOTTED_SIGN))):
        return start - len(DOTTED_SIGN)
    key = content.rfind(KEY_SIGN, max(done, start - BEFORE_KEY), start) if end - start >= LEAST_KEY else -1
    return None if key < 0 else key


def _is_placeholder(secret: bytes) -> bool:
    return PLACEHOLDER.search(secret) is not None or _entropy(secret[SHOWN:1000]) < LEAST_ENTROPY


def name_secret(secret: bytes) -> str:
    """Return the kind of a secret and its first characters, which tell the format."""
    kind = next(kind for kind, pattern in (*FORMATS, TOKEN) if pattern.fullmatch(secret))
    return kind if kind == "private key" else f"{kind} {secret[:SHOWN].decode()}…"


def mask(content: bytes) -> bytes:
    """Return *content* with all that looks like a secret, a placeholder or not, cut to its first characters."""
    for _, pattern in (*FORMATS, TOKEN):
        content = pattern.sub(lambda found: found[0][:SHOWN] + "…".encode(), content)
    return PASSWORD.sub(rb"\1***@", content)


PASSWORD = re.compile(rb"(://[^\s/:@]{0,100}:)[^\s/@]{1,200}@")


def _entropy(value: bytes) -> float:
    """Return the bits that a character of *value* carries."""
    shares = (count / len(value) for count in Counter(value).values())
    return -sum(share * log2(share) for share in shares)
