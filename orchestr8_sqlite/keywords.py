"""Text → keywords, the same way for fragments when an index is built and for queries afterwards.

A text is normalised (NFKC), cut into words, and each word yields itself and its parts, all casefolded:

    "Retry a Node.js call"   → retry, node.js, node, js, call
    "third-party setUserId"  → third-party, third, party, setuserid, set, user, id
    "C++ and CI/CD on K8s"   → c++, ci/cd, ci, cd, k8s
    "TypeScript"             → typescript           (a known name is not taken apart)
    "再試行"                  → 再試, 試行            (bigrams, as CJK text has no spaces)
"""

import itertools
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from operator import itemgetter

import Stemmer

from orchestr8_sqlite.normal_forms import normalize

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
"""Plus the function words and asking words that carry no topic in real scenarios and requests."""

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
"""Names kept in one piece where camel case would cut them, and read as tags from a bare heading."""

MAX_KEYWORD_LENGTH = 64
"""Characters; longer words are blobs and hashes, not something that anybody asks for."""

MAX_REMEMBERED = 50_000
"""Distinct words that are remembered, and so many more that were met before them."""

MAX_REMEMBERED_LENGTH = 64
"""Bytes of a word that is remembered; a longer one will hardly be met again."""

MAX_PARTS = 4
"""A word joined from more parts (a path, a URL) is kept in parts only."""

CJK = "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30fa\u30fc-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
MARKS = (
    r"\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0730-\u074a"
    r"\u0900-\u0963\u0966-\u0e4e\u0eb1-\u0ecd\u0f18-\u0fbc\u102b-\u103e\u17b4-\u17d3\u1ab0-\u1aff\u200c\u200d"
)
"""Signs that belong to the letter before them; scripts of South Asia cannot be read without theirs."""

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
"""Words of ASCII text, without groups so that all are found in one call.

The pattern for all scripts takes ten times as long to compile and waits until it is needed.
"""

NO_SEPARATORS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-./_'&+#" + bytes(range(128, 256))
SEPARATORS = bytes(code if code in NO_SEPARATORS else ord(" ") for code in range(256))
"""Translates UTF-8: what is part of no word, nor tells where one ends, becomes a space."""


@cache
def _unicode_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of a word and of a run of CJK characters in any text."""
    word = WORD.format(cjk=CJK, letter=rf"[^\W_{CJK}]", marks=MARKS)
    return re.compile(word, re.VERBOSE), re.compile(f"[{CJK}]+")


OPENING_SIGNS, CLOSING_SIGNS = b"-'/&_", b"-'/&."
"""Signs in front of a word and behind it that are no part of it, nor separate it from anything."""

STEMMER = Stemmer.Stemmer("porter")
"""The algorithm that the full-text index uses too."""

STEMMER.maxCacheSize = 0  # words are remembered here already, and it looks things up more slowly than it stems

CONNECTORS = str.maketrans(dict.fromkeys("-./_'&", " "))
HUMP = re.compile(r"[A-Z]+(?=[A-Z][a-z]{2})|[A-Z]?[a-z]+|[A-Z]+|[^A-Za-z]+")
CAMEL = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
CAMEL_WORD = re.compile(r"(?<![^\W\d_])[A-Za-z][a-z]*[A-Z][A-Za-z]*(?![^\W\d_])")
ACCENTED_WORD = re.compile(r"(?<![^\W\d_])[A-Za-z]*[^\x00-\x7f\W\d_][^\W\d_]*")
SIGN = re.compile(r"(?<=\w)(?P<suffix>\+\+|#(?!\w))|[+#]+")

SYMBOLS = re.compile("[\u2010-\u2027\u2030-\u205e\u2190-\u23f3\u2500-\u26ff\u2701-\u2775\u2794-\u27bf]+")
"""Dashes, arrows, frames, check marks: what the full-text index passes over too, as older tables of characters than
Python's have them. Most texts are ASCII without them, which is handled faster all the way."""

Word = tuple[tuple[str, ...], tuple[str, ...], bytes]
"""What there is to know of a stretch of text between separators, mostly one word: its keywords, their stems, and what
the full-text index is given for it, in UTF-8. Python's garbage collector passes over plain tuples."""


def extract_keywords(text: str) -> list[str]:
    """Return the distinct keywords of *text* in the order they first appear."""
    return list(dict.fromkeys(iterate_keywords(text)))


def has_keywords(text: str) -> bool:
    """Tell whether *text* holds any keyword."""
    return any(map(itemgetter(0), _read_words(text)))


