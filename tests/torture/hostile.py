"""Libraries that somebody made to break what reads them: each is read in bounded time and memory, and said to be odd.

A library holds one good fragment beside what is hostile. It survives a build where that ends in time with exit code 0,
in little memory, without a traceback, and the good fragment is found. Texts are long runs of what patterns trip over.
"""

import json
import os
import random
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from torture import Case, Lost, Skipped, Wrong

SECONDS = 60
MOST_MEMORY = 1 << 30
"""Bytes of address space of each process of a build."""

TEXT = 1_000_000
"""Characters of a hostile text: a little below the bytes that are read."""

FRONT = 60_000
GOOD = "---\ntitle: Good\ntags: [good]\nuseWhen: [Retrying a call]\n---\n\n# Good\n\nRetry.\n"
UNITS = (
    *("[", "](", "[a](b.md) ", "![", "`", "```\n", "~~~\n", "# ", "#", "\n# ", "\n- ", "> ", "|", "<", "<a ", "*", "_"),
    *("\t", " ", "\n", "a ", "**→ Fragment:** `", "orchestr8://skills/x ", "1. ", "&", "!", "'", '"', ": ", "\n---\n"),
    *("e\u0301", "😀", "-", ".", "/", "aB", "a-", "{{", "$ARGUMENTS", "<!--", "漢", "漢a", "한aB", "\u202e", "\u200d"),
    *("\x0b", "\u2028", "c++ ", "c#", "İ", "ß", "Ⅷa", "`a.md", "+", "=", "@", "\\", "ﬁ", "\u00ad", "0x", "*:"),
)

Make = Callable[[Path], None]


def cases(seed: int, *, bounded: bool) -> Iterator[Case]:
    """Yield libraries; with *bounded* every hostile place, and a few of the texts."""
    for name, make in {**FILES, **TREES}.items():
        yield Case("hostile library", name, _built(make))
    chance = random.Random(seed)
    units = [*UNITS, *("".join(chance.choices(UNITS, k=chance.randint(2, 3))) for _ in range(len(UNITS)))]
    for unit in chance.sample(units, 12) if bounded else units:
        yield Case("hostile text", repr(unit), _built(_texts(unit)))


def _built(make: Make) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        library = folder / "library"
        (library / "skills").mkdir(parents=True)
        (library / "skills" / "good.md").write_text(GOOD, encoding="utf-8")
        make(library / "skills")
        index = str(folder / "index.db")
        said = _command("build", str(library), "-o", index, "--full")
        if "Traceback" in said:
            raise Lost(said[-400:])
        found = json.loads(_command("search", "retrying a call", "--db", index, "--json"))
        if "orchestr8://skills/good" not in [one["uri"] for one in found["matches"]]:
            raise Wrong("the good fragment is not found")

    return run


def _command(*arguments: str) -> str:
    """Return what a command prints.

    Raises:
        Lost: It does not end, or ends with another exit code than 0.
    """
    command = [sys.executable, "-m", "orchestr8_sqlite", *arguments]
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            timeout=SECONDS,
            preexec_fn=_bound_memory,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        raise Lost(f"{arguments[0]} takes more than {SECONDS} s") from None
    if done.returncode:
        raise Lost(f"exit code {done.returncode}: {done.stderr[-400:]}")
    return done.stdout if arguments[0] == "search" else done.stdout + done.stderr


def _bound_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


