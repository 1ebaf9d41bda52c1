"""Every weight and threshold of the default ranker, with the measurement that set it.

A figure in parentheses is what mean nDCG@10 over the three judged sets of docs/ranking.md loses without the value.
Those of forms, name, feedback and everyday words are in the table of losses there (`make eval`); those of the evidence
in a fragment were measured the same way, on indexes built with the other value. The scores lie on a plateau: halving or
doubling one weight moves the mean by less than .01, unless its text says otherwise.
"""

import math

NAME, TITLE, DESCRIPTION, SCENARIO, CAPABILITY, TAG = 32, 16, 8, 4, 2, 1
"""Bits of `fields`: the fields that hold a word."""

TOPIC = NAME | TITLE | TAG
"""The fields that say what a fragment is about."""

FIELD_WEIGHTS = {NAME: 6.0, TITLE: 4.0, TAG: 4.0, CAPABILITY: 2.0, SCENARIO: 2.0, DESCRIPTION: 2.0}
"""Evidence that a field gives if it holds a word, no matter how often."""

LENGTH_SHARE = 0.5
"""How strongly a field's length, relative to the typical one, lowers its weight: from 0, not at all, to 1 (.009)."""

BODY_WEIGHT = 150
"""Thousandths of its rarity that a word earns if FTS5 finds it in the body, on top of what its fields earn (.010). How
often it occurs there makes no measurable difference (.001)."""

BODY_SPREAD = 0.1
"""A word that more than this share of the fragments hold is not searched for in bodies: it says too little there, and
would be most of what a request reads."""

BODY_FEW = 10
"""A word that at most this many fragments hold is not too common for that, however small the library is."""

SATURATION = 4.0
"""Evidence x earns x / (x + SATURATION) of a word's rarity: the first field counts most."""

NAME_BONUS = 0.4
"""Share of its sum that a fragment gains if the request covers its whole name (.012)."""

EVERYDAY = 0.7
"""Share of its rarity that a word of everyday speech (words/everyday.txt) earns (.003, all of it on long requests)."""

FACTORS = {"joined": 0.9, "synonym": 0.8, "typo": 0.9, "related": 0.7, "part": 0.5}
"""How much another form counts if the word itself counts 1: two neighbours written as one word, another name (.017), a
repaired typo (.011), what may meet the need (.035), a keyword that contains the word."""

TERM = 0.5
"""Share of its rarity that the best word of a caller's term earns; less if all terms together could earn more than this
share of what the request can. From .4 to .6, the dev sets vary by less than .005."""

CONFIRMED = 1.3
"""How much a word of the request counts if a term names it too (.003 on the dev sets)."""

RARITY_BOUND = 1.0
"""A form counts as at most this many times as rare as the word that it stands in for (.011)."""

DECAY = 0.85
"""How much each further form of a need counts, relative to the one before (.004)."""

FEEDBACK = 0.3
"""Largest share of the best sum that a fragment can gain by words that the best fragments have in common (.020)."""

FEEDBACK_SEEDS = 20
"""Number of best fragments from which such words are learnt; each votes for its words with its sum."""

FEEDBACK_WORDS = 10
FEEDBACK_VOTES = 0.1
"""Most words that are learnt from their names, titles and tags; each needs more than this share of the votes."""

FOCUS = 0.6
"""Share of its sum that the best fragment gains by its focus: what the request meets of it, by every form of each word
and not only the best, relative to what it says in all (the norm of its weights). The others gain in proportion. It adds
.004 to the mean of the ten figures in docs/ranking.md; from .3 to 1, that varies by less than .001."""

LEAST_NORM = 1000
"""Least norm of a fragment's weights, that of one word that earns its whole rarity: otherwise, the fewer words a
fragment has, the more it would be about any of them."""

RAISED = 30
"""Number of best fragments that can gain by their names, learnt words and focus; 100 makes no measurable difference."""

LEAST_WORDS, MOST_WORDS = 24, 64
"""Words of a request that always count, its rarest, and the most that can."""

MOST_HELD = 5
"""Words between these count while all together are held by at most this many times the library's fragments. So a
request of 1,000 characters takes as long as one of 24 common words, and of 98 long ones that nobody tuned on, half read
more than 50: nDCG@10 is .577 instead of .484 with 24 words (FTS5 bm25 over all words: .552)."""

COVERS = {"typo": 0.6, "related": 0.5}
"""How much of a word a form covers, times its factor, when coverage is computed; 1 if it is not listed."""

DETAIL_COVERS = 0.8
"""The same for a word that capabilities, scenarios or the description hold, but no field of the topic."""

BODY_COVERS = 0.5
"""The same for a word that only the body holds."""

EVERYDAY_COVERS = 0.05
"""How much an everyday word counts there, relative to others. With these five values, coverage tells requests with an
answer from those without: AUC .99 on both dev sets, and .98 on the requests of the shipped library, half of whose
foreign ones come from neighbouring fields. If every word found counts whole, AUC is .96, .93 and .97."""

IDEAL_WORDS = 6
"""Number of a request's rarest words by which score and coverage are measured: an answer need not meet all of a long
request (AUC of telling answerable requests of metatool from foreign ones: .89; measured by all words: .83)."""

FURTHER_COVERS = 0.1
"""How much the other words of a long request count for coverage, relative to those: the more words, the more of them
any text holds."""

BODIES_COVER = 1.5
"""The most that words cover which only the body holds, relative to the request's rarest word: a long body holds some of
any words. Of 60 long requests from other fields, these two values let 9, 15 and 6 pass on three libraries, where 29, 29
and 51 passed without them. Of those with an answer they refuse .06 and .15 more on two libraries, with terms none and
.07; short requests are told apart as well as before."""

HALF_SCORE = 0.5
"""A sum of s times the rarity of those words is printed as 100 * s / (s + HALF_SCORE). So the default bound of 10 is at
s = .06; cutting at .13 loses .016 on long requests."""

UNKNOWN_WORD = 0.5
"""Share of the highest rarity that a word counts there if the library lacks it."""

ENOUGH = 2
"""Number of fragments that tier 2 must find; with fewer, tier 3 is asked. Source: shared/seeds/index-lookup.md."""


def rarity_of(size: int, count: int) -> float:
    """Return the inverse document frequency of a word that *count* of *size* fragments hold."""
    return math.log(1 + (size - count + 0.5) / (count + 0.5))


def topic_rarity_of(size: int, count: int) -> float:
    """Return how rare a word is if *count* of *size* fragments hold it in the name, the title or a tag."""
    return math.log((size + 0.5) / (count + 0.5))


def thousandths(points: float) -> int:
    """Return the share of a word's rarity that *points* of evidence earn, in thousandths, at least 1."""
    return max(1, round(1000 * points / (points + SATURATION)))
