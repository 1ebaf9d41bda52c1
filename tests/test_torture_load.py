"""The harness that puts a server under load notices what it is there to notice; the expected sides stand here."""

import asyncio
import time
from collections.abc import Sequence

import pytest
from torture import Lost, Wrong
from torture.load.clients import Exchange
from torture.load.library import LEDGER, URIS, body_of
from torture.load.questions import Message, Question, judged, loading, reading
from torture.load.samples import Figures, Sample, check_flat, figures_of
from torture.load.truth import Files, Known, Whole

ONE, OTHER = URIS[:2]
READING = reading(ONE)


def text_of(*parts: tuple[str, int], name: str = "a") -> Message:
    """Return the answer to a reading of ONE that holds the texts of *parts*, each of an edition."""
    text = "\n".join(body_of(uri, edition) for uri, edition in parts)
    return {"jsonrpc": "2.0", "id": name, "result": {"contents": [{"uri": ONE, "text": text}]}}


async def take(*messages: Message, question: Question = READING, given_up: Sequence[str] = ()) -> Exchange:
    """Return what has taken *messages* after `a` and `b` were asked."""
    truth = Whole()
    truth.replaced(7, time.monotonic(), time.monotonic())
    exchange = Exchange(truth)
    for name in ("a", "b"):
        exchange.ask(name, question)
    for name in given_up:
        exchange.give_up(name)
    for message in messages:
        exchange.take(message)
    return exchange


def test_every_request_that_is_answered_once_is_in_order() -> None:
    exchange = asyncio.run(take(text_of((ONE, 7), name="b"), text_of((ONE, 7))))
    exchange.end()
    assert exchange.answered == 2


@pytest.mark.parametrize("given_up", [(), ("a",)])
def test_reply_that_comes_twice_is_noticed(given_up: Sequence[str]) -> None:
    with pytest.raises(Lost, match="a was answered again"):
        asyncio.run(take(text_of((ONE, 7)), text_of((ONE, 7)), given_up=given_up))


@pytest.mark.parametrize("name", ["c", None, 0])
def test_reply_that_nobody_asked_for_is_noticed(name: object) -> None:
    with pytest.raises(Lost, match="nobody asked for"):
        asyncio.run(take({**text_of((ONE, 7)), "id": name}))


def test_reply_that_never_comes_is_noticed_unless_it_was_given_up() -> None:
    with pytest.raises(Lost, match="1 requests were never answered"):
        asyncio.run(take(text_of((ONE, 7)))).end()
    asyncio.run(take(text_of((ONE, 7)), given_up=("b",))).end()


def test_notifications_of_changes_are_no_replies_and_any_other_is_noticed() -> None:
    asyncio.run(take({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}))
    with pytest.raises(Lost):
        asyncio.run(take({"jsonrpc": "2.0", "method": "notifications/none"}))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"error": {"code": -32603, "message": "Internal error"}}, "KeyError"),
        (text_of((ONE, 7), (ONE, 8)), "mixture"),
        (text_of((OTHER, 7)), "another text"),
        ({**text_of((ONE, 7)), "_meta": "of edition8"}, "other editions"),
    ],
)
def test_answer_that_is_not_the_text_of_one_edition_is_noticed(answer: Message, why: str) -> None:
    assert judged(READING, text_of((ONE, 7))) == [(ONE, 7)]
    with pytest.raises(Wrong, match=why):
        judged(READING, answer)


def test_texts_in_one_answer_may_be_of_different_editions_only_where_files_are_edited_one_by_one() -> None:
    documents = [{"uri": ONE, "text": body_of(ONE, 1)}, {"uri": OTHER, "text": body_of(OTHER, 2)}]
    text = {"text": "".join(one["text"] for one in documents)}
    facts = judged(
        loading([ONE, OTHER]), {"result": {"structuredContent": {"documents": documents}, "content": [text]}}
    )
    assert facts == [(ONE, 1), (OTHER, 2)]
    files, whole = Files(), Whole()
    files.written = {ONE: 1, OTHER: 2}
    files.check(facts, files.now())
    for edition in (1, 2):
        whole.replaced(edition, 0, 0)
    with pytest.raises(Wrong, match="mixes"):
        whole.check(facts, Known(0, {}))


