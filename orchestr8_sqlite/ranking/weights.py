"""Every weight and threshold of the default ranker, with the measurement that set it.

The figure behind a value is what mean nDCG@10 over the three judged sets of docs/ranking.md loses without it. Those of
forms, name, feedback and everyday words are in its table of losses (`make eval`); those of the evidence in a fragment
were measured the same way on indexes built with the other value. The scores lie on a plateau: halving or doubling one
weight moves the mean by less than .01 unless it says otherwise.
"""

import math

NAME, TITLE, DESCRIPTION, SCENARIO, CAPABILITY, TAG = 32, 16, 8, 4, 2, 1
"""Bits of `fields`: where a word stands."""

TOPIC = NAME | TITLE | TAG
"""The fields that say what a fragment is about."""

FIELD_WEIGHTS = {NAME: 6.0, TITLE: 4.0, TAG: 4.0, CAPABILITY: 2.0, SCENARIO: 2.0, DESCRIPTION: 2.0}
"""Evidence that a field gives by holding a word, however often."""

LENGTH_SHARE = 0.5
"""How far a field's weight is divided by its length relative to the typical one (.009)."""

BODY_WEIGHT = 150
"""Thousandths of its rarity that a word earns by standing in the body, beside what its fields earn (.010 without
bodies). FTS5 tells whether it does; how often makes no difference that can be measured (.001)."""

BODY_SPREAD = 0.1
"""Share of the fragments above which a word is not looked for in bodies: it says too little there, and is most of
what a request would read."""

BODY_FEW = 10
"""Fragments that may hold a word, however few there are in all, without its being too common for that."""

SATURATION = 4.0
"""x of evidence earns x / (x + SATURATION) of a word's rarity: the first field counts most."""

NAME_BONUS = 0.4
"""Share of what it earns that a fragment gains whose name the request covers whole (.012)."""

EVERYDAY = 0.7
"""What a word of everyday speech (words/everyday.txt) earns of its rarity (.003, all of it on long requests)."""

FACTORS = {"joined": 0.9, "synonym": 0.8, "typo": 0.9, "related": 0.7, "part": 0.5}
"""What another form counts where the word itself counts 1: two neighbours written as one word, another name (.017),
a repaired typo (.011), what may meet the need (.035), a keyword that contains the word."""

TERM = 0.5
"""What the best word of a term that the caller adds earns of its rarity; less where all terms together could earn more
than this share of what the request can. From .4 to .6 the dev sets vary by less than .005."""

CONFIRMED = 1.3
"""What a word of the request counts that a term names too (.003 on the dev sets)."""

RARITY_BOUND = 1.0
"""How many times as rare as the word that it stands in for a form may count (.011)."""

DECAY = 0.85
"""What each further form of a need counts of the one before (.004)."""

FEEDBACK = 0.3
"""Share of the best sum that a fragment may gain by what the best fragments have in common (.020)."""

FEEDBACK_SEEDS = 20
"""Best fragments that are asked for what they have in common; their sums are their votes."""

FEEDBACK_WORDS = 10
FEEDBACK_VOTES = 0.1
"""Words of names, titles and tags that are learnt from them, each with more than this share of the votes."""

RAISED = 30
"""Best fragments that are looked at more closely: they may gain by their names and by what the best have in common.
With 100 nothing changes that can be measured."""

MOST_WORDS = 24
"""Words of a request that count, its rarest: a request of 1,000 characters would otherwise take a hundred times as long
as a usual one."""

COVERS = {"typo": 0.6, "related": 0.5}
"""How much a form covers of a word, times its factor, where it is asked how much of a request an answer covers."""

DETAIL_COVERS = 0.8
"""The same for a word that stands in capabilities, scenarios or the description, but in no field of the topic."""

BODY_COVERS = 0.5
"""The same for a word that stands in the body alone."""

EVERYDAY_COVERS = 0.05
"""What an everyday word counts there beside others. With these five, coverage tells requests with an answer from those
without with an AUC of .99 on both dev sets and of .98 on the requests of the shipped library, half of whose foreign
ones come from neighbouring fields; where every word found counts whole, of .96, .93 and .97."""

IDEAL_WORDS = 6
"""The rarest words of a request that its score and its coverage are measured by; a long one need not be met whole
(AUC of telling answerable requests of metatool from foreign ones: .89, and .83 measured by all words)."""

HALF_SCORE = 0.5
"""A sum of s times the rarity of those words is printed as 100 * s / (s + HALF_SCORE). The bound of 10 that requests
have by default so falls on s = .06: cutting at .13 loses .016 on long requests."""

UNKNOWN_WORD = 0.5
"""What a word that the library lacks counts there of the rarity of a word that no fragment holds."""

ENOUGH = 2
"""Fragments that tier 2 must find; with fewer, tier 3 is asked. Source: shared/seeds/index-lookup.md."""


def rarity_of(size: int, count: int) -> float:
    """Return the inverse document frequency of a word that *count* of *size* fragments hold."""
    return math.log(1 + (size - count + 0.5) / (count + 0.5))


def topic_rarity_of(size: int, count: int) -> float:
    """Return how rare a word is among names, titles and tags that *count* of *size* fragments hold it in."""
    return math.log((size + 0.5) / (count + 0.5))


def thousandths(points: float) -> int:
    """Return what *points* of evidence earn of a word's rarity, in thousandths; something at least."""
    return max(1, round(1000 * points / (points + SATURATION)))
