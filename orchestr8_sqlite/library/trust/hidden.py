"""Finds characters that readers do not see, or that show text in a different order than programs read it.

Source: Trojan Source (CVE-2021-42574); Unicode, UAX #9 (bidirectional controls) and UTS #51 (sequences of emoji).
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

BIDI = "\u202a-\u202e\u2066-\u2069"
MARKS = "\u200e\u200f\u061c"
JOINERS = "\u200c\u200d"
TAGS = "\U000e0000-\U000e007f"
SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
BLANK = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
)

TRIGGER = re.compile(
    rb"[\xc2\xcd\xd8\xe1-\xe3\xef\xf3]"
    rb"(?:(?<=\xe2)(?:\x80[\x8b-\x8f\xaa-\xae]|\x81[\xa0-\xaf])|(?<=\xef)(?:\xbb\xbf|\xb8[\x80-\x8e]|\xbe\xa0|\xbf[\xb9-\xbb])"
    rb"|(?<=\xef)\xb8\x8f\xef\xb8|(?<=\xf3)\xa0|(?<=\xc2)\xad|(?<=\xcd)\x8f|(?<=\xd8)\x9c|(?<=\xe3)\x85\xa4"
    rb"|(?<=\xe1)(?:\x85[\x9f\xa0]|\x9e[\xb4\xb5]|\xa0[\x8b-\x8e]))"
)
"""UTF-8 prefix of such a character; matches U+FE0F, common in emoji, only if another selector follows."""

RUN = re.compile(f"[{BIDI}{MARKS}{JOINERS}{TAGS}{SELECTORS}{BLANK}]+")
IS_BIDI = re.compile(f"[{BIDI}]")
IS_TAG = re.compile(f"[{TAGS}]+")
IS_SELECTOR = re.compile(f"[{SELECTORS}]")
RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001eeff]")
OPENING, CLOSING = "\u202a\u202b\u202d\u202e\u2066\u2067\u2068", "\u202c\u2069"

FLAG = "\U0001f3f4"
"""Black flag; with tags after it, the flag of a region."""

ENDING_TAG = "\U000e007f"
LONGEST_FLAG = 8
LONG_RUN = 8
"""Fewest characters in a run that count as hidden text; no script needs so many in a row."""

FIRST_JOINED = "\u0600"
"""First code point of the scripts and emoji that use joiners."""

NEAR = 200
"""Characters before and after a place that are checked for its script."""


MOST_WEIGHED = 500
"""Runs whose surroundings are checked; for further runs, the worst is assumed."""


class Hidden(NamedTuple):
    """Hidden characters: the code of the finding, their position in the text, and the characters."""

    code: str
    start: int
    characters: str


def find_hidden(text: str) -> Iterator[Hidden]:
    """Yield the hidden characters of *text*, except those that its script needs."""
    for number, run in enumerate(RUN.finditer(text)):
        characters = run[0]
        if IS_BIDI.search(characters):
            is_needed = number < MOST_WEIGHED and _is_right_to_left(text, run.start())
            code = "bidi-text" if is_needed else "hidden-bidi"
        elif _is_hidden_text(characters, text[max(0, run.start() - 1) : run.start()]):
            code = "hidden-text"
        elif _is_in_sequence(characters, text, run) or (number < MOST_WEIGHED and _is_mark(characters, text, run)):
            continue
        else:
            code = "invisible-character"
        yield Hidden(code, run.start(), characters)


def _is_right_to_left(text: str, start: int) -> bool:
    """Tell whether the line has right-to-left script and closes every control that it opens."""
    begin = text.rfind("\n", max(0, start - NEAR), start) + 1 or max(0, start - NEAR)
    end = text.find("\n", start, start + NEAR)
    line = text[begin : end if end >= 0 else start + NEAR]
    opened, closed = (sum(map(line.count, signs)) for signs in (OPENING, CLOSING))
    return opened == closed and RIGHT_TO_LEFT.search(line) is not None


def _is_hidden_text(characters: str, before: str) -> bool:
    if IS_TAG.search(characters):
        is_flag = before == FLAG and IS_TAG.fullmatch(characters) and characters.endswith(ENDING_TAG)
        return not (is_flag and len(characters) <= LONGEST_FLAG)
    return len(characters) >= LONG_RUN or len(IS_SELECTOR.findall(characters)) > 1


def _is_mark(characters: str, text: str, run: re.Match[str]) -> bool:
    """Tell whether the characters are direction marks near right-to-left text."""
    near = max(0, run.start() - NEAR), run.end() + NEAR
    return characters in MARKS and RIGHT_TO_LEFT.search(text, *near) is not None


def _is_in_sequence(characters: str, text: str, run: re.Match[str]) -> bool:
    """Tell whether the characters join or vary their neighbours, as in many scripts and emoji."""
    before, behind = text[max(0, run.start() - 1) : run.start()], text[run.end() : run.end() + 1]
    plain = IS_SELECTOR.sub("", characters)
    if IS_TAG.fullmatch(characters) or not plain:  # a flag, or one selector
        return bool(before) and (characters < "\U000e0100" or before >= "\u2e80")
    return plain in JOINERS and before >= FIRST_JOINED and behind >= FIRST_JOINED


def name_hidden(characters: str) -> str:
    """Return a description of the characters; tags are given as the text that they spell."""
    tags = "".join(chr(ord(one) - 0xE0000) for one in characters if "\U000e0020" <= one < ENDING_TAG)
    if tags:
        return f"{len(characters)} tag characters that spell {tags[:60]!r}"
    points = list(dict.fromkeys(characters))
    named = ", ".join(f"U+{ord(one):04X} {unicodedata.name(one, 'unnamed').lower()}" for one in points[:3])
    return f"{len(characters)} characters: {named}" if len(characters) > 1 else named
