"""Code blocks of Markdown documents, and what their info strings ask of a check.

The info string of a fence is a language and words: `continued` joins a block to the one of its language before it,
`file=NAME` makes it a file of the document's project, `syntax` has it only parsed, `unchecked` not looked at;
for SQL a word names the dialect.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt

ALIASES = {
    "bash": "bash", "sh": "bash", "shell": "bash", "py": "python", "js": "javascript", "jsx": "tsx",
    "ts": "typescript", "yml": "yaml", "tf": "hcl", "terraform": "hcl", "docker": "dockerfile", "rs": "rust",
    "cs": "csharp", "c++": "cpp", "rb": "ruby", "golang": "go", "md": "markdown", "makefile": "make", "txt": "text",
}  # fmt: skip
CONTINUED, SYNTAX, UNCHECKED, FILE = "continued", "syntax", "unchecked", "file="
_BLOCKS_ONLY = MarkdownIt("commonmark").disable("inline")


@dataclass(frozen=True, slots=True)
class Block:
    """A code block, with the line of its fence; `file` is its name in the document's project, if it is part of one."""

    document: Path
    line: int
    language: str
    words: frozenset[str]
    file: str
    text: str

    @property
    def place(self) -> str:
        """Return where the block is, as `name:line`."""
        return f"{self.document.parent.name}/{self.document.name}:{self.line}"

    @property
    def only_syntax(self) -> bool:
        """Tell whether the block is to be parsed and no more."""
        return SYNTAX in self.words


@cache
def read_blocks(document: Path) -> tuple[Block, ...]:
    """Return the code blocks of a document in their order, continuations joined to what they continue.

    The first line of a joined text still has the number of its own fence, for the places of problems.
    """
    blocks: list[Block] = []
    for block in _fences(document):
        earlier = next((n for n in reversed(range(len(blocks))) if blocks[n].language == block.language), None)
        if CONTINUED in block.words and earlier is not None:
            blocks[earlier] = replace(blocks[earlier], text=f"{blocks[earlier].text}\n{block.text}")
        else:
            blocks.append(block)
    return tuple(blocks)


def projects(blocks: Iterable[Block]) -> dict[Path, list[Block]]:
    """Return the blocks that are files of a project, by document."""
    found: dict[Path, list[Block]] = {}
    for block in blocks:
        if block.file:
            found.setdefault(block.document, []).append(block)
    return found


def _fences(document: Path) -> Iterator[Block]:
    text = document.read_text(encoding="utf-8")
    body, before = _without_front_matter(text)
    for token in _BLOCKS_ONLY.parse(body):
        if token.type == "fence" and token.map is not None:
            language, *words = token.info.split() or [""]
            name = next((word.removeprefix(FILE) for word in words if word.startswith(FILE)), "")
            yield Block(
                document,
                token.map[0] + before + 1,
                ALIASES.get(language.lower(), language.lower()),
                frozenset(word for word in words if not word.startswith(FILE)),
                name,
                token.content,
            )


def _without_front_matter(text: str) -> tuple[str, int]:
    """Return the text below the front matter and the number of lines above it."""
    if not text.startswith("---\n"):
        return text, 0
    end = text.index("\n---", 4) + 4
    return text[end:], text.count("\n", 0, end)
