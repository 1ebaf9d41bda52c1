"""The default ranker against a naive reading of its rules, and what users expect of it."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import Stemmer
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import TOPICS, filters, libraries, open_in_memory, queries, topical_libraries, topical_queries
from support import MakeCatalog, MakeLibrary, build, make_fragment, markdown

from orchestr8_sqlite.catalog import Catalog
from orchestr8_sqlite.content import Fragment
from orchestr8_sqlite.keywords import extract_keywords, iterate_keywords
from orchestr8_sqlite.model import MatchRequest
from orchestr8_sqlite.tiers import weights
from orchestr8_sqlite.tiers.expansion import Form, Reading, read_request
from orchestr8_sqlite.tiers.found import Found
from orchestr8_sqlite.tiers.weighted import DEFAULT_MATCHES, match_weighted, parameters
from orchestr8_sqlite.uris import fragment_uri

PORTER = Stemmer.Stemmer("porter")
EVERYDAY = {"help", "running", "wait", "month", "time", "tries"}
"""The words of everyday speech that the drawn requests may hold."""

WHOLE = {"exact", "typo", "joined"}
"""Forms that are searched in bodies too."""


def match(catalog: Catalog, request: MatchRequest) -> Found:
    return match_weighted(catalog.db, request, read_request(catalog.db, extract_keywords(request.query)))


def default(catalog: Catalog, query: str, **options: object) -> list[str]:
    request = MatchRequest(query, min_score=0, **options)  # type: ignore[arg-type]
    return [candidate.id for candidate in match(catalog, request).candidates]


def scores(catalog: Catalog, query: str, **options: object) -> dict[str, float]:
    request = MatchRequest(query, **{"min_score": 0, "max_results": 100, **options})  # type: ignore[arg-type]
    return {candidate.id: candidate.score for candidate in match(catalog, request).candidates}


def others(count: int = 6) -> list[Fragment]:
    return [make_fragment(f"other{number}", "Something else entirely", title="Unlike") for number in range(count)]


def stemmed(word: str) -> str:
    return str(PORTER.stemWord(word)) if word.isascii() and word.isalpha() else word


def stems(text: str) -> Counter[str]:
    return Counter(stemmed(word) for word in iterate_keywords(text))


@dataclass(frozen=True)
class Asked:
    """A form of a word of the request; `share` is what the word counts beside the others."""

    word: str
    stem: str
    how: str
    factor: float
    share: float


class Oracle:
    """The rules of weighted.py and weights.py, applied to every fragment of a library one by one.

    `clear` is false once a number stood on the edge of a rule, where the last bit of a float decides.
    """

    def __init__(self, library: Sequence[Fragment]) -> None:
        self.library = library
        self.clear = True
        self.fields = [self.short_fields(fragment) for fragment in library]
        self.bodies = [stems(fragment.body) for fragment in library]
        self.topics = [set(f[weights.NAME]) | set(f[weights.TITLE]) | set(f[weights.TAG]) for f in self.fields]
        self.counts = Counter(stem for at in range(len(library)) for stem in self.all_stems(at))
        self.topic_counts = Counter(stem for topic in self.topics for stem in topic)
        self.averages = {
            field: sum(fields[field].total() for fields in self.fields) / len(library)
            for field in weights.FIELD_WEIGHTS
        }

    @staticmethod
    def short_fields(fragment: Fragment) -> dict[int, Counter[str]]:
        return {
            weights.NAME: stems(fragment.name.replace("-", " ").replace("_", " ")),
            weights.TITLE: stems(fragment.title),
            weights.TAG: stems("\n".join(fragment.tags)),
            weights.CAPABILITY: stems("\n".join(fragment.capabilities)),
            weights.SCENARIO: stems("\n".join(fragment.use_when)),
            weights.DESCRIPTION: stems(fragment.description),
        }

    def all_stems(self, at: int) -> set[str]:
        return {stem for text in [*self.fields[at].values(), self.bodies[at]] for stem in text}

    def rarity(self, stem: str) -> float:
        count = self.counts[stem]
        return math.log(1 + (len(self.library) - count + 0.5) / (count + 0.5))

    def weight(self, at: int, stem: str) -> int:
        """Return the thousandths of its rarity that a fragment earns by a word."""
        evidence = 0.0
        for field, held in self.fields[at].items():
            if stem in held:
                share = weights.LENGTH_SHARE
                divisor = 1 - share + share * held.total() / self.averages[field]
                evidence += weights.FIELD_WEIGHTS[field] / divisor
        count = self.bodies[at][stem]
        evidence += weights.BODY_WEIGHT * count / (count + weights.BODY_SATURATION)
        return self.to_thousandths(evidence / (evidence + weights.SATURATION))

    def to_thousandths(self, value: float) -> int:
        if abs(1000 * value % 1 - 0.5) < 1e-6:
            self.clear = False
        return round(1000 * value)

    def holds(self, at: int, form: Asked) -> bool:
        """Return whether a form is looked for where the fragment has it."""
        if any(form.stem in held for held in self.fields[at].values()):
            return True
        spread = self.counts[form.stem] / len(self.library)
        return form.how in WHOLE and form.stem in self.bodies[at] and spread <= weights.BODY_SPREAD

    def name_share(self, at: int, stem: str) -> float:
        """Return the share of the rarity of its name that a word is, as far as thousandths can tell."""
        name = self.fields[at][weights.NAME]
        if stem not in name:
            return 0.0
        return self.to_thousandths(self.rarity(stem) / sum(map(self.rarity, name))) / 1000

    def learnt(self, values: dict[int, float], asked: set[str]) -> dict[str, float]:
        """Return the strength of the words that the best fragments have in common."""
        seeds = sorted(values, key=lambda at: (-values[at], at))[: weights.FEEDBACK_SEEDS]
        total = math.fsum(values[at] for at in seeds)
        strengths = {}
        for stem in {stem for at in seeds for stem in self.topics[at]} - asked:
            votes = math.fsum(values[at] for at in seeds if stem in self.topics[at]) / total
            topics = self.topic_counts[stem]
            if abs(votes - weights.FEEDBACK_VOTES) < 1e-9:
                self.clear = False
            if topics >= 2 and votes > weights.FEEDBACK_VOTES:
                strengths[stem] = votes * math.log((len(self.library) + 0.5) / (topics + 0.5))
        best = sorted(strengths, key=lambda stem: (-round(strengths[stem], 12), stem))[: weights.FEEDBACK_WORDS]
        return {stem: strengths[stem] for stem in best}

    def read(self, query: str) -> dict[str, float]:
        """Return the stems of the request's words and what each counts beside the others."""
        texts: dict[str, str] = {}
        for keyword in extract_keywords(query):
            if self.counts[stemmed(keyword)] or len(extract_keywords(keyword)) == 1:
                texts.setdefault(stemmed(keyword), keyword)
        topical = set(texts.values()) - EVERYDAY
        return {stem: weights.EVERYDAY if topical and text in EVERYDAY else 1.0 for stem, text in texts.items()}

    def gain(self, form: Asked) -> float:
        """Return what a form can earn: never more than the word that it stands in for."""
        most = self.rarity(form.word) if self.counts[form.word] else math.inf
        return min(self.rarity(form.stem), most) * form.factor * form.share

    def value(self, at: int, forms: Sequence[Asked]) -> float:
        """Return the sum of what the best form of each word earns, raised by the share of the name."""
        earned: dict[str, float] = defaultdict(float)
        named: dict[str, float] = defaultdict(float)
        for form in forms:
            if self.holds(at, form):
                share = self.gain(form) / self.rarity(form.stem) * self.name_share(at, form.stem)
                earned[form.word] = max(earned[form.word], self.gain(form) * self.weight(at, form.stem) / 1000)
                named[form.word] = max(named[form.word], share)
        return sum(earned.values()) * (1 + weights.NAME_BONUS * min(1.0, sum(named.values())))

    def ideal(self, words: dict[str, float], forms: Sequence[Asked]) -> float:
        """Return what an ideal answer earns; an unknown word counts what its best form can earn."""
        wanted = []
        for stem, share in words.items():
            gains = [self.gain(form) for form in forms if form.word == stem]
            unknown = max(gains, default=self.rarity(stem) * share * weights.UNKNOWN_WORD)
            wanted.append(self.rarity(stem) * share if self.counts[stem] else unknown)
        return sum(sorted(wanted, reverse=True)[: weights.IDEAL_WORDS])

    def scores(self, query: str, others: Sequence[tuple[str, str, str]]) -> dict[str, float]:
        """Return the score of every fragment that matches *query*.

        Args:
            others: (stem of the word, stem of the form, how) of the forms beside the request's own words.
        """
        words = self.read(query)
        own = [Asked(stem, stem, "exact", 1.0, share) for stem, share in words.items() if self.counts[stem]]
        forms = [*own, *(Asked(word, form, how, weights.FACTORS[how], words[word]) for word, form, how in others)]
        values = {at: value for at in range(len(self.library)) if (value := self.value(at, forms))}
        learnt = self.learnt(values, {form.stem for form in forms if form.how in WHOLE}) if values else {}
        strength = sum(learnt.values())
        half = weights.HALF_SCORE * self.ideal(words, forms)
        found = {}
        for at, value in values.items():
            held = sum(points for stem, points in learnt.items() if stem in self.topics[at])
            total = value + (weights.FEEDBACK * max(values.values()) * held / strength if strength else 0.0)
            found[fragment_uri(self.library[at].id)] = round(100 * total / (total + half), 2)
        return found


