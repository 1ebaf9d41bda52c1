"""Finds secrets by their documented formats and passwords in addresses; masks both in texts."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from math import log2
from typing import NamedTuple

from orchestr8_sqlite.library.trust.occurrences import Run, places_of

BEGIN = rb"(?<![A-Za-z0-9_])"
END = rb"(?![A-Za-z0-9_])"


class Format(NamedTuple):
    """A kind of secret, and its pattern."""

    kind: str
    pattern: re.Pattern[bytes]


def _format(kind: str, pattern: bytes) -> Format:
    return Format(kind, re.compile(BEGIN + pattern + END))


FORMATS = (
    _format("1Password token", rb"ops_eyJ[A-Za-z0-9_-]{200,4000}"),
    _format("Anthropic key", rb"sk-ant-[a-z]{3,5}[0-9]{2}-[A-Za-z0-9_-]{80,120}"),
    _format("Atlassian token", rb"ATATT3[A-Za-z0-9_=-]{180,250}"),
    _format("AWS access key", rb"A[KS]IA[A-Z2-7]{16}"),
    _format("Azure storage key", rb"AccountKey=[A-Za-z0-9+/]{86}=="),
    _format("Databricks token", rb"dapi[0-9A-Fa-f]{32}(?:-[0-9])?"),
    _format("DigitalOcean token", rb"do[opr]_v1_[0-9a-f]{64}"),
    _format("Discord token", rb"[MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}"),
    _format("Docker token", rb"dckr_pat_[A-Za-z0-9_-]{27}"),
    _format("Figma token", rb"figd_[A-Za-z0-9_-]{40,200}"),
    _format("GitHub token", rb"(?:gh[pousr]_[A-Za-z0-9_]{36,255}|github_pat_[A-Za-z0-9_]{82})"),
    _format("GitLab token", rb"gl(?:agent|cbt|dt|ffct|ft|imt|oas|pat|ptt|rt|soat|wt)-[A-Za-z0-9_-]{20,1024}"),
    _format("Google API key", rb"AIza[0-9A-Za-z_-]{35}"),
    _format("Grafana token", rb"(?:glsa_[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}|glc_eyJ[A-Za-z0-9+/]{40,400}={0,2})"),
    _format("Groq key", rb"gsk_[A-Za-z0-9]{52}"),
    _format("Hugging Face token", rb"hf_[A-Za-z]{34}"),
    _format("LangSmith key", rb"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    _format("Linear key", rb"lin_api_[A-Za-z0-9]{32,128}"),
    _format("Notion token", rb"ntn_[0-9]{11}[A-Za-z0-9]{35}"),
    _format("npm token", rb"npm_[A-Za-z0-9]{36}"),
    _format("OpenAI key", rb"sk-[A-Za-z0-9_-]{20,100}T3BlbkFJ[A-Za-z0-9_-]{20,100}"),
    _format("OpenRouter key", rb"sk-or-v1-[0-9a-f]{64}"),
    _format("Postman key", rb"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    _format("PyPI token", rb"pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,500}"),
    _format("Replicate token", rb"r8_[A-Za-z0-9]{37}"),
    _format("SendGrid key", rb"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    _format("Shopify token", rb"shp(?:at|ca|pa|ss)_[A-Za-z0-9]{32,64}"),
    _format("Slack token", rb"xox[abeoprs]-[0-9]{8,20}-[A-Za-z0-9-]{10,250}"),
    _format("Slack app token", rb"xapp-[0-9]-[A-Z0-9]{8,20}-[0-9]{8,20}-[0-9a-f]{64}"),
    _format("Slack webhook", rb"com/services/T\w{6,20}/B\w{6,20}/\w{20,40}"),
    _format("Square secret", rb"sq0(?:atp-[A-Za-z0-9_-]{22}|csp-[A-Za-z0-9_-]{43})"),
    _format("Stripe key", rb"[sr]k_live_[0-9a-zA-Z]{24,250}"),
    _format("Telegram token", rb"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}"),
    _format("Vault token", rb"hv[brs]\.[A-Za-z0-9_-]{90,300}"),
    _format("Vercel token", rb"vc[aikpr]_[A-Za-z0-9]{20,60}"),
    _format("xAI key", rb"xai-[A-Za-z0-9]{80}"),
    _format(
        "private key",
        rb"-----BEGIN (?:[A-Z]{2,10} ){0,2}PRIVATE KEY(?: BLOCK)?-----(?:\\n|\s){1,40}"
        rb"(?:[A-Z][A-Za-z-]{2,20}: [^\n]{1,200}\n\s{0,40}){0,4}[A-Za-z0-9+/]{48,4000}={0,2}",
    ),
)
"""Source: the issuers' documentation of their prefixes; RFC 7468 for private keys."""

