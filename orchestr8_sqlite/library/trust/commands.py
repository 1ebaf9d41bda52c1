"""Finds commands that run what they download, or that send secrets away."""

import re
from collections.abc import Iterator

from orchestr8_sqlite.library.trust.occurrences import places_of, statements_around
from orchestr8_sqlite.library.trust.phrases import LONGEST, Phrase

DOWNLOADERS = rb"curl|wget|iwr|irm|invoke-webrequest|invoke-restmethod|downloadstring"
SIGNS = (b"curl", b"wget", b"iex", b".ssh/")
"""Every such command has one of these: PowerShell runs downloads with iex, and other senders matter only for keys."""

STDIN = rb"(?:\s{1,9}-u?(?=\s|$))?(?=\s{0,9}(?:[\n;&|)\"'`]|$))"
"""Text after an interpreter that runs its standard input."""

INTERPRETER = (
    rb"(?:sudo\s{1,9}(?:-\S{1,20}\s{1,9}){0,3})?(?:/(?:usr/)?(?:local/)?bin/)?(?:env\s{1,9})?"
    rb"(?:(?:ba|z|k|da|fi|a)?sh\b(?![\w./-])(?!\s{1,9}-\w{0,3}c\b)|iex\b|invoke-expression\b"
    rb"|(?:python[\d.]{0,5}|node|perl|ruby|php|pwsh|powershell)" + STDIN + rb")"
)
FETCH_AND_RUN = re.compile(
    rb"(?P<sub>(?:\b(?:ba|z|k|da|fi)?sh\b(?:\s{1,9}-\w{1,9}){0,3}|\b(?:source|eval|iex|invoke-expression)|(?<=\s)\.)"
    rb"\s{1,9}[\"']?(?:<\(|\$\(|`|\(+)\s{0,9}(?:sudo\s{1,9})?(?:new-object\s{1,9}[\w.]{1,40}\)\.)?"
    rb"(?:" + DOWNLOADERS + rb")\b)"
    rb"|(?P<get>(?<![\w-])(?:" + DOWNLOADERS + rb")(?![\w-]))"
    rb"|(?P<run>\|&?\s{0,9}(?:\\\n\s{0,9})?" + INTERPRETER + rb")"
    rb"|(?P<end>;)"
)  # fmt: skip
RUNNING = re.compile(rb"[|(`]")
ADDRESS = re.compile(rb"://|\$|\b[\w-]{1,60}\.[a-z]{2,6}\b")
"""A source that a real command names; `curl | bash` alone only names the habit."""

UNSAFE = re.compile(rb"http://(?!localhost|127\.0\.0\.1|\[::1\])|https?://\d{1,3}\.\d{1,3}\.\d{1,3}\.\d")
SENDER = re.compile(rb"(?<![\w-])(?:curl|wget|nc|ncat)(?![\w-])")
HOME = rb"(?:~|\$\{?home\}?|/(?:root|home/[\w.-]{1,40})|@[\w./~-]{0,60})/"
SENSITIVE = re.compile(
    HOME + rb"\.(?:ssh/(?:id_|\*)|aws/credentials|netrc\b|gnupg/|kube/config)|/etc/shadow|\$\((?:env|printenv)\)"
    rb"|\b(?:env|printenv)\s{0,9}\||\bcat\s{1,9}[\w./~-]{0,60}\.env\b|@[\w./~-]{0,60}\.env\b"
)


def find_commands(content: bytes) -> Iterator[Phrase]:
    """Yield the commands in *content*, UTF-8 in lower case."""
    for start, end in statements_around(content, places_of(content, SIGNS), LONGEST):
        statement = content[start:end]
        if RUNNING.search(statement):
            for begin, stop in _fetched_and_run(statement):
                command = statement[begin:stop]
                if ADDRESS.search(command):
                    code = "unsafe-download-run" if UNSAFE.search(command) else "download-run"
                    yield Phrase(code, start + begin, start + stop)
        if SENDER.search(statement) and SENSITIVE.search(statement):
            yield Phrase("exfiltration", start, end)


def _fetched_and_run(statement: bytes) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each place where a statement downloads something and runs it."""
    begun = -1
    for found in FETCH_AND_RUN.finditer(statement):
        if found["end"] is not None:
            begun = -1
        elif found["get"] is not None:
            begun = found.start() if begun < 0 else begun
        elif found["sub"] is not None:
            yield found.start(), len(statement)
            return
        elif begun >= 0:
            yield begun, found.end()
            begun = -1
