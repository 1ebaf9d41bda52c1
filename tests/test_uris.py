"""URIs: every accepted spelling means the same, everything else is refused."""

import re
import unicodedata
from contextlib import suppress
from pathlib import PureWindowsPath
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import MakeCatalog

from orchestr8_sqlite.answers.skill_files import parse_skill_uri, read_skill_file
from orchestr8_sqlite.errors import RequestError, UnknownResource
from orchestr8_sqlite.model.requests import CATEGORY_FOLDERS, MatchRequest, Mode, Ranker
from orchestr8_sqlite.model.uris import Listing, Match, Read, fragment_uri, parse_uri

FILE_NAMES = st.text(
    alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="/\\\0"), min_size=1, max_size=20
).filter(lambda name: name not in (".", "..", "_fragments", "match"))
RFC_3986 = re.compile(r"orchestr8://(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-F]{2})+")


def test_a_static_uri_reads_a_fragment() -> None:
    assert parse_uri("orchestr8://agents/typescript-core") == Read("agents/typescript-core")
    assert parse_uri("orchestr8://examples/database/postgres-pool") == Read("examples/database/postgres-pool")


def test_a_match_uri_asks_all_categories() -> None:
    assert parse_uri("orchestr8://match?query=retry") == Match(MatchRequest("retry"))


def test_a_match_uri_below_a_category_asks_that_category() -> None:
    assert parse_uri("orchestr8://agents/match?query=typescript+api&maxTokens=2000") == Match(
        MatchRequest("typescript api", categories=("agent",), max_tokens=2000)
    )


@pytest.mark.parametrize("folder", CATEGORY_FOLDERS.values())
def test_a_category_alone_is_a_list(folder: str) -> None:
    assert parse_uri(f"orchestr8://{folder}") == parse_uri(f"orchestr8://{folder}/")
    assert isinstance(parse_uri(f"orchestr8://{folder}"), Listing)


def test_a_category_list_names_its_category() -> None:
    assert parse_uri("orchestr8://agents") == parse_uri("orchestr8://Agent") == Listing("agent")
    assert parse_uri("orchestr8://best-practices") == Listing("best-practice")


@pytest.mark.parametrize("uri", ["orchestr8://", "orchestr8://registry", "@orchestr8://registry", "@srv:orchestr8://"])
def test_nothing_and_registry_list_the_categories(uri: str) -> None:
    assert parse_uri(uri) == Listing(None)


def escaped(data: st.DataObject, text: str) -> str:
    """Return *text* with some of its characters percent-encoded, in either case of hex digits."""
    parts = []
    for character in text:
        code = f"%{ord(character):02x}"
        parts.append(data.draw(st.sampled_from((character, code, code.upper()))) if character != "/" else "/")
    return "".join(parts)


PREFIXES = st.sampled_from(["", "@", "@orchestr8:", "@my-server_2.0:"])
CATEGORY_SPELLINGS = st.sampled_from(["skills", "skill", "Skills", "SKILL", "SkIlLs"])


@given(PREFIXES, CATEGORY_SPELLINGS, st.integers(0, 2), st.data())
@settings(max_examples=60, derandomize=True)
def test_every_spelling_of_a_static_uri_reads_the_same(
    prefix: str, category: str, fragments_at: int, data: st.DataObject
) -> None:
    segments = [escaped(data, segment) for segment in (category, "api", "retry-core")]
    if fragments_at:
        segments.insert(fragments_at, "_fragments")
    assert parse_uri(f"{prefix}orchestr8://{'/'.join(segments)}") == Read("skills/api/retry-core")


def escaped_query(data: st.DataObject, text: str) -> str:
    """Return *text* as a query value, each character in one of the ways that RFC 3986 and forms allow."""
    parts = []
    for character in text:
        code = f"%{ord(character):02X}"
        ways = (code, code.lower(), "+") if character == " " else (code, code.lower())
        parts.append(data.draw(st.sampled_from((*ways, character) if character.isalnum() else ways)))
    return "".join(parts)


@given(PREFIXES, CATEGORY_SPELLINGS, st.data())
@settings(max_examples=60, derandomize=True)
def test_every_spelling_of_a_match_uri_asks_the_same(prefix: str, category: str, data: st.DataObject) -> None:
    query = escaped_query(data, "c++ a&b=c 100%2b")
    parsed = parse_uri(f"{prefix}orchestr8://{escaped(data, category)}/match?query={query}&mode=catalog")
    assert parsed == Match(MatchRequest("c++ a&b=c 100%2b", categories=("skill",)))