TOKEN = _format("JSON Web Token", rb"eyJ[A-Za-z0-9_-]{10,4000}\.eyJ[A-Za-z0-9_-]{10,8000}\.[A-Za-z0-9_-]{20,2000}")

SIGNS = (
    *(b"AIza", b"AKIA", b"ASIA", b"ATATT3", b"PMAK-", b"com/services/T", b"dapi", b"dckr_pat_", b"do", b"eyJ"),
    *(b"figd_", b"gh", b"github_pat_", b"gl", b"gsk_", b"hf_", b"lin_api_", b"lsv2_", b"npm_", b"ntn_", b"ops_eyJ"),
    *(b"pypi-Ag", b"r8_", b"rk_live_", b"shp", b"sk-", b"sk_live_", b"sq0", b"vc", b"xai-", b"xapp-", b"xox"),
    *(b"M", b"N", b"O"),  # the digits of a Discord user in base64
)
"""Prefixes of the secrets whose first 20 characters are base64 digits, which most are."""

HEAD = re.compile(rb"(?:SG\.|hv[brs]\.|[0-9]{8,10}:|AccountKey=)\Z")
LONGEST_HEAD = 11
"""Prefix of the other secrets before a run of digits, and its maximum length in bytes; private keys differ."""

KEY_SIGN = b"-----BEGIN "
LEAST_KEY = 48
BEFORE_KEY = 300
"""Fewest digits in the first line of a private key, and most bytes from the start of its header to them."""

PLACEHOLDER = re.compile(
    rb"example|xxxx|x{3}-|fake|dummy|sample|your|placeholder|redact|changeme|secret|token|test"
    rb"|0123456|1234567|abcdefg|(.)\1{5}|eyJzdWIiOiIxMjM0NTY3ODkwI",
    re.IGNORECASE,
)
"""Text that no issued secret holds by chance; the last part is the `sub` claim from the JWT documentation."""

ADDRESS = re.compile(
    rb"""://(?P<user>[^\s/:@<>"'`]{1,100}):(?P<password>[^\s/@<>"'`]{8,200})@(?P<host>[^\s/:?#<>"'`\\)\]]{1,200})"""
)
SCHEME = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*\Z")
LONGEST_SCHEME = 20
KINDS = tuple(map(re.compile, (rb"[a-z]", rb"[A-Z]", rb"[0-9]", rb"[^A-Za-z0-9]")))
LEAST_KINDS = 2
LEAST_PASSWORD_ENTROPY = 2.5
"""A password needs LEAST_KINDS of lower case, upper case, digits and other, and this entropy, in bits per character."""

EXAMPLE_PASSWORD = re.compile(
    rb"[${}*]|%[(s]|\.\.|pass|pwd|secret|token|example|sample|your|my_|changeme|change-me|placeholder|redact|dummy|fake|xxx"
    rb"|test|admin|root|guest|user|[_-]key|key[_-]|api_?key|\A[A-Z_]+\Z",
    re.IGNORECASE,
)
EXAMPLE_HOST = re.compile(
    rb"localhost|127\.|0\.0\.0\.0|\[::1|host\b|[a-z_-]+\Z|.*(?:\bexample\b|\.test\Z|\.local\Z|\.invalid\Z|[${}])",
    re.IGNORECASE,
)
"""Hosts of examples; a name without a dot is a machine on a container network."""

