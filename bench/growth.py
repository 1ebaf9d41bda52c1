"""Generates more fragments in the style of a library; each depends only on the seed and its number."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sources import Document, Source
from zipf import YAML_WORDS, Vocabulary, count_words, cut_text

BLOCK = 1_000
"""Fragments in one set of folders; names are unique within it."""

KEPT = 0.35
"""Share of the words in a template's scenarios, capabilities and description that are kept."""

TOPIC_WORDS = 6
SHORT_BODY = 800
"""Characters kept of a template's body if bodies are short: about 1 KB per file with its front matter."""


@dataclass(frozen=True, slots=True)
class Template:
    """A fragment of the library, with its texts cut so that words can be replaced (`cut_text`)."""

    category: str
    topic: tuple[str, ...]
    description: tuple[str, ...]
    capabilities: tuple[tuple[str, ...], ...]
    scenarios: tuple[tuple[str, ...], ...]
    body: tuple[str, ...]


class Growth:
    """Makes the fragments that a library would have if it grew. The same sources and seed make the same ones."""

    def __init__(self, sources: Sequence[Source], *, seed: int, short: bool) -> None:
        self._seed = seed
        self._short = short
        self._first = len(sources)
        self._templates = [make_template(source, short=short) for source in sources]
        fields = [text for one in self._templates for text in (one.description, *one.capabilities, *one.scenarios)]
        whole = [cut_text(source.body) for source in sources]
        self._field_words = Vocabulary(count_words(fields) or count_words(whole))
        self._body_words = Vocabulary(count_words(whole))

    def fragments(self, start: int, stop: int) -> Iterator[tuple[Document, str]]:
        """Yield the fragments numbered from *start* to *stop* - 1 and their texts; *start* must be a multiple of BLOCK.

        Numbers below the count of the sources belong to the sources and are skipped.
        """
        for begin in range(start, stop, BLOCK):
            taken: set[str] = set()
            for number in range(max(begin, self._first), min(begin + BLOCK, stop)):
                yield self._fragment(number, taken)

    def _fragment(self, number: int, taken: set[str]) -> tuple[Document, str]:
        chance = random.Random(f"{self._seed}/{number}")  # noqa: S311 - nothing secret
        template = chance.choice(self._templates)
        own = chance.sample(template.topic, min(2, len(template.topic)))
        drawn = [word for word in self._field_words.draw(chance, 2 * TOPIC_WORDS) if word.isalpha()][:TOPIC_WORDS]
        topic = list(dict.fromkeys(word.casefold() for word in [*own, *drawn]))
        title = chance.sample(topic, min(len(topic), chance.randint(2, 4)))
        words = topic * 2 + self._field_words.draw(chance, 30)
        document = Document(
            path=f"{template.category}/set-{number // BLOCK:04}/{_free_name('-'.join(title), taken)}.md",
            title=" ".join(word.capitalize() for word in title),
            description=fill(template.description, words, chance),
            tags=tuple(chance.sample(topic, chance.randint(min(3, len(topic)), len(topic)))),
            capabilities=_filled(template.capabilities, words, chance),
            scenarios=_filled(template.scenarios, words, chance),
            tokens=0,
        )
        body = f"# {document.title}\n\n{self._body(template, topic, chance)}"
        document = replace(document, tokens=len(body) // 4)
        return document, f"{front_matter(document)}\n{body}"

    def _body(self, template: Template, topic: Sequence[str], chance: random.Random) -> str:
        """Return the template's body with new content words: about half drawn, the rest its own and the topic's."""
        pieces = list(template.body)
        places = len(pieces) // 2
        if places:
            words = self._body_words.draw(chance, places // 2 + 1)
            words += chance.choices(template.body[1::2], k=places // 3 + 1)
            words += [*topic] * (1 + places // 100)
            pieces[1::2] = chance.choices(words, k=places)
        return "".join(pieces)


def make_template(source: Source, *, short: bool) -> Template:
    """Return *source* as a template, with a short body if *short*."""
    document, body = source.document, source.body
    if short and len(body) > SHORT_BODY:
        body = body[: body.rfind("\n", 0, SHORT_BODY) + 1] or body[:SHORT_BODY]
    words = [word for text in (document.title, *document.tags) for word in cut_text(text)[1::2]]
    return Template(
        category=document.category,
        topic=tuple(dict.fromkeys(word for word in words if word.isalpha() and word.casefold() not in YAML_WORDS)),
        description=tuple(cut_text(document.description)),
        capabilities=tuple(tuple(cut_text(text)) for text in document.capabilities),
        scenarios=tuple(tuple(cut_text(text)) for text in document.scenarios),
        body=tuple(cut_text(body)),
    )


def fill(layout: Sequence[str], words: Sequence[str], chance: random.Random) -> str:
    """Return the text of *layout*; keep KEPT of its words on average and replace the others with some of *words*."""
    pieces = list(layout)
    for place in range(1, len(pieces), 2):
        if chance.random() >= KEPT:
            pieces[place] = chance.choice(words)
    return "".join(pieces)


def front_matter(document: Document) -> str:
    """Return the front matter of *document*, in the form that the library uses."""
    lines = ["---", f"id: {document.name}", f"title: {document.title}"]
    lines += [f"description: {_quoted(document.description)}", f"category: {_singular(document.category)}"]
    lines += [f"tags: [{', '.join(document.tags)}]"]
    for key, texts in (("capabilities", document.capabilities), ("useWhen", document.scenarios)):
        if texts:
            lines += [f"{key}:", *(f"  - {_quoted(text)}" for text in texts)]
    return "\n".join([*lines, f"estimatedTokens: {document.tokens}", "---", ""])


def _filled(layouts: Sequence[Sequence[str]], words: Sequence[str], chance: random.Random) -> tuple[str, ...]:
    return tuple(dict.fromkeys(fill(layout, words, chance) for layout in layouts))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _singular(folder: str) -> str:
    return folder.removesuffix("s")


def _free_name(name: str, taken: set[str]) -> str:
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    taken.add(free)
    return free