def test_escapes_are_decoded_exactly_once() -> None:
    assert parse_uri("orchestr8://skills/a%2520b") == Read("skills/a%20b")
    assert parse_uri("orchestr8://skills/%252e%252e") == Read("skills/%2e%2e")
    parsed = parse_uri("orchestr8://match?query=100%2525+a%252Bb")
    assert isinstance(parsed, Match)
    assert parsed.request.query == "100%25 a%2Bb"


def test_plus_is_a_space_in_queries_only() -> None:
    assert parse_uri("orchestr8://skills/c++") == Read("skills/c++")
    assert parse_uri("orchestr8://match?query=c%2B%2B+retry") == Match(MatchRequest("c++ retry"))
    assert parse_uri("orchestr8://match?query=c%2b%2b%20retry") == Match(MatchRequest("c++ retry"))


def test_every_parameter_may_stand_in_a_uri() -> None:
    parsed = parse_uri(
        "orchestr8://match?query=retry&mode=full&categories=skills,Agent&tags=Async%2Cnode.js"
        "&maxResults=3&maxTokens=900&minScore=12.5&ranker=classic&terms=circuit+breaker,back%20off"
    )
    limits = 3, 900, 12.5, Ranker.CLASSIC
    terms = "circuit breaker", "back off"
    assert parsed == Match(
        MatchRequest("retry", Mode.FULL, ("skill", "agent"), ("async", "node.js"), *limits, terms=terms)
    )


@pytest.mark.parametrize(
    "dots", ["..", "%2e%2e", "%2E.", ".%2e", ".", "%2e", "..%2f..", "..%5c..", "..\\..", "a\\..", "%5C"]
)
@pytest.mark.parametrize("form", ["orchestr8://skills/{}/retry", "orchestr8://skills/{}", "@x:orchestr8://{}/retry"])
def test_path_traversal_is_refused_in_any_spelling(form: str, dots: str) -> None:
    with pytest.raises(RequestError):
        parse_uri(form.format(dots))


@pytest.mark.parametrize(
    "uri", ["orchestr8://skills/a%00b", "orchestr8://skills/a\0b", "orchestr8://%00/match?query=x"]
)
def test_nul_is_refused(uri: str) -> None:
    with pytest.raises(RequestError):
        parse_uri(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "skills/retry",
        "file:///etc/passwd",
        "http://skills/retry",
        "orchestr9://skills/x",
        "@@orchestr8://x",
        "x orchestr8://skills/x",
        "orchestr8",
    ],
)
def test_anything_but_the_scheme_is_refused_with_the_form_to_send(uri: str) -> None:
    with pytest.raises(RequestError, match="orchestr8://<category>/<name>"):
        parse_uri(uri)


@pytest.mark.parametrize("uri", ["orchestr8://skills//retry", "orchestr8://skills/a%2Fb"])
def test_empty_segments_and_escaped_slashes_are_refused(uri: str) -> None:
    with pytest.raises(RequestError):
        parse_uri(uri)


@pytest.mark.parametrize(
    "uri", ["orchestr8://skills/100%", "orchestr8://skills/%zz", "orchestr8://match?query=50%+off"]
)
def test_a_broken_escape_is_refused_with_the_cure(uri: str) -> None:
    with pytest.raises(RequestError, match="%25"):
        parse_uri(uri)


@pytest.mark.parametrize("uri", ["orchestr8://skills/%ff", "orchestr8://match?query=%c3%28"])
def test_escapes_that_are_not_utf_8_are_refused(uri: str) -> None:
    with pytest.raises(RequestError, match="UTF-8"):
        parse_uri(uri)


def test_an_unknown_category_is_answered_with_the_nearest() -> None:
    for uri in ("orchestr8://skils/retry", "orchestr8://skils", "orchestr8://skils/match?query=x"):
        with pytest.raises(RequestError, match="'skills'"):
            parse_uri(uri)


def test_a_match_without_query_says_so() -> None:
    for uri in (
        "orchestr8://match",
        "orchestr8://agents/match",
        "orchestr8://match?mode=index",
        "orchestr8://match?query=",
    ):
        with pytest.raises(RequestError, match="query"):
            parse_uri(uri)


def test_an_unknown_parameter_suggests_the_nearest_name() -> None:
    with pytest.raises(RequestError, match="Did you mean 'maxTokens'"):
        parse_uri("orchestr8://match?query=x&maxtoken=5")