def in_order(library: Sequence[Fragment]) -> list[Fragment]:
    return sorted(library, key=lambda fragment: fragment_uri(fragment.id))


def with_forms(catalog: Catalog, reading: Reading, drawn: Sequence[tuple[int, str, str]]) -> Reading:
    """Return *reading* with (word, text, how) as further forms, as far as the index knows the text."""
    forms = []
    for number, text, how in drawn:
        row = catalog.db.execute("SELECT id, rarity FROM term WHERE stem = ?", (stemmed(text),)).fetchone()
        if row and reading.words:
            word = reading.words[number % len(reading.words)]
            forms.append(Form(word, text, how, row[0], row[1], weights.FACTORS[how]))
    return reading._replace(forms=(*reading.forms, *forms))


@settings(max_examples=60, deadline=None)
@given(
    library=topical_libraries() | libraries(),
    query=topical_queries(),
    drawn=st.lists(
        st.tuples(st.integers(0, 7), st.sampled_from(TOPICS), st.sampled_from(sorted(weights.FACTORS))), max_size=4
    ),
)
def test_default_scores_what_the_rules_say_of_every_fragment(
    library: list[Fragment], query: str, drawn: list[tuple[int, str, str]]
) -> None:
    request = MatchRequest(query, max_results=100, min_score=0)
    with open_in_memory(library) as catalog:
        reading = with_forms(catalog, read_request(catalog.db, extract_keywords(query)), drawn)
        found = match_weighted(catalog.db, request, reading)
    others_ = [(form.word.stem, stemmed(form.text), form.how) for form in reading.forms if form.how != "exact"]
    oracle = Oracle(in_order(library))
    expected = oracle.scores(query, others_)
    assume(oracle.clear)
    assert {c.uri: c.score for c in found.candidates} == pytest.approx(expected, abs=0.011)
    assert found.total == len(expected)


