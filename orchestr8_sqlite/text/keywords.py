"""Text → keywords, the same way for fragments at build time and for queries.

A text is normalised (NFKC) and cut into words. Each word yields itself and its parts, all casefolded:

    "Retry a Node.js call"   → retry, node.js, node, js, call
    "third-party setUserId"  → third-party, third, party, setuserid, set, user, id
    "C++ and CI/CD on K8s"   → c++, ci/cd, ci, cd, k8s
    "TypeScript"             → typescript           (a known name is not split)
    "再試行"                  → 再試, 試行            (bigrams, as CJK text has no spaces)
"""

import itertools
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, lru_cache

import Stemmer

from orchestr8_sqlite.text.normal_forms import normalize

PEER_STOP_WORDS = frozenset(
    """a an the and or but in on at to for of with by from as is was are were be been being have has had do does did
    will would should could may might can i you he she it we they this that these those""".split()
)
"""The 47 words that the original system leaves out."""

STOP_WORDS = PEER_STOP_WORDS | frozenset(
    """about after all also am any because before between both cannot done each either etc every get gets getting goes
    got her here him his how if into its itself just let me more most my need needed needing needs no nor not now
    off once one only other our out over own per please same shall so some such than their them then there through
    too under until up us use used uses using very via want wants what when where whether which while who whom whose
    why within without your yours don't doesn't didn't can't couldn't won't wouldn't isn't aren't wasn't it's i'm
    i've we're let's that's what's there's you're""".split()
)
"""The peer's words, plus function words and words of asking that carry no topic in real scenarios and requests."""

TECHNOLOGY_NAMES = frozenset(
    """airflow android angular ansible apache aws azure bash bigquery blazor bun cassandra celery circleci clickhouse
    cloudflare cloudformation cloudwatch cockroachdb css cypress databricks datadog deno devops devsecops django
    docker dynamodb elasticsearch electron elixir erlang express.js expressjs fastapi figma firebase flask flutter
    github gitlab golang grafana graphql grpc hadoop haskell helm heroku html ios istio javascript jenkins jira json
    jquery junit jupyter jwt kafka keras kotlin kubernetes langchain laravel linkedin linux llamaindex macos mariadb
    matplotlib mlflow mongodb mypy mysql neo4j nestjs netlify next.js nextjs nginx node.js nodejs npm numpy nuxt
    oauth openai openapi opensearch opentelemetry oracle pandas php playwright postgresql postgres powerpoint
    powershell prisma prometheus pulumi pydantic pytest python pytorch rabbitmq rails react redis redux rest rust
    rxjs salesforce scala scikit-learn selenium sentry shopify snowflake solidity sonarqube spark spring sql
    sqlalchemy sqlite stripe supabase svelte swift swiftui tailwind tensorflow terraform toml typescript unity
    vercel vite vue webassembly websocket websockets wordpress xml yaml youtube c++ c# f# .net ci/cd k8s go""".split()
)
"""Names that are not split at camel case, and that count as tags if they are a heading of their own."""

MAX_KEYWORD_LENGTH = 64
"""Most characters of a keyword; longer words are blobs and hashes that no request contains."""

MAX_REMEMBERED = 50_000
"""Most distinct words to cache."""

MAX_REMEMBERED_LENGTH = 64
"""Most bytes of a cached word; a longer one is unlikely to recur."""

MAX_PARTS = 4
"""If a word has more parts (a path, a URL), only the parts are kept."""

CJK = "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30fa\u30fc-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
MARKS = (
    r"\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0730-\u074a"
    r"\u0900-\u0963\u0966-\u0e4e\u0eb1-\u0ecd\u0f18-\u0fbc\u102b-\u103e\u17b4-\u17d3\u1ab0-\u1aff\u200c\u200d"
)
"""Marks that belong to the letter before them; South Asian scripts cannot be read without theirs."""

WORD = r"""
      (?P<cjk>[{cjk}]+)
    | (?P<word>
        (?:(?<![\w.])\.)?                            # .net
        {letter}(?:{letter}|[{marks}])*
        (?:[-./_'’&](?:{letter}|[{marks}])+)*         # error-handling, node.js, ci/cd, snake_case, don't, r&d
        (?:\+\+|\#(?!\w))?                           # c++, c#
      )
"""
ASCII_WORD = re.compile(
    re.sub(r"\(\?P<\w+>", "(?:", WORD.format(cjk="一", letter="[A-Za-z0-9]", marks="A-Za-z0-9")), re.VERBOSE
)
"""Words of ASCII text, without groups so that one call finds all.

The pattern for all scripts takes ten times as long to compile, so it is compiled on first use.
"""

NO_SEPARATORS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-./_'&+#" + bytes(range(128, 256))
SEPARATORS = bytes(code if code in NO_SEPARATORS else ord(" ") for code in range(256))
"""Translates UTF-8: bytes that are not part of a word and do not affect where one ends become spaces."""


