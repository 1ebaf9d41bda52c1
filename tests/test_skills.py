"""`skill://` URIs, entries, folders and files of an index: what SEP-2640 asks of a server, without the protocol."""

import hashlib
import itertools
import json
import random
import re
import time
from collections.abc import Iterator, Mapping
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import SHARED, build, needs_shared, write_files

from orchestr8_sqlite.answers import skill_files
from orchestr8_sqlite.answers.mediatypes import media_type
from orchestr8_sqlite.answers.skill_files import (
    DirectoryEntry,
    SkillEntry,
    count_skills,
    get_skill,
    is_skill_uri,
    list_skills,
    parse_skill_uri,
    read_directory,
    read_skill_file,
    skill_uri,
)
from orchestr8_sqlite.errors import RequestError, UnknownResource
from orchestr8_sqlite.index.catalog import Catalog

PDF = b"\xef\xbb\xbf---\r\nname: pdf\r\ndescription: Fills PDF forms\r\n---\r\n\r\n# PDF\r\n\r\nRead forms/a b.md\r\n"
SIGN = b"---\nname: sign\ndescription: Signs PDF files\n---\n\n# Sign\n"
REFUNDS = b"---\nname: refunds\ndescription: Pays money back\nlicense: MIT\n---\n\n# Refunds\n"
FILES: dict[str, bytes] = {
    "skills/pdf/SKILL.md": PDF,
    "skills/pdf/LICENSE": b"MIT",
    "skills/pdf/forms/a b.md": b"caf\xc3\xa9",
    "skills/pdf/forms/deep/x.json": b"{}",
    "skills/pdf/logo.png": b"PNG\0",
    "skills/pdf/skills/sign/SKILL.md": SIGN,
    "skills/pdf/skills/sign/key#1?.txt": b"k",
    "skills/acme/billing/refunds/SKILL.md": REFUNDS,
    "skills/Broken/SKILL.md": b"---\nname: Broken\ndescription: Has a bad name\n---\n\n# Broken\n",
    "skills/Broken/x.txt": b"x",
    "skills/plain.md": b"# Plain\n\nNo Agent Skill.\n",
}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    folder = tmp_path_factory.mktemp("skills")
    with Catalog.open(build(write_files(folder / "library", FILES), folder / "index.db")) as catalog:
        yield catalog


def digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def expected_files(folder: str) -> dict[str, tuple[str, int]]:
    """Return (digest, size) of every file below *folder*, by path within it."""
    inside = {path.removeprefix(f"{folder}/"): content for path, content in FILES.items() if path.startswith(folder)}
    return {path: (digest(content), len(content)) for path, content in inside.items()}


def manifest(catalog: Catalog, uri: str) -> dict[str, tuple[str, int]]:
    entry = get_skill(catalog, uri)
    base = entry.uri.removesuffix("SKILL.md")
    assert all(one.uri.startswith(base) for one in entry.resources)
    return {unquote(one.uri.removeprefix(base)): (one.digest, one.size) for one in entry.resources}


def entries_of(catalog: Catalog, *, after: str = "", limit: int = 100) -> list[SkillEntry]:
    return [entry for _, entry in list_skills(catalog, after=after, limit=limit)]


def names(entries: list[DirectoryEntry]) -> list[str]:
    return [entry.segment + ("/" if entry.mime_type == "inode/directory" else "") for entry in entries]


def test_only_skills_that_conform_are_listed_without_references_in_the_order_of_their_paths(catalog: Catalog) -> None:
    entries = entries_of(catalog)
    assert [entry.uri for entry in entries] == [
        "skill://acme/billing/refunds/SKILL.md",
        "skill://pdf/SKILL.md",
        "skill://pdf/skills/sign/SKILL.md",
    ]
    assert [entry.path for entry in entries] == ["acme/billing/refunds", "pdf", "pdf/skills/sign"]


def test_the_last_part_of_the_path_of_a_skill_is_the_name_in_its_front_matter(catalog: Catalog) -> None:
    for entry in entries_of(catalog):
        assert entry.path.rpartition("/")[2] == entry.frontmatter["name"]