@settings(max_examples=25, deadline=None)
@given(library=libraries() | topical_libraries(), query=queries() | topical_queries(), options=filters())
def test_default_filters_the_unfiltered_answer_before_it_cuts_it(
    library: list[Fragment], query: str, options: dict[str, object]
) -> None:
    everything = MatchRequest(query, max_results=100, min_score=0)
    request = everything._replace(**options)  # type: ignore[arg-type]
    tags = {fragment_uri(fragment.id): set(fragment.tags) for fragment in library}
    with open_in_memory(library) as catalog:
        unfiltered = match(catalog, everything).candidates
        assume(all(abs(candidate.score - request.min_score) > 0.01 for candidate in unfiltered))
        kept = [
            (c.uri, c.score)
            for c in unfiltered
            if (not request.categories or c.category in request.categories)
            and set(request.tags) <= tags[c.uri]
            and c.score >= request.min_score
        ]
        found = match(catalog, request)
    assert [(c.uri, c.score) for c in found.candidates] == kept[: request.max_results]
    assert found.total == (len(kept) if found.candidates else 0)


@settings(max_examples=25, deadline=None)
@given(library=libraries() | topical_libraries(), query=queries() | topical_queries())
def test_default_scores_are_percentages_in_order(library: list[Fragment], query: str) -> None:
    with open_in_memory(library) as catalog:
        found = match(catalog, MatchRequest(query, max_results=100, min_score=0)).candidates
    assert all(0 < candidate.score < 100 for candidate in found)
    assert [c.score for c in found] == sorted((c.score for c in found), reverse=True)