def _run_of(unit: str, length: int) -> str:
    return (unit * (length // len(unit) + 1))[:length]


def _texts(unit: str) -> Make:
    """Return what writes runs of *unit* into every place of a file where text can stand."""

    def make(folder: Path) -> None:
        run, short = _run_of(unit, TEXT // len(unit.encode()) * len(unit)), _run_of(unit, FRONT // 2)
        line = " ".join(run.split()) or "x"
        quoted = " ".join(short.split()).replace("'", "''")
        _write(folder / "body.md", f"# T\n\n{run}")
        _write(folder / "heading.md", f"# {line[: TEXT // 2]} #\n\n## Related\n- {line[: TEXT // 4]}\n")
        _write(folder / "value.md", f"---\ntitle: T\nx: {' '.join(short.split())} y\n---\n# T\n")
        _write(folder / "fields.md", f"---\ntitle: '{quoted[:20_000]}'\ntags: '{quoted[:20_000]}'\n---\n# T\n")
        _write(
            folder / "lists.md", f"---\nuseWhen:\n- '{quoted[:20_000]}'\ndescription: '{quoted[:20_000]}'\n---\n# T\n"
        )

    return make


def _write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "surrogatepass"))


def _file(text: str | bytes) -> Make:
    content = text if isinstance(text, bytes) else text.encode()

    def make(folder: Path) -> None:
        (folder / "odd.md").write_bytes(content)

    return make


def _bomb(level: str) -> str:
    """Return front matter in which every level names the one before nine times."""
    before = "a: &a {x: 1}\n" if "<<" in level else "a: &a [x]\n"
    names = "abcdefghijklm"
    levels = (f"{to}: &{to} {level.replace('…', ', '.join([f'*{of}'] * 9))}\n" for of, to in pairwise(names))
    return f"---\ntitle: T\n{before}{''.join(levels)}tags: *m\n---\n# T\n"


FILES: dict[str, Make] = {
    "aliases that unfold": _file(_bomb("[…]")),
    "merge keys that unfold": _file(_bomb("{<<: […]}")),
    "an alias of itself": _file("---\nx: &a [*a]\ny: &b {<<: *b}\n---\n# T\n"),
    "10,000 lists in one another": _file("---\nx: " + "[" * 10_000 + "]" * 10_000 + "\n---\n# T\n"),
    "300 levels of indentation": _file("---\n" + "".join(" " * n + "a:\n" for n in range(300)) + "---\n# T\n"),
    "a number of 60,000 digits": _file("---\nestimatedTokens: " + "1" * 60_000 + "\n---\n# T\n"),
    "a number of base 60": _file("---\nn: 1" + ":59" * 20_000 + "\n---\n# T\n"),
    "8,000 lines to repair": _file("---\n" + "a: b: c\n" * 8_000 + "---\n# T\n"),
    "quotes without end": _file('---\na: "' + "x\n " * 16_000 + "\n---\n# T\n"),
    "a million tags": _file("---\ntags:\n" + "- t\n" * 1_000_000 + "---\n# T\n"),
    "9,000 tags in a line": _file("---\ntags: '" + ",".join(map(str, range(9_000))) + "'\n---\n# T\n"),
    "100 MB of text": lambda folder: _sized(folder / "odd.md", 100_000_000),
    "70,000 links": _file("# T\n\n" + " ".join(f"[a](b{n}.md)" for n in range(70_000))),
    "10,000 quotes in one another": _file("# T\n\n" + "> " * 10_000 + "x\n"),
    "Latin-1": _file("# Ünï".encode("latin-1")),
    "half of a UTF-16 pair": _file(b"\xff\xfe\x00\xd8"),
    "surrogates": _file(b"# \xed\xa0\x80"),
    "NUL": _file(b"# a\0b"),
}


def _sized(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def _deep(folder: Path) -> None:
    for _ in range(700):  # whoever cleans up behind must get through
        folder /= "a"
        try:
            folder.mkdir()
        except OSError:  # the system allows no longer path
            return


def _linked(folder: Path) -> None:
    for name, target in {
        "loop.md": "loop.md",
        "self": ".",
        "up": "../..",
        "secret.md": "/etc/passwd",
        "zero.md": "/dev/zero",
        "root": "/",
    }.items():
        (folder / name).symlink_to(target)


def _pipes(folder: Path) -> None:
    skill = folder / "skill"
    skill.mkdir()
    (skill / "SKILL.md").write_text("---\nname: skill\ndescription: Does it\n---\nText\n", encoding="utf-8")
    os.mkfifo(folder / "pipe.md")
    os.mkfifo(skill / "pipe.txt")


def _devices(folder: Path) -> None:
    try:
        os.mknod(folder / "device.md", 0o600 | 0o020000, os.makedev(1, 5))
    except OSError as problem:
        raise Skipped(f"no device can be made: {problem.strerror}") from None


def _named(folder: Path) -> None:
    names = (
        "a\nb.md",
        "a\x1b[31m.md",
        "a\u202egm.md",
        "..md",
        "...md",
        "Case.md",
        "case.md",
        "n" * 250 + ".md",
        "CON.md",
    )
    for name in names:
        (folder / name).write_text("# X\n\nText.\n", encoding="utf-8")
    for raw in (b"\xff.md", b"caf\xe9.md"):
        with suppress(OSError), open(os.fsencode(folder) + b"/" + raw, "w", encoding="utf-8") as file:
            file.write("# X\n")


def _large_skill(folder: Path) -> None:
    skill = folder / "skill"
    skill.mkdir()
    (skill / "SKILL.md").write_text("---\nname: skill\ndescription: Does it\n---\nText\n", encoding="utf-8")
    _sized(skill / "hole.bin", 1 << 40)


def _many(folder: Path) -> None:
    for number in range(3_000):
        (folder / f"f{number}.md").write_text(f"# F{number}\n", encoding="utf-8")


TREES: dict[str, Make] = {
    "700 folders in one another": _deep,
    "links that loop or lead out": _linked,
    "pipes": _pipes,
    "devices": _devices,
    "names that forge lines or are no text": _named,
    "a skill of a terabyte": _large_skill,
    "3,000 files": _many,
}