def iterate_keywords(text: str) -> Iterator[str]:
    """Yield every keyword of *text*, repeats included, in reading order."""
    return itertools.chain.from_iterable(map(itemgetter(0), _read_words(text)))


def count_stems(text: str) -> Counter[str]:
    """Return how often each stem occurs among the keywords of *text*, in the order they first appear."""
    return Counter(iterate_stems(text))


def iterate_stems(text: str) -> Iterator[str]:
    """Yield the stem of every keyword of *text*, repeats included, in reading order."""
    return itertools.chain.from_iterable(map(itemgetter(1), _read_words(text)))


def stem(keyword: str) -> str:
    """Return what the inflected forms of a keyword share (Porter), the keyword itself where it is no plain word."""
    return sys.intern(STEMMER.stemWord(keyword)) if keyword.isascii() and keyword.isalpha() else keyword


def index_text(text: str) -> str:
    """Return the words of *text* as they are given to the full-text index.

    The index's own tokenizer cuts words at everything but letters, digits, `+` and `#`, and reads a
    query word such as `node.js` as a phrase. What it cannot do is added here: CJK text in bigrams,
    and the parts of camel-case words behind the word. What it passes over anyway is left out.
    """
    return b" ".join(map(itemgetter(2), _read_words(text))).decode("utf-8", "surrogatepass")


@lru_cache(maxsize=64)
def _read_words(text: str) -> list[Word]:
    """Return the words of *text*; those of the last few texts are remembered."""
    words = normalize("NFKC", text).encode("utf-8", "surrogatepass").translate(SEPARATORS).split()
    return list(map(WORDS.__getitem__, words))


class _Words(dict[bytes, Word]):
    """The words met lately; half as dear to ask as an `lru_cache`."""

    def __init__(self) -> None:
        super().__init__()
        self._before: dict[bytes, Word] = {}

    def __missing__(self, word: bytes) -> Word:
        found = self._before.get(word) or self._read(word)
        if len(word) <= MAX_REMEMBERED_LENGTH:
            if len(self) >= MAX_REMEMBERED:
                self._before = dict(self)
                self.clear()
            self[word] = found
        return found

    def _read(self, word: bytes) -> Word:
        """Return what a word is read as: without the signs around it, if it is ASCII, the same."""
        core = word.lstrip(OPENING_SIGNS).rstrip(CLOSING_SIGNS)
        return self[core] if core != word and core[:1].isalnum() and word.isascii() else _read_word(word)


WORDS = _Words()


def _read_word(word: bytes) -> Word:
    text = word.decode("utf-8", "surrogatepass")
    if text.isascii() and (text if text.islower() else text[1:]).islower() and text.isalpha():
        folded = text.lower()
        keywords: tuple[str, ...] = (sys.intern(folded),) if _is_keyword(folded) else ()
        return keywords, tuple(map(stem, keywords)), word
    keywords = tuple(map(sys.intern, _read_keywords(text)))
    indexed = _indexed(text).encode("utf-8", "surrogatepass")
    return keywords, tuple(map(stem, keywords)), word if indexed == word else indexed


def _indexed(text: str) -> str:
    if text[1:].lower() != text[1:]:
        text = CAMEL_WORD.sub(_with_humps, text)
    if not text.isascii():
        text = ACCENTED_WORD.sub(_with_humps, SYMBOLS.sub(" ", text))
        text = _unicode_patterns()[1].sub(lambda match: f" {' '.join(_bigrams(match[0]))} ", text).casefold()
    return SIGN.sub(lambda sign: f"{sign['suffix'] or ''} ", text) if "+" in text or "#" in text else text


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
    folded = word.casefold()
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
        parts = (piece.casefold(), *_camel_parts(piece))
        keywords += [part for part in parts if part != whole and _is_keyword(part)]
    return keywords


def _camel_parts(word: str) -> Sequence[str]:
    """Return the humps of a camel-case word, casefolded; none for a word without and for a known name."""
    if word[1:].lower() == word[1:]:
        return ()
    shape = word if word.isascii() else "".join("A" if c.isupper() else "a" if c.isalpha() else "0" for c in word)
    folded = word.casefold()
    if not CAMEL.search(shape) or folded in TECHNOLOGY_NAMES or folded.removesuffix("s") in TECHNOLOGY_NAMES:
        return ()
    return [word[hump.start() : hump.end()].casefold() for hump in HUMP.finditer(shape)]


def _is_keyword(word: str) -> bool:
    return 2 <= len(word) <= MAX_KEYWORD_LENGTH and word not in STOP_WORDS
