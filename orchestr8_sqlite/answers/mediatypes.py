"""Files as they go out: media types, the same on every machine and with every version of Python, and text."""

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
"""What skills bundle; Python's own table lacks some of these and has called others by several names."""


@cache
def _others() -> dict[str, str]:
    """Return Python's own table, without what this machine adds."""
    return {suffix.removeprefix("."): media for suffix, media in MimeTypes(filenames=()).types_map[True].items()}


def media_type(path: str) -> str | None:
    """Return the media type of a file by the ending of its name, or None where that does not tell."""
    name = path.rpartition("/")[2]
    suffix = name.rpartition(".")[2].casefold() if "." in name else ""
    return BUNDLED.get(suffix) or _others().get(suffix)


def as_text(content: bytes) -> str | None:
    """Return *content* as the text that encodes to the same bytes, None where it is no UTF-8 text."""
    try:
        return None if b"\0" in content else content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def served_type(name: str, text: str | None) -> str:
    """Return the media type that a file is served with: what its name tells, else what its content is."""
    return media_type(name) or (BINARY if text is None else TEXT)