def test_an_entry_has_the_front_matter_its_author_wrote(catalog: Catalog) -> None:
    entry = get_skill(catalog, "skill://acme/billing/refunds/SKILL.md")
    expected = {"name": "refunds", "description": "Pays money back", "license": "MIT"}
    assert list(entry.frontmatter.items()) == list(expected.items())


@pytest.mark.parametrize("skill", ["pdf", "pdf/skills/sign", "acme/billing/refunds"])
def test_an_entry_lists_every_file_once_with_digest_and_size_of_its_bytes(catalog: Catalog, skill: str) -> None:
    entry = get_skill(catalog, f"skill://{skill}/SKILL.md")
    assert len({one.uri for one in entry.resources}) == len(entry.resources)
    assert entry.uri in [one.uri for one in entry.resources]
    assert manifest(catalog, entry.uri) == expected_files(f"skills/{skill}")
    assert all(re.fullmatch("sha256:[0-9a-f]{64}", one.digest) for one in entry.resources)


def test_the_entry_of_a_listing_is_that_of_the_skill_alone(catalog: Catalog) -> None:
    for entry in entries_of(catalog):
        assert get_skill(catalog, entry.uri) == entry


def test_every_listed_file_is_read_back_byte_for_byte(catalog: Catalog) -> None:
    read = {one.uri: one for entry in entries_of(catalog) for one in entry.resources}
    for uri, one in read.items():
        found = read_skill_file(catalog, uri)
        assert (digest(found.content), len(found.content), found.uri) == (one.digest, one.size, uri)
        assert found.text is None or found.text.encode() == found.content


@pytest.mark.parametrize(
    ("uri", "mime_type", "text"),
    [
        ("skill://pdf/SKILL.md", "text/markdown", PDF.decode()),
        ("skill://pdf/LICENSE", "text/plain", "MIT"),
        ("skill://pdf/forms/a%20b.md", "text/markdown", "café"),
        ("skill://pdf/forms/deep/x.json", "application/json", "{}"),
        ("skill://pdf/logo.png", "image/png", None),
        ("skill://pdf/skills/sign/key%231%3F.txt", "text/plain", "k"),
    ],
)
def test_a_file_is_text_where_it_is_utf_8_and_has_the_type_of_its_name(
    catalog: Catalog, uri: str, mime_type: str, text: str | None
) -> None:
    found = read_skill_file(catalog, uri)
    assert (found.mime_type, found.text) == (mime_type, text)


def test_pages_of_skills_hold_each_skill_once_with_its_place(catalog: Catalog) -> None:
    paths = ["", "acme/billing/refunds", "pdf", "pdf/skills/sign"]
    for place, (after, path) in enumerate(itertools.pairwise(paths), start=1):
        assert [(at, entry.path) for at, entry in list_skills(catalog, after=after, limit=1)] == [(place, path)]
    assert entries_of(catalog, after=paths[-1]) == []
    assert count_skills(catalog) == 3


@pytest.mark.parametrize(
    ("uri", "children"),
    [
        ("skill://pdf", ["LICENSE", "SKILL.md", "forms/", "logo.png", "skills/"]),
        ("skill://pdf/forms", ["a b.md", "deep/"]),
        ("skill://pdf/forms/deep", ["x.json"]),
        ("skill://pdf/skills", ["sign/"]),
        ("skill://pdf/skills/sign", ["SKILL.md", "key#1?.txt"]),
        ("skill://acme", ["billing/"]),
        ("skill://acme/billing", ["refunds/"]),
        ("skill://acme/billing/refunds", ["SKILL.md"]),
    ],
)
def test_a_directory_is_read_as_its_direct_children(catalog: Catalog, uri: str, children: list[str]) -> None:
    entries = read_directory(catalog, uri)
    assert names(entries) == children
    assert [entry.uri for entry in entries] == [f"{uri}/{name}" for name in map(escaped, children)]


def escaped(name: str) -> str:
    return name.rstrip("/").replace(" ", "%20").replace("#", "%23").replace("?", "%3F")


