"""Which fragments a prompt is surely about, although nobody asked for any.

Most prompts are about no fragment: thanks, an edit, an order to go on. A search would find something for them all the
same, since a few plain words are easily covered. So a suggestion needs more than an answer that stands: evidence by
words that carry a topic.
"""

import re
from collections.abc import Sequence

from orchestr8_sqlite.index.catalog import Catalog
from orchestr8_sqlite.model.parameters import make_request
from orchestr8_sqlite.model.requests import SCHEME, Candidate
from orchestr8_sqlite.ranking.explanation import HeldForm, coverage, covered_share, held_forms
from orchestr8_sqlite.ranking.lookup import find
from orchestr8_sqlite.ranking.reading import Reading, read_request
from orchestr8_sqlite.ranking.weights import BODY_COVERS, rarity_of
from orchestr8_sqlite.text.wordlists import everyday_words

SUGGESTED = 2
"""Most fragments to suggest."""

TOPIC_WORDS = 2
"""Least number of words with a topic that a fragment covers better than by its body: a single one, such as `screen` or
`lunch`, says too little."""

EVIDENCE = 0.4
"""Least evidence times coverage. docs/suggest.md has what these two bounds save and what they cost."""

END_LENGTH = 1000
"""Characters at each end of a long prompt that count; what lies between is mostly pasted."""

CONTRACTION = re.compile(r"\b[a-z]+['’](?:d|ll|m|re|s|t|ve)\b", re.IGNORECASE)
"""Such words as `I'll`: each makes two keywords, which would pass for words with a topic."""


def find_suggestions(catalog: Catalog, prompt: str) -> tuple[Candidate, ...]:
    """Return the fragments that *prompt* is surely about, best first: none for most prompts, SUGGESTED at most.

    A slash command, and a prompt that names a URI of a library, need no suggestion.

    Raises:
        CatalogError: The index is damaged.
    """
    text = prompt.strip()
    if len(text) > 2 * END_LENGTH:
        text = f"{text[:END_LENGTH]} {text[-END_LENGTH:]}"
    asked = CONTRACTION.sub(" ", text).replace("\0", " ").strip()
    if not asked or text.startswith("/") or f"{SCHEME}://" in text:
        return ()
    result = find(catalog, make_request({"query": asked}), quick=False, lists=False)
    if not result.confident:
        return ()
    best = result.candidates[:SUGGESTED]
    with catalog.reading():
        reading = read_request(catalog.reader, result.keywords, catalog.size)
        held = held_forms(catalog.reader, reading, [candidate.fragment_id for candidate in best])
    return tuple(one for one in best if _is_sure(reading, held[one.fragment_id]))


def _is_sure(reading: Reading, held: Sequence[HeldForm]) -> bool:
    """Tell whether what a fragment holds of a request is enough to suggest it.

    Evidence is the covered rarity of words with a topic; 1 is a word that no other fragment holds.
    """
    covered, everyday = coverage(reading, held), everyday_words()
    topics = [word for word in reading.words if word.text not in everyday and not word.text[0].isdigit()]
    if sum(covered[word.text] > BODY_COVERS for word in topics) < TOPIC_WORDS:
        return False
    evidence = sum(word.rarity * covered[word.text] for word in topics) / rarity_of(reading.size, 1)
    return evidence * covered_share(reading, [held]) >= EVIDENCE
