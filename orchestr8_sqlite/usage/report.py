"""Searches and loads → the figures of a library's use.

A search is answered if its answer stands; else nothing fits, and the answer is weak if it names the closest fragments.
A load belongs to the last search of its session that listed the fragment, at most an hour before. A search leads to a
load if one belongs to it. Searches in full mode hand texts out themselves, so they do not count for that share.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import NamedTuple

from orchestr8_sqlite.settings import DIGEST
from orchestr8_sqlite.usage.logs import Event, Load, Log, Search

TOGETHER = timedelta(hours=1)
"""Longest time between a search and a load that belongs to it: behind a proxy, all clients may be one session."""

FULL = "full"


class Counts(NamedTuple):
    """Requests of a time, or of all times.

    `asked` counts the answered searches that listed fragments without their texts, and `led` those of them that led to
    a load. `loads` counts fragments, and `found` those that belong to a search.
    """

    searches: int = 0
    answered: int = 0
    weak: int = 0
    nothing: int = 0
    asked: int = 0
    led: int = 0
    loads: int = 0
    found: int = 0

    @property
    def rate(self) -> float | None:
        """Return the share of such searches that led to a load, 0 to 1; None if there are none."""
        return self.led / self.asked if self.asked else None


class FragmentUse(NamedTuple):
    """How often a fragment was loaded, and how often it was listed by an answer that stands."""

    uri: str
    loads: int
    listed: int


class Gap(NamedTuple):
    """A request that nothing fitted: how often it was asked so, and what the last such answer said.

    `query` is a digest if the log has no text, and None if it has neither. `filtered` counts the times at which only
    some fragments might answer. `loads` counts what was loaded all the same of the closest fragments.
    """

    query: str | None
    terms: tuple[str, ...]
    times: int
    filtered: int
    words: tuple[str, ...]
    closest: tuple[str, ...]
    last: datetime
    loads: int

    @property
    def has_text(self) -> bool:
        """Tell whether the log has the text of the request."""
        return self.query is not None and not self.query.startswith(DIGEST)


class Word(NamedTuple):
    """A word that such answers did not cover: in how many of them, and requests with it, the most frequent first."""

    text: str
    times: int
    queries: tuple[str, ...]


class Report(NamedTuple):
    """The figures; `weeks` has the ISO weeks (UTC) in order, all other lists begin with what is most frequent.

    `ranks` counts the loads that belong to a search by the rank at which it listed them. `weak_led` counts the searches
    that nothing fitted and that led to a load. `never` has the fragments of the index that were never loaded, and
    `elsewhere` loaded ones that it does not have.
    """

    whole: Counts
    weak_led: int
    ranks: Mapping[int, int]
    fragments: Sequence[FragmentUse]
    never: Sequence[str]
    elsewhere: Sequence[str]
    gaps: Sequence[Gap]
    words: Sequence[Word]
    weeks: Mapping[str, Counts]
    sessions: int


def report_of(log: Log, held: Collection[str]) -> Report:
    """Return the figures of *log* for an index with the fragments *held*, given by their URIs."""
    searches, loading = log.searches, log.loads
    found = _find_searches(log.events)
    led = Counter(search for places in found for search, _ in places.values())
    loads = Counter(uri for load in loading for uri in load.uris)
    listed = Counter(uri for search in searches if search.confident for uri in search.ranks)
    uses = [FragmentUse(uri, loads[uri], listed[uri]) for uri in loads.keys() | listed.keys()]
    weeks = _by_week(searches, loading, found, led)
    return Report(
        whole=Counts(*map(sum, zip(*weeks.values(), strict=True))),
        weak_led=sum(not searches[place].confident for place in led),
        ranks=dict(sorted(Counter(rank for places in found for _, rank in places.values()).items())),
        fragments=sorted(uses, key=lambda use: (-use.loads, -use.listed, use.uri)),
        never=sorted(uri for uri in held if not loads[uri]),
        elsewhere=sorted(uri for uri in loads if uri not in held),
        gaps=_gaps(searches, led),
        words=_words(searches),
        weeks=weeks,
        sessions=len({event.session for event in log.events}),
    )


Found = Sequence[Mapping[str, tuple[int, int]]]
"""For each load, by the URIs that belong to a search: the place of that search among all, and the rank."""


def _find_searches(events: Sequence[Event]) -> Found:
    listed: dict[tuple[str, str], tuple[datetime, int, int]] = {}
    found: list[Mapping[str, tuple[int, int]]] = []
    places = count()
    for event in events:
        if isinstance(event, Search):
            place = next(places)
            listed |= {(event.session, uri): (event.time, place, rank) for uri, rank in event.ranks.items()}
        else:
            last = {uri: listed[event.session, uri] for uri in event.uris if (event.session, uri) in listed}
            found.append({uri: (place, rank) for uri, (at, place, rank) in last.items() if event.time - at <= TOGETHER})
    return found


def _by_week(
    searches: Sequence[Search], loading: Sequence[Load], found: Found, led: Collection[int]
) -> dict[str, Counts]:
    """Return the counts of each ISO week with searches or loads; a search that led to a load counts in its own week."""
    weeks: dict[str, Counter[str]] = defaultdict(Counter)
    for place, search in enumerate(searches):
        counts = weeks[_week(search.time)]
        counts["searches"] += 1
        counts["answered" if search.confident else "weak" if search.uris else "nothing"] += 1
        if search.confident and search.uris and search.mode != FULL:
            counts["asked"] += 1
            counts["led"] += place in led
    for load, before in zip(loading, found, strict=True):
        weeks[_week(load.time)]["loads"] += len(load.uris)
        weeks[_week(load.time)]["found"] += len(before)
    return {week: Counts(**counts) for week, counts in sorted(weeks.items())}


def _week(time: datetime) -> str:
    year, week, _ = time.isocalendar()
    return f"{year}-W{week:02}"


def _gaps(searches: Sequence[Search], led: Mapping[int, int]) -> list[Gap]:
    """Return the requests that nothing fitted, those asked most often first, then the latest."""
    asked: dict[str | None, list[int]] = defaultdict(list)
    for place, search in enumerate(searches):
        if not search.confident:
            asked[_folded(search.query)].append(place)
    gaps = [
        _gap([searches[place] for place in places], sum(led[place] for place in places)) for places in asked.values()
    ]
    return sorted(gaps, key=lambda gap: (-gap.times, -gap.last.timestamp(), gap.query or ""))


def _gap(asked: Sequence[Search], loads: int) -> Gap:
    last = asked[-1]
    filtered = sum(search.is_filtered for search in asked)
    return Gap(last.query, last.terms, len(asked), filtered, last.words, last.uris, last.time, loads)


def _words(searches: Sequence[Search]) -> list[Word]:
    """Return the words that answers did not cover where nothing fitted; an empty one for answers that name none."""
    held: dict[str, Counter[str]] = defaultdict(Counter)
    said: dict[str, str] = {}
    for search in searches:
        if not search.confident:
            query = _folded(search.query) or ""
            said[query] = search.query or ""
            for word in dict.fromkeys(search.words or ("",)):
                held[word][query] += 1
    words = [
        Word(word, counts.total(), tuple(said[query] for query, _ in _by_count(counts) if query))
        for word, counts in held.items()
    ]
    return sorted(words, key=lambda word: (-word.times, word.text))


def _by_count(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _folded(query: str | None) -> str | None:
    return None if query is None else query.casefold()


def facts_of(log: Log, report: Report) -> dict[str, object]:
    """Return the figures as a JSON value: times in ISO 8601, the share of searches that led to a load as `rate`."""
    return {
        "requests": log.requests,
        "sessions": report.sessions,
        "first": log.first and log.first.isoformat(timespec="milliseconds"),
        "last": log.last and log.last.isoformat(timespec="milliseconds"),
        "damaged": dict(log.damaged),
        **_figures(report.whole),
        "weakLed": report.weak_led,
        "ranks": {str(rank): loads for rank, loads in report.ranks.items()},
        "weeks": [{"week": week, **_figures(counts)} for week, counts in report.weeks.items()],
        "fragments": [use._asdict() for use in report.fragments],
        "neverLoaded": [*report.never],
        "notInIndex": [*report.elsewhere],
        "uncovered": [{"word": word.text, "times": word.times, "queries": word.queries} for word in report.words],
        "gaps": [
            {
                "query": gap.query,
                "terms": gap.terms,
                "times": gap.times,
                "filtered": gap.filtered,
                "uncovered": gap.words,
                "closest": gap.closest,
                "last": gap.last.isoformat(timespec="milliseconds"),
                "loads": gap.loads,
            }
            for gap in report.gaps
        ],
    }


def _figures(counts: Counts) -> dict[str, object]:
    return {
        "searches": counts.searches,
        "answered": counts.answered,
        "weak": counts.weak,
        "nothing": counts.nothing,
        "listed": counts.asked,
        "led": counts.led,
        "rate": counts.rate,
        "loads": counts.loads,
        "found": counts.found,
    }