def test_every_file_of_every_skill_is_reached_by_walking_its_directories(catalog: Catalog) -> None:
    def walk(uri: str) -> Iterator[str]:
        for child in read_directory(catalog, uri):
            if child.mime_type == "inode/directory":
                assert child.size is None
                yield from walk(child.uri)
            else:
                assert child.size == len(read_skill_file(catalog, child.uri).content)
                yield child.uri

    walked = {uri for top in ("skill://pdf", "skill://acme") for uri in walk(top)}
    assert walked == {one.uri for entry in entries_of(catalog) for one in entry.resources}


def test_children_have_their_metadata_and_a_skill_file_that_of_its_skill(catalog: Catalog) -> None:
    children = {entry.segment: entry for entry in read_directory(catalog, "skill://pdf")}
    main = DirectoryEntry(
        "skill://pdf/SKILL.md", "SKILL.md", "pdf", "text/markdown", size=len(PDF), description="Fills PDF forms"
    )
    assert children["SKILL.md"] == main
    assert children["logo.png"] == DirectoryEntry("skill://pdf/logo.png", "logo.png", "logo.png", "image/png", size=4)
    assert children["LICENSE"].mime_type is None
    nested = {entry.segment: entry for entry in read_directory(catalog, "skill://pdf/skills/sign")}
    assert (nested["SKILL.md"].name, nested["SKILL.md"].description) == ("sign", "Signs PDF files")


def test_pages_of_a_directory_hold_each_child_once(catalog: Catalog) -> None:
    children = ["LICENSE", "SKILL.md", "forms", "logo.png", "skills"]
    for start, after in ((0, ""), (2, "SKILL.md"), (4, "logo.png"), (5, "skills")):
        page = read_directory(catalog, "skill://pdf", after=after, limit=2)
        assert [entry.segment for entry in page] == children[start : start + 2]


@pytest.mark.parametrize(
    "uri",
    [
        "skill://pdf/SKILL.md",
        "SKILL://pdf/SKILL.md",
        "@skill://pdf/SKILL.md",
        "@orchestr8:skill://pdf/SKILL.md",
        "skill://%70df/SKILL.md",
        "skill://pdf/SKILL%2Emd",
        "skill://pdf/%53%4b%49%4c%4c.md",
    ],
)
def test_equivalent_spellings_of_a_uri_are_the_same(catalog: Catalog, uri: str) -> None:
    assert is_skill_uri(uri)
    assert read_skill_file(catalog, uri).content == PDF
    assert get_skill(catalog, uri).uri == "skill://pdf/SKILL.md"


@pytest.mark.parametrize("read", [get_skill, read_directory, read_skill_file])
@pytest.mark.parametrize(
    "uri",
    [
        "skill://",
        "skill:///pdf/SKILL.md",
        "skill://pdf/",
        "skill://pdf//SKILL.md",
        "skill://pdf/../pdf/SKILL.md",
        "skill://pdf/%2e%2e/pdf/SKILL.md",
        "skill://pdf/.%2E/x",
        "skill://pdf/./SKILL.md",
        "skill://../../etc/passwd",
        "skill://pdf/a%2Fb",
        "skill://pdf/a%5cb",
        "skill://pdf/a\\b",
        "skill://pdf/SKILL.md%00",
        "skill://pdf/%zz",
        "skill://pdf/%ff",
        "skill://pdf/SKILL.md?raw=1",
        "skill://pdf/SKILL.md#top",
        "file:///etc/passwd",
        "orchestr8://skills/pdf",
        "skill://" + "x" * 20_000,
    ],
)
def test_an_unacceptable_uri_is_refused_before_anything_is_read(catalog: Catalog, uri: str, read: object) -> None:
    assert callable(read)
    with pytest.raises(RequestError) as caught:
        read(catalog, uri)
    assert not isinstance(caught.value, UnknownResource)


@pytest.mark.parametrize("uri", ["skill://pdf/%252e%252e/SKILL.md", "skill://pdf/forms/a%2520b.md"])
def test_escapes_are_decoded_exactly_once(catalog: Catalog, uri: str) -> None:
    with pytest.raises(UnknownResource):
        read_skill_file(catalog, uri)


