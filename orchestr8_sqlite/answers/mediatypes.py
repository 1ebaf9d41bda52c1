"""Media types and text of served files, the same on every machine and with every version of Python."""

from functools import cache
from mimetypes import MimeTypes

DIRECTORY = "inode/directory"
TEXT = "text/plain"
BINARY = "application/octet-stream"

BUNDLED = {
    suffix: media
    for media, suffixes in {
        "text/markdown": "md markdown mdx",
        "text/plain": "txt text log rst ini cfg conf env j2 jinja tmpl template diff patch gitignore lock",
        "text/html": "html htm",
        "text/css": "css",
        "text/csv": "csv",
        "text/tab-separated-values": "tsv",
        "text/javascript": "js mjs cjs",
        "text/x-typescript": "ts tsx mts",
        "text/jsx": "jsx",
        "text/x-python": "py pyi",
        "text/x-ruby": "rb",
        "text/x-go": "go",
        "text/x-rust": "rs",
        "text/x-java": "java",
        "text/x-kotlin": "kt kts",
        "text/x-swift": "swift",
        "text/x-c": "c h cc cpp hpp",
        "text/x-csharp": "cs",
        "text/x-php": "php",
        "text/x-r": "r",
        "text/x-lua": "lua",
        "text/x-tex": "tex bib sty",
        "application/x-sh": "sh bash zsh",
        "application/x-powershell": "ps1",
        "application/sql": "sql",
        "application/json": "json",
        "application/jsonl": "jsonl ndjson",
        "application/yaml": "yaml yml",
        "application/toml": "toml",
        "application/xml": "xml xsd",
        "application/x-ipynb+json": "ipynb",
        "application/pdf": "pdf",
        "application/zip": "zip",
        "application/gzip": "gz tgz",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
        "image/svg+xml": "svg",
        "image/webp": "webp",
        "font/ttf": "ttf",
        "font/otf": "otf",
        "font/woff": "woff",
        "font/woff2": "woff2",
    }.items()
    for suffix in suffixes.split()
}
"""Types of files that skills bundle; Python's table lacks some of them and has changed the names of others."""


@cache
def _others() -> dict[str, str]:
    """Return Python's own table, without what this machine adds."""
    return {suffix.removeprefix("."): media for suffix, media in MimeTypes(filenames=()).types_map[True].items()}


def media_type(path: str) -> str | None:
    """Return the media type of a file by its extension, or None if that is unknown."""
    name = path.rpartition("/")[2]
    suffix = name.rpartition(".")[2].casefold() if "." in name else ""
    return BUNDLED.get(suffix) or _others().get(suffix)


def as_text(content: bytes) -> str | None:
    """Return *content* decoded as UTF-8, or None if it is not UTF-8 text."""
    try:
        return None if b"\0" in content else content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def served_type(name: str, text: str | None) -> str:
    """Return the media type to serve a file with: by its name, else text or binary by its content."""
    return media_type(name) or (BINARY if text is None else TEXT)