def test_answer_is_of_an_edition_that_was_in_place_since_it_was_asked_for() -> None:
    whole = Whole()
    for moment, edition in enumerate((1, 2, 3)):
        whole.replaced(edition, moment, moment + 0.5)
    for edition, sent in ((1, 1.4), (2, 1.6), (2, 2.5), (3, 2.6), (3, 9)):
        whole.check([(ONE, edition)], Known(sent, {}))
    for edition, sent in ((1, 1.6), (2, 2.6), (4, 1.0)):
        with pytest.raises(Wrong, match="were in place"):
            whole.check([(ONE, edition)], Known(sent, {}))


def test_answer_shows_no_file_older_than_one_that_came_before_it_was_asked_for() -> None:
    files = Files()
    files.written = {ONE: 3, LEDGER: 3}
    before = files.now()
    files.check([(ONE, 2), (LEDGER, 3)], before)
    files.check([(ONE, 1), (LEDGER, 1)], before)
    files.check([(LEDGER, 1)], files.now())
    with pytest.raises(Wrong, match="after edition 2"):
        files.check([(ONE, 1)], files.now())
    with pytest.raises(Wrong, match="not written yet"):
        files.check([(ONE, 4)], files.now())
    files.went_back()
    files.check([(ONE, 1)], files.now())


def samples(*memory: int, descriptors: Sequence[int] = ()) -> list[Sample]:
    """Return samples of every second."""
    return [Sample(moment, kib, ([*descriptors, 9] + [9] * moment)[moment], 4) for moment, kib in enumerate(memory)]


def test_memory_is_flat_where_no_quarter_has_a_higher_level_than_the_first() -> None:
    figures = figures_of(samples(1, 1, 1, 1, 98, 100, 102, 100, 112, 112, 120, 111, 95, 90, 102, 80), range(4, 16))
    assert figures == Figures(100, 112, 120, 9, 9, 4, 4)
    check_flat("serve", figures, 1.12, 0)
    with pytest.raises(Lost, match="memory of serve grows"):
        check_flat("serve", figures, 1.11, 0)


def test_memory_may_have_small_peaks_but_no_large_ones() -> None:
    check_flat("serve", Figures(100, 100, 137, 9, 9, 4, 4), 1.1, 0)
    with pytest.raises(Lost, match="memory of serve has peaks"):
        check_flat("serve", Figures(100, 100, 138, 9, 9, 4, 4), 1.1, 0)


def test_descriptors_may_rise_by_those_of_requests_under_way() -> None:
    figures = figures_of(samples(*[5] * 10, descriptors=(1, 1, 8, 10, 9, 9, 12, 23, 9, 9)), range(2, 10))
    assert figures is not None
    check_flat("serve", figures, 1.1, 13)
    with pytest.raises(Lost, match="descriptors of serve grow"):
        check_flat("serve", figures, 1.1, 12)


def test_threads_that_pile_up_are_noticed() -> None:
    check_flat("serve", Figures(100, 100, 100, 9, 9, 4, 6), 1.1, 2)
    with pytest.raises(Lost, match="threads of serve grow"):
        check_flat("serve", Figures(100, 100, 100, 9, 9, 4, 7), 1.1, 2)


def test_process_that_comes_later_or_goes_before_the_end_is_not_judged() -> None:
    there = samples(*[5] * 12)
    assert figures_of(there, range(4, 12)) is not None
    assert figures_of(there[5:], range(4, 12)) is None
    assert figures_of(there[:11], range(4, 12)) is None


def test_worker_that_is_still_starting_is_not_judged() -> None:
    started = samples(*[40] * 6, *[100] * 6)
    starting = [one._replace(threads=1) if one.moment < 6 else one for one in started]
    assert figures_of(starting, range(7, 12)) == figures_of(started, range(7, 12)) is not None
    assert figures_of(starting, range(5, 12)) is None