def test_equal_scores_go_by_uri(make_catalog: MakeCatalog) -> None:
    names = ("m", "b", "z", "a", "k")
    catalog = make_catalog(*(make_fragment(name, "Adding retry", title="x") for name in names), *others())
    assert default(catalog, "retry") == [f"skills/{name}" for name in "abkmz"]


def test_equal_scores_go_by_uri_where_the_uri_escapes_a_sign(make_library: MakeLibrary, tmp_path: Path) -> None:
    text = markdown("title: Some\nuseWhen: [Adding retry]")
    root = make_library({f"skills/{name}.md": text for name in ("b c", "b!c", "ü", "z", "b~c")})
    with Catalog.open(build(root, tmp_path / "index.db")) as catalog:
        uris = [c.uri.removeprefix("orchestr8://skills/") for c in match(catalog, MatchRequest("retry")).candidates]
    assert uris == ["%C3%BC", "b!c", "b%20c", "b~c", "z"]


def test_default_finds_a_word_in_any_field(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("retry", title="x"),
        make_fragment("b", title="Retry"),
        make_fragment("c", tags=("retry",)),
        make_fragment("d", capabilities=("Retry calls",)),
        make_fragment("e", "Adding retry"),
        make_fragment("f", description="About retry"),
        make_fragment("g", body="Some retry text"),
        *(make_fragment(f"h{number}", body="Nothing of that kind") for number in range(21)),
    )
    assert set(default(catalog, "retry")) == {f"skills/{name}" for name in ("retry", "b", "c", "d", "e", "f", "g")}


@pytest.mark.parametrize(("holders", "found"), [(2, True), (3, False)])
def test_bodies_are_searched_for_words_that_at_most_a_quarter_of_the_fragments_hold(
    make_catalog: MakeCatalog, holders: int, found: bool
) -> None:
    catalog = make_catalog(
        make_fragment("a", body="Some retry text"),
        *(make_fragment(f"b{number}", title="Retry") for number in range(1, holders)),
        *others(8 - holders),
    )
    assert ("skills/a" in default(catalog, "retry")) is found