@pytest.mark.parametrize(
    ("read", "uri", "advice"),
    [
        (
            get_skill,
            "skill://pdff/SKILL.md",
            r"No skill is served at skill://pdff/SKILL\.md\. Nearest: skill://pdf/SKI",
        ),
        (get_skill, "skill://refunds/SKILL.md", "Nearest: skill://acme/billing/refunds/SKILL.md"),
        (get_skill, "skill://pdf/LICENSE", "No skill is served at skill://pdf/LICENSE"),
        (get_skill, "skill://pdf", "skills/get of skill://pdf/SKILL.md"),
        (get_skill, "skill://pdf/forms/a%20b.md", "skills/get of skill://pdf/SKILL.md"),
        (get_skill, "skill://Broken/SKILL.md", "no Agent Skill to offer; read orchestr8://skills/Broken instead"),
        (get_skill, "skill://plain/SKILL.md", "read orchestr8://skills/plain instead"),
        (read_skill_file, "skill://Broken/x.txt", "No file of a skill is served at skill://Broken/x.txt"),
        (read_skill_file, "skill://pdf/none.txt", "skills/get of skill://pdf/SKILL.md"),
        (read_skill_file, "skill://pdf/forms", "is a directory; list it with resources/directory/read"),
        (read_skill_file, "skill://acme/billing", "is a directory; list it with resources/directory/read"),
        (read_directory, "skill://pdf/SKILL.md", "is a file, not a directory; read it with resources/read"),
        (read_directory, "skill://pdf/none", "No directory is served at skill://pdf/none. Ask for the skill"),
        (read_directory, "skill://acm", "No directory is served at skill://acm"),
    ],
)
def test_what_is_not_served_is_refused_with_what_to_ask_for_instead(
    catalog: Catalog, read: object, uri: str, advice: str
) -> None:
    assert callable(read)
    with pytest.raises(RequestError, match=advice):
        read(catalog, uri)


NAME = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Zl", "Zp", "Co", "Cn"], exclude_characters="/\\\0"),
    min_size=1,
    max_size=12,
).filter(lambda name: name not in (".", ".."))


@given(st.lists(NAME, min_size=1, max_size=4))
@example([":@", "a:b@c"])
@example(["%2e%2e", "%"])
@example(["a?b#c", "[x]", "ü 再"])
def test_any_name_comes_back_from_its_uri_and_the_uri_is_one_of_rfc_3986(parts: list[str]) -> None:
    path = "/".join(parts)
    uri = skill_uri(path)
    assert parse_skill_uri(uri) == path
    assert re.fullmatch(
        r"skill://(?:[A-Za-z0-9._~!$*+,;=-]|%[0-9A-F]{2})+(/(?:[A-Za-z0-9._~!$*+,;=:@-]|%[0-9A-F]{2})+)*", uri
    )
    split = urlsplit(uri)
    assert (split.scheme, unquote(split.netloc + split.path)) == ("skill", path)
    assert (split.query, split.fragment, split.username, split.port) == ("", "", None, None)


PIECES = [
    "pdf",
    "forms",
    "SKILL.md",
    "..",
    ".",
    "%2e%2e",
    "%2E.",
    "%252e",
    "%00",
    "%5c",
    "\\",
    "/",
    "//",
    "%2f",
    "a b.md",
]


@given(st.lists(st.sampled_from(PIECES), max_size=7), st.sampled_from(["", "/"]))
def test_a_uri_reads_the_file_that_a_naive_reader_finds_and_never_another(
    catalog: Catalog, pieces: list[str], glue: str
) -> None:
    uri = "skill://" + glue.join(pieces)
    raw = uri.removeprefix("skill://").split("/")
    decoded = [unquote(segment) for segment in raw]
    path = "skills/" + "/".join(decoded)
    plain = all(segment not in ("", ".", "..") and not set(segment) & set("/\\\0") for segment in decoded)
    if plain and path in FILES:
        assert read_skill_file(catalog, uri).content == FILES[path]
    else:
        with pytest.raises(RequestError):
            read_skill_file(catalog, uri)


FILE_NAMES = st.sampled_from(["a", "b.md", "c d", "SKILL.md", "ü", "x%41", "~"])
TREES = st.dictionaries(
    st.lists(FILE_NAMES, min_size=1, max_size=3).map(tuple), st.binary(max_size=5), max_size=8
).filter(lambda tree: not any(path[:n] in {*tree, ("SKILL.md",)} for path in tree for n in range(1, len(path))))