@cache
def _unicode_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a word and of a run of CJK characters in any text."""
    word = WORD.format(cjk=CJK, letter=rf"[^\W_{CJK}]", marks=MARKS)
    return re.compile(word, re.VERBOSE), re.compile(f"[{CJK}]+")


OPENING_SIGNS, CLOSING_SIGNS = b"-'/&_", b"-'/&."
"""Signs before and after a word that are not part of it and separate nothing."""

STEMMER = Stemmer.Stemmer("porter")
"""The same algorithm as in the full-text index."""

STEMMER.maxCacheSize = 0  # `stem` has its own cache

CONNECTORS = str.maketrans(dict.fromkeys("-./_'&", " "))
HUMP = re.compile(r"[A-Z]+(?=[A-Z][a-z]{2})|[A-Z]?[a-z]+|[A-Z]+|[^A-Za-z]+")
CAMEL = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
CAMEL_WORD = re.compile(r"(?<![^\W\d_])[A-Za-z][a-z]*[A-Z][A-Za-z]*(?![^\W\d_])")
ACCENTED_WORD = re.compile(r"(?<![^\W\d_])[A-Za-z]*[^\x00-\x7f\W\d_][^\W\d_]*")
SIGN = re.compile(r"(?<=\w)(?P<suffix>\+\+|#(?!\w))|[+#]+")

KINDS = bytes(
    code if code > 127 else ord("A" if one.isupper() else "a" if one.islower() else "0" if one.isdigit() else " ")
    for code, one in enumerate(map(chr, range(256)))
)
"""Translates UTF-8: ASCII letters and digits become their kind (`A`, `a`, `0`), other ASCII becomes a space."""

SYMBOLS = re.compile("[\u2010-\u2027\u2030-\u205e\u2190-\u23f3\u2500-\u26ff\u2701-\u2775\u2794-\u27bf]+")
"""Dashes, arrows, frames, check marks: the full-text index skips these too, but its character tables are older than
Python's. Texts that are ASCII without them are faster at every step, and most are."""

Word = tuple[str, ...]
"""The keywords of a stretch of text between separators, usually one word."""


def extract_keywords(text: str) -> list[str]:
    """Return the distinct keywords of *text* in the order they first appear."""
    return list(dict.fromkeys(iterate_keywords(text)))


def has_keywords(text: str) -> bool:
    """Tell whether *text* contains any keyword."""
    return any(_read_words(text))


def iterate_keywords(text: str) -> Iterator[str]:
    """Yield every keyword of *text*, repeats included, in reading order."""
    return itertools.chain.from_iterable(_read_words(text))


@lru_cache(maxsize=MAX_REMEMBERED)
def stem(keyword: str) -> str:
    """Return the Porter stem of a keyword; a keyword with anything but ASCII letters and digits is its own stem.

    As in the full-text index, digits count as letters (`k8s`), and words of two letters are kept: `js` is not a plural.
    """
    is_plain = keyword.isascii() and keyword.isalnum() and len(keyword) > 2
    return sys.intern(STEMMER.stemWord(keyword)) if is_plain else keyword


def words_beside(text: str) -> str:
    """Return the words, sorted, that the full-text index needs in addition to *text*; usually none.

    The index's own tokenizer cuts words at everything but letters, digits, `+` and `#`, and reads a query word such
    as `node.js` as a phrase. This adds what it cannot do: bigrams of CJK text, the parts of camel-case words, words
    with a stray sign or an apostrophe, and the normal form (NFKC) of letters.
    """
    normal = normalize("NFKC", text)
    beside = set(itertools.chain.from_iterable(map(_humps, _mixed_words(normal))))
    for word in (*_foreign_words(normal), *_signed_words(normal)):
        beside.update(_recall_beside(word))
    if normal != text:
        beside |= set(normal.split()) - set(text.split())
    return " ".join(sorted(beside))


def _mixed_words(text: str) -> Iterator[bytes]:
    """Yield the words of *text* with a capital after a small letter, or a small letter after two capitals."""
    encoded = text.encode("utf-8", "replace")
    kinds = encoded.translate(KINDS)
    for pattern in (b"aA", b"AAa"):
        at = kinds.find(pattern)
        while at >= 0:
            start, end = kinds.rfind(b" ", 0, at) + 1, kinds.find(b" ", at)
            word = encoded[start:] if end < 0 else encoded[start:end]
            if len(word) <= MAX_REMEMBERED_LENGTH:
                yield word
            at = kinds.find(pattern, end) if end >= 0 else -1


@lru_cache(maxsize=MAX_REMEMBERED)
def _humps(word: bytes) -> Sequence[str]:
    return _camel_parts(word.decode())


def _foreign_words(text: str) -> set[str]:
    """Return the words of *text* that are not ASCII."""
    lines = itertools.filterfalse(str.isascii, text.split("\n"))
    return {word for line in lines for word in line.split() if not word.isascii()}


def _signed_words(text: str) -> Iterator[str]:
    """Yield the words of *text* with a `+`, `#` or apostrophe beside something else."""
    for line in text.split("\n"):
        if "+" in line or "#" in line or "'" in line:
            yield from (word for word in line.split() if len(word) > 1 and ("+" in word or "#" in word or "'" in word))