def test_synonym_is_not_looked_for_in_bodies(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", body="Some backoff text"), make_fragment("b", "Some backoff"), *others(8))
    reading = read_request(catalog.db, ["backoff"])
    as_synonym = reading._replace(forms=tuple(form._replace(how="synonym") for form in reading.forms))
    request = MatchRequest("backoff")
    assert [c.id for c in match_weighted(catalog.db, request, reading).candidates] == ["skills/b", "skills/a"]
    assert [c.id for c in match_weighted(catalog.db, request, as_synonym).candidates] == ["skills/b"]


def test_default_ranks_a_title_before_a_mention_in_the_body(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", title="Caching", body="Do not retry here."),
        make_fragment("b", title="Retry", body="Do not cache here."),
        *others(),
    )
    assert default(catalog, "retry") == ["skills/b", "skills/a"]


def test_more_mentions_in_the_body_rank_first(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", title="x", body="Do not retry here."),
        make_fragment("b", title="x", body="Retry once, retry twice, retry again."),
        *others(),
    )
    assert default(catalog, "retry") == ["skills/b", "skills/a"]


def test_word_among_few_counts_more_than_among_many(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", title="Retry, timeout, circuit, bulkhead, shedding"),
        make_fragment("b", title="Retry"),
        *others(),
    )
    assert default(catalog, "retry") == ["skills/b", "skills/a"]


def test_default_ranks_more_of_the_query_first(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Adding retry"), make_fragment("b", "Adding retry with backoff"), *others()
    )
    assert default(catalog, "retry backoff")[0] == "skills/b"


@pytest.mark.parametrize("query", ["retries", "retry", "retrying", "retried"])
def test_default_finds_inflections(make_catalog: MakeCatalog, query: str) -> None:
    catalog = make_catalog(make_fragment("a", "Retrying failed calls"), make_fragment("b", "Something else"))
    assert default(catalog, query) == ["skills/a"]


def test_everyday_word_earns_less_beside_a_topic_and_all_of_its_rarity_alone(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Month", title="x"), make_fragment("b", "Retry", title="x"), *others())
    both = scores(catalog, "month retry")
    assert both["skills/b"] > both["skills/a"]
    assert scores(catalog, "month") == {"skills/a": scores(catalog, "retry")["skills/b"]}


def test_only_the_best_of_a_words_forms_counts(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Retry", title="x"), make_fragment("b", "Retry", "Backoff", title="x"), *others()
    )
    reading = read_request(catalog.db, ["retry"])
    term_id, rarity = catalog.db.execute("SELECT id, rarity FROM term WHERE stem = 'backoff'").fetchone()
    also = Form(reading.words[0], "backoff", "joined", term_id, rarity, 0.9)
    found = match_weighted(catalog.db, MatchRequest("retry"), reading._replace(forms=(*reading.forms, also)))
    plain = match_weighted(catalog.db, MatchRequest("retry"), reading)
    assert [(c.id, c.score) for c in found.candidates] == [(c.id, c.score) for c in plain.candidates]


def test_fragment_whose_whole_name_is_asked_for_comes_first(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("retry", "Calls that fail"),
        make_fragment("retry-storms-in-clusters", "Calls that fail"),
        *others(),
    )
    assert default(catalog, "retry") == ["skills/retry", "skills/retry-storms-in-clusters"]


@pytest.mark.parametrize("name", ["retry-storms", "retry_storms"])
def test_name_is_read_in_words(make_catalog: MakeCatalog, name: str) -> None:
    catalog = make_catalog(make_fragment(name, title="x"), *others())
    spaced = make_catalog(make_fragment("retry storms", title="x"), *others())
    assert list(scores(catalog, "storms retry").values()) == list(scores(spaced, "storms retry").values())


def test_fragment_gains_by_what_the_best_ones_have_in_common(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Adding retry", title="x", tags=("resilience",)),
        make_fragment("b", "Adding retry", title="x", tags=("resilience",)),
        make_fragment("c", "Adding retry", title="x", tags=("cooking",)),
        *others(),
    )
    found = scores(catalog, "retry")
    assert found["skills/a"] == found["skills/b"] > found["skills/c"]


def test_word_of_one_fragment_alone_is_not_learnt(make_catalog: MakeCatalog) -> None:
    tagged = [make_fragment(name, "Adding retry", title="x", tags=(tag,)) for name, tag in ("ak", "bl", "cm")]
    catalog = make_catalog(*tagged, *(make_fragment(f"y{n}", title=f"Only{n}") for n in range(6)))
    assert catalog.db.execute("SELECT count(*) FROM topic WHERE fragment_id <= 3").fetchone() == (0,)
    assert len(set(scores(catalog, "retry").values())) == 1


@pytest.mark.parametrize(("strong", "learnt"), [(20, False), (12, True)])
def test_only_the_best_twenty_are_asked_for_what_they_have_in_common(
    make_catalog: MakeCatalog, strong: int, learnt: bool
) -> None:
    first = [make_fragment(f"a{n:02}", "Adding retry", title=f"Retry {n:02}") for n in range(strong)]
    last = [make_fragment(f"b{n}", "Adding retry", title=f"Some{n}", tags=("kiwi",)) for n in range(8)]
    catalog = make_catalog(*first, *last, make_fragment("c", "Adding retry", title="Some9", tags=("plum",)))
    found = scores(catalog, "retry")
    assert (found["skills/b0"] > found["skills/c"]) is learnt


@pytest.mark.parametrize(("holders", "learnt"), [(1, False), (3, True)])
def test_word_is_learnt_where_a_tenth_of_the_votes_is_for_it(
    make_catalog: MakeCatalog, holders: int, learnt: bool
) -> None:
    found = [make_fragment(f"a{n:02}", "Adding retry", title=f"Some{n}", tags=(f"own{n}",)) for n in range(20)]
    tagged = [replace(fragment, tags=("kiwi",)) for fragment in found[:holders]]
    elsewhere = make_fragment("z", "Something else", tags=("kiwi",))
    points = scores(make_catalog(*tagged, *found[holders:], elsewhere), "retry")
    assert (points["skills/a00"] > points["skills/a19"]) is learnt


def test_filters_apply_before_the_limit(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("a", "Adding retry with backoff"),
        make_fragment("z", "Adding retry", category="agent", tags=("api",)),
    )
    assert default(catalog, "retry backoff", max_results=1, categories=("agent",)) == ["agents/z"]
    assert default(catalog, "retry backoff", max_results=1, tags=("api",)) == ["agents/z"]


def test_filter_finds_what_a_hundred_better_ones_hide(make_catalog: MakeCatalog) -> None:
    better = [make_fragment(f"s{number:03}", title="Retry") for number in range(110)]
    catalog = make_catalog(*better, make_fragment("z", "Adding a retry to it", category="agent", title="Many"))
    request = MatchRequest("retry", min_score=0, max_results=100)
    assert "agents/z" not in {c.id for c in match(catalog, request).candidates}
    assert default(catalog, "retry", categories=("agent",)) == ["agents/z"]


def test_total_counts_what_the_limit_leaves_out(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(*(make_fragment(f"s{number:03}", title="Retry") for number in range(130)), *others(9))
    found = match(catalog, MatchRequest("retry", min_score=0, max_results=5))
    assert ([c.id for c in found.candidates], found.total) == ([f"skills/s00{n}" for n in range(5)], 130)


def test_scenario_that_holds_most_of_the_request_is_named(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Adding calls", "Adding backoff to retries", "Backoff"), *others())
    assert match(catalog, MatchRequest("retry backoff")).candidates[0].scenario == "Adding backoff to retries"


def test_long_request_finds_what_its_rare_words_name(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(
        make_fragment("pgbouncer", "Sharing database connections", tags=("postgresql",)),
        *(make_fragment(f"other{n}", "Calling a service from the app when users wait") for n in range(9)),
    )
    query = (
        "hello, since yesterday evening our app has become slow whenever many users come, the service log is full of "
        "errors from postgresql that say there are too many connections, could somebody look into what is going on"
    )
    assert match(catalog, MatchRequest(query)).candidates[0].id == "skills/pgbouncer"


def test_statement_reads_evidence_and_topics_by_primary_key_only(make_catalog: MakeCatalog) -> None:
    catalog = make_catalog(make_fragment("a", "Adding retry", tags=("api",)))
    given_ = parameters(
        MatchRequest("retry", categories=("skill",), tags=("api",)), read_request(catalog.db, ["retry"])
    )
    steps = [str(row[3]) for row in catalog.db.execute(f"EXPLAIN QUERY PLAN {DEFAULT_MATCHES}", given_)]
    for table, search in {
        "evidence e": "SEARCH e USING PRIMARY KEY (term_id=?)",
        "body_evidence b": "SEARCH b USING PRIMARY KEY (term_id=?)",
        "topic t": "SEARCH t USING PRIMARY KEY (fragment_id=?)",
    }.items():
        uses = DEFAULT_MATCHES.count(f" {table} ")
        assert steps.count(search) == uses > 0
    assert not [step for step in steps if step in ("SCAN b", "SCAN t") or "SCAN term" in step or "SCAN p" in step]