LEAST_ENTROPY = 3.0
"""Bits per character; 20 or more random letters and digits have more."""

SHOWN = 4
"""Characters of a secret that a message shows: the prefix of its format."""


class Secret(NamedTuple):
    """A secret: the code of the finding and its place in bytes."""

    code: str
    start: int
    end: int


def find_secrets(content: bytes, runs: Iterable[Run]) -> Iterator[Secret]:
    """Yield the secrets in UTF-8 *content*, except placeholders; each holds one of *runs*, long runs of digits."""
    done = 0
    for run in runs:
        place = _beginning(content, run, done)
        found = [] if place is None else [one.pattern.match(content, place) for one in (*FORMATS, TOKEN)]
        for secret in filter(None, found):
            if not _is_placeholder(secret[0]):
                yield Secret("signed-token" if secret.re is TOKEN.pattern else "secret", *secret.span())
                done = secret.end()


def _beginning(content: bytes, run: Run, done: int) -> int | None:
    """Return where a secret that holds *run* may begin, not before *done*; None if it cannot be one."""
    start, end = run
    if start < done:
        return None
    if content.startswith(SIGNS, start):
        return start
    if (head := HEAD.search(content, max(0, start - LONGEST_HEAD), start)) is not None:
        return head.start()
    key = content.rfind(KEY_SIGN, max(done, start - BEFORE_KEY), start) if end - start >= LEAST_KEY else -1
    return None if key < 0 else key


def find_passwords(content: bytes) -> Iterator[Secret]:
    """Yield the addresses in UTF-8 *content* with a password that seems real, for a host that others can reach."""
    done = 0
    for place in places_of(content, (b"://",) if b"@" in content else ()):
        address = ADDRESS.match(content, place) if place >= done else None
        if address is not None and _is_password(address["user"], address["password"], address["host"]):
            scheme = SCHEME.search(content, max(done, place - LONGEST_SCHEME), place)
            done = address.end()
            yield Secret("password-in-address", scheme.start() if scheme else place, done)


def _is_password(user: bytes, password: bytes, host: bytes) -> bool:
    """Tell whether the password seems real: none of the three looks like an example."""
    kinds = sum(kind.search(password) is not None for kind in KINDS)
    is_example = user in password or EXAMPLE_PASSWORD.search(password) or EXAMPLE_HOST.match(host)
    return kinds >= LEAST_KINDS and not is_example and _entropy(password) >= LEAST_PASSWORD_ENTROPY


def _is_placeholder(secret: bytes) -> bool:
    return PLACEHOLDER.search(secret) is not None or _entropy(secret[SHOWN:1000]) < LEAST_ENTROPY


def name_secret(secret: bytes) -> str:
    """Return the kind of a secret and the first characters, which identify its format."""
    kind = next(kind for kind, pattern in (*FORMATS, TOKEN) if pattern.fullmatch(secret))
    return kind if kind == "private key" else f"{kind} {secret[:SHOWN].decode()}…"


KEY = re.compile(rb"(-----BEGIN (?:[A-Z]{2,10} ){0,2}PRIVATE KEY(?: BLOCK)?-----)(?:(?!-----END ).)*", re.DOTALL)
PASSWORD = re.compile(rb"(://[^\s/:@]{0,100}:)[^\s/@]{1,200}@")


def mask(content: bytes) -> bytes:
    """Return *content* with everything that looks like a secret, even a placeholder, cut to its first characters."""
    content = KEY.sub(rb"\1***", content)
    for _, pattern in (*FORMATS, TOKEN):
        content = pattern.sub(lambda found: found[0][:SHOWN] + "…".encode(), content)
    return PASSWORD.sub(rb"\1***@", content)


def _entropy(value: bytes) -> float:
    """Return the entropy of *value* in bits per character."""
    shares = (count / len(value) for count in Counter(value).values())
    return -sum(share * log2(share) for share in shares)