def _read_words(text: str) -> Iterator[Word]:
    """Yield the keywords of each word of *text*."""
    words = normalize("NFKC", text).encode("utf-8", "surrogatepass").translate(SEPARATORS).split()
    is_rememberable = len(max(words, key=len, default=b"")) <= MAX_REMEMBERED_LENGTH
    return map(_recall_word if is_rememberable else _read_word, words)


def _read_word(word: bytes) -> Word:
    """Return the keywords of a word; stripping the signs around an ASCII word does not change them."""
    core = word.lstrip(OPENING_SIGNS).rstrip(CLOSING_SIGNS)
    if core != word and core[:1].isalnum() and word.isascii():
        word = core
    text = word.decode("utf-8", "surrogatepass")
    if text.isascii() and (text if text.islower() else text[1:]).islower() and text.isalpha():
        folded = text.lower()
        return (sys.intern(folded),) if _is_keyword(folded) else ()
    return tuple(map(sys.intern, _read_keywords(text)))


_recall_word = lru_cache(maxsize=MAX_REMEMBERED)(_read_word)


def _recall_beside(text: str) -> Sequence[str]:
    return _recalled_beside(text) if len(text) <= MAX_REMEMBERED_LENGTH else _beside(text)


def _beside(text: str) -> Sequence[str]:
    """Return the keywords of a word that the full-text index does not find in it."""
    words = CAMEL_WORD.sub(_with_humps, text)
    if not text.isascii():
        words = ACCENTED_WORD.sub(_with_humps, SYMBOLS.sub(" ", words))
        words = _unicode_patterns()[1].sub(lambda match: f" {' '.join(_bigrams(match[0]))} ", words).casefold()
    words = SIGN.sub(lambda sign: f"{sign['suffix'] or ''} ", words)
    is_cut_alike = words.lower().split() == SYMBOLS.sub(" ", text).lower().split()
    if is_cut_alike and "'" not in text and "’" not in text:
        return ()
    return tuple(word for word in _read_keywords(text) if not is_cut_alike or word not in text.lower())


_recalled_beside = lru_cache(maxsize=MAX_REMEMBERED)(_beside)


def _read_keywords(text: str) -> Iterable[str]:
    if text.isascii():
        return itertools.chain.from_iterable(map(_split_word, ASCII_WORD.findall(text)))
    words = _unicode_patterns()[0].finditer(text)
    return itertools.chain.from_iterable(
        _bigrams(word[0]) if word.lastgroup == "cjk" else _split_word(word[0]) for word in words
    )


def _with_humps(match: re.Match[str]) -> str:
    return " ".join((match[0], *_camel_parts(match[0])))


def _bigrams(run: str) -> Iterator[str]:
    if len(run) == 1:
        yield run
    for first, second in itertools.pairwise(run):
        yield first + second


def _split_word(word: str) -> list[str]:
    word = word.replace("’", "'")
    folded = _fold(word)
    if folded in STOP_WORDS:
        return []
    if folded.endswith("'s"):
        word, folded = word[:-2], folded[:-2]
    whole = folded.replace("'", "")
    pieces = [piece for piece in word.translate(CONNECTORS).split(" ") if piece]
    keywords = [whole] if len(pieces) <= MAX_PARTS and _is_keyword(whole) else []
    if len(pieces) > 1 and all(map(str.isdigit, pieces)):
        return keywords
    for piece in pieces:
        parts = (_fold(piece), *_camel_parts(piece))
        keywords += [part for part in parts if part != whole and _is_keyword(part)]
    return keywords


def _fold(word: str) -> str:
    """Return *word* casefolded and composed: a small letter may combine with a mark although its capital did not."""
    return word.lower() if word.isascii() else normalize("NFC", word.casefold())


def _camel_parts(word: str) -> Sequence[str]:
    """Return the humps of a camel-case word, casefolded; none for any other word or a known name."""
    if word[1:].lower() == word[1:]:
        return ()
    shape = word if word.isascii() else "".join("A" if c.isupper() else "a" if c.isalpha() else "0" for c in word)
    folded = word.casefold()
    if not CAMEL.search(shape) or folded in TECHNOLOGY_NAMES or folded.removesuffix("s") in TECHNOLOGY_NAMES:
        return ()
    return [_fold(word[hump.start() : hump.end()]) for hump in HUMP.finditer(shape)]


def _is_keyword(word: str) -> bool:
    return 2 <= len(word) <= MAX_KEYWORD_LENGTH and word not in STOP_WORDS


def count_held(text: str, wanted: Collection[str]) -> int:
    """Return how many of the distinct keywords *wanted* the text contains."""
    possible = _possible(text, wanted)
    if not possible:
        return 0
    lines = [line for line in text.split("\n") if _possible(line, possible)]
    return len(set(possible).intersection(iterate_keywords("\n".join(lines))))


def _possible(text: str, wanted: Collection[str]) -> Collection[str]:
    """Return a superset of the *wanted* keywords that *text* contains.

    ASCII text contains its keywords literally, apart from capitals and apostrophes.
    """
    if not text.isascii():
        return wanted
    folded = text.lower()
    if "'" in folded:
        folded = folded.replace("'", "")
    return [keyword for keyword in wanted if keyword in folded]