def test_a_parameter_given_twice_is_refused() -> None:
    with pytest.raises(RequestError, match="'query'"):
        parse_uri("orchestr8://match?query=x&query=y")


def test_an_endless_uri_is_refused_without_being_repeated() -> None:
    with pytest.raises(RequestError) as caught:
        parse_uri("orchestr8://skills/" + "x" * 100_000)
    assert len(str(caught.value)) < 200


@given(st.sampled_from(sorted(CATEGORY_FOLDERS.values())), st.lists(FILE_NAMES, min_size=1, max_size=3))
@settings(max_examples=100, derandomize=True)
def test_the_uri_of_any_file_name_reads_that_file(folder: str, names: list[str]) -> None:
    fragment_id = unicodedata.normalize("NFC", "/".join([folder, *names]))  # as ids are
    uri = fragment_uri(fragment_id)
    assert RFC_3986.fullmatch(uri)
    assert parse_uri(uri) == parse_uri(f"@orchestr8:{uri}") == Read(fragment_id)


@given(FILE_NAMES)
@settings(max_examples=100, derandomize=True)
def test_a_name_that_looks_escaped_is_not_decoded_again(name: str) -> None:
    once = quote(name, safe="")
    if once not in (".", ".."):
        assert parse_uri(f"orchestr8://skills/x/{quote(once, safe='')}") == Read(f"skills/x/{once}")


@given(st.text(max_size=60))
@settings(max_examples=80, derandomize=True)
def test_whatever_is_sent_nothing_but_a_request_error_is_raised(text: str) -> None:
    for uri in (text, f"orchestr8://{text}", f"orchestr8://skills/{text}", f"orchestr8://match?{text}"):
        with suppress(RequestError):
            parse_uri(uri)


@pytest.mark.parametrize("scheme", ["orchestr8", "skill"])
def test_path_of_too_many_segments_is_refused(scheme: str) -> None:
    parse = {"orchestr8": parse_uri, "skill": parse_skill_uri}[scheme]
    parse(f"{scheme}://{'/'.join(['skills'] * 100)}")
    with pytest.raises(RequestError, match="at most 100 segments"):
        parse(f"{scheme}://{'/'.join(['skills'] * 101)}")


@given(st.text(alphabet="aeouäéôñç\u0301\u0308\u0327가각ạ̈", min_size=1, max_size=12))
def test_letters_with_accents_in_pieces_mean_the_same(name: str) -> None:
    """Some systems keep the names of files in pieces (NFD), while people and models write them whole (NFC)."""
    whole, pieces = (unicodedata.normalize(form, name) for form in ("NFC", "NFD"))
    for spelling in (whole, pieces, name, quote(whole), quote(pieces)):
        assert parse_uri(f"orchestr8://guides/{spelling}") == Read(f"guides/{whole}")


WINDOWS_PATHS = [
    "C:\\secret.md",
    "\\\\host\\share\\secret.md",
    "//host/share/secret.md",
    "\\\\?\\C:\\secret.md",
    "..\\..\\secret.md",
    "guides\\..\\..\\secret.md",
    "guides/..\\..\\secret.md",
    "guides/C:\\secret.md",
    "guides/%2e%2e/secret.md",
]


@pytest.mark.parametrize("path", [*WINDOWS_PATHS, *map(quote, WINDOWS_PATHS[:-1])])
def test_paths_of_windows_are_refused(path: str) -> None:
    with pytest.raises(RequestError):
        parse_uri(f"orchestr8://{path}")
    with pytest.raises(RequestError):
        parse_skill_uri(f"skill://{path}")


@pytest.mark.parametrize("path", ["C:/secret.md", "C:secret.md", "C%3A/secret.md", "c%3asecret.md"])
def test_drive_letter_is_no_category_and_otherwise_a_name_like_any(path: str, make_catalog: MakeCatalog) -> None:
    """A name is looked for in the index, never among files; there "C:" can be that of a folder."""
    with pytest.raises(RequestError):
        parse_uri(f"orchestr8://{path}")
    with pytest.raises(UnknownResource):
        read_skill_file(make_catalog(), f"skill://{path}")


def test_accepted_ids_are_relative_paths_of_windows_too() -> None:
    for path in ("guides/C:secret.md", "guides/CON", "guides/C%3Asecret.md"):
        asked = parse_uri(f"orchestr8://{path}")
        assert isinstance(asked, Read)
        assert not PureWindowsPath(asked.id).is_absolute()
        assert (PureWindowsPath("D:\\library") / asked.id).drive == "D:"