@settings(max_examples=10)
@given(tree=TREES)
def test_manifest_and_directories_of_a_random_skill_are_those_of_its_folder(
    tmp_path_factory: pytest.TempPathFactory, tree: Mapping[tuple[str, ...], bytes]
) -> None:
    folder = tmp_path_factory.mktemp("tree")
    files = {f"skills/pdf/{'/'.join(path)}": content for path, content in tree.items()} | {"skills/pdf/SKILL.md": SIGN}
    files["skills/pdf/SKILL.md"] = SIGN.replace(b"sign", b"pdf")
    root = write_files(folder / "library", files)
    with Catalog.open(build(root, folder / "index.db")) as catalog:
        on_disk = [path for path in (root / "skills/pdf").rglob("*") if path.is_file()]
        expected = {str(path.relative_to(root / "skills/pdf")): digest(path.read_bytes()) for path in on_disk}
        found = {path: one for path, (one, _) in manifest(catalog, "skill://pdf/SKILL.md").items()}
        assert found == expected
        for directory in {path.parent for path in on_disk}:
            uri = skill_uri(str(directory.relative_to(root / "skills")))
            assert [entry.segment for entry in read_directory(catalog, uri)] == sorted(
                p.name for p in directory.iterdir()
            )


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/SKILL.md", "text/markdown"),
        ("x.py", "text/x-python"),
        ("x.PNG", "image/png"),
        ("x.yaml", "application/yaml"),
        ("x.tar.gz", "application/gzip"),
        ("data:text.html", "text/html"),
        ("Makefile", None),
        ("x.unknown", None),
    ],
)
def test_the_media_type_is_told_by_the_ending_of_the_name(path: str, expected: str | None) -> None:
    assert media_type(path) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SKILL_BY_PATH",
        "MANIFEST",
        "INNERMOST_SKILL",
        "FILES_BELOW",
        "FOLDERS_BELOW",
        "FILE",
    ],
)
def test_queries_find_their_rows_by_an_index(catalog: Catalog, sql: str) -> None:
    parameters = dict.fromkeys(re.findall(r":(\w+)", getattr(skill_files, sql)), "[]")
    steps = [str(row[3]) for row in catalog.db.execute(f"EXPLAIN QUERY PLAN {getattr(skill_files, sql)}", parameters)]
    assert [step for step in steps if re.match(r"SCAN (s|f|skill|skill_file)\b", step)] == []
    assert any("SEARCH" in step for step in steps)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    """Return the index of all real skills, each in a folder of its own name."""
    folder = tmp_path_factory.mktemp("many")
    corpus = SHARED / "corpora" / "skills"
    for manifest_line in (SHARED / "corpora" / "skills-manifest.jsonl").read_text(encoding="utf-8").splitlines():
        known = json.loads(manifest_line)
        if known["path"].endswith("/SKILL.md"):
            target = folder / "library" / known["repo"] / known["path"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((corpus / f"{known['id']}.md").read_bytes())
    with Catalog.open(build(folder / "library", folder / "index.db")) as catalog:
        yield catalog


@needs_shared
@pytest.mark.slow
def test_pages_of_real_skills_hold_them_all_and_take_milliseconds(many: Catalog) -> None:
    seconds, paths = [], [""]
    while True:
        started = time.process_time()
        page = entries_of(many, after=paths[-1])
        seconds.append(time.process_time() - started)
        paths += [entry.path for entry in page]
        if not page:
            break
    assert len({*paths[1:]}) == len(paths[1:]) == many.db.execute("SELECT count(*) FROM skill").fetchone()[0] > 1300
    assert sorted(seconds)[len(seconds) // 2] < 0.1


@needs_shared
@pytest.mark.slow
def test_real_skills_are_read_back_as_their_entries_say(many: Catalog) -> None:
    choice = random.Random(7)
    entries = entries_of(many, limit=1000)
    for entry in choice.sample(entries, 50):
        for one in entry.resources:
            content = read_skill_file(many, one.uri).content
            assert (digest(content), len(content)) == (one.digest, one.size)
