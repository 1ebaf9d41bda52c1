"""Detects a text's language by its commonest words or its script, to tell users in which language to ask a library."""

import re
from collections import Counter

COMMON_WORDS = {
    "English": "the and of to for with that when how your from this are not you",
    "German": "der die das und für mit wenn wie nicht ein eine ist von zu den",
    "French": "le la les des et pour avec quand dans une est pas sur du vous",
    "Spanish": "el los las y para con cuando cómo una por que del se su es",
    "Portuguese": "o os as e para com quando como uma não por que do da em",
    "Italian": "il lo gli e per con quando come una non che della di nel si",
    "Dutch": "de het een en voor met wanneer hoe niet van dat zijn op te is",
    "Russian": "и в не на что с как для при или это по из к от",
}
SCRIPTS = {"Japanese": "[\u3040-\u30ff]", "Korean": "[\uac00-\ud7af]", "Chinese": "[\u3400-\u9fff]"}
"""Tried in this order: Japanese comes before Chinese because it also uses Chinese characters."""

SCRIPT_SHARE = 0.1
"""Least share of the letters that must belong to a script."""

FEWEST, LEAST_SHARE = 8, 0.5
"""Least number of common words that must be found, and least share of them that must belong to one language."""

WORD = re.compile(r"[^\W\d_]+")
LANGUAGES_OF = {
    word: [language for language, words in COMMON_WORDS.items() if word in words.split()]
    for words in COMMON_WORDS.values()
    for word in words.split()
}


def language_of(text: str) -> str | None:
    """Return the English name of the language of most of *text*; None if it is unclear."""
    words = Counter(WORD.findall(text.casefold()))
    letters = sum(len(word) * count for word, count in words.items())
    for language, script in SCRIPTS.items():
        if len(re.findall(script, text)) > SCRIPT_SHARE * letters:
            return language
    found: Counter[str] = Counter()
    for word, languages in LANGUAGES_OF.items():
        for language in languages:
            found[language] += words[word]
    best, hits = max(found.items(), key=lambda item: item[1])
    return best if hits >= max(FEWEST, LEAST_SHARE * found.total()) else None
