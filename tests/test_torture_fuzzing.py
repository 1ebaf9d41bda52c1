"""What a fuzzing process says is read as what it is: survived, lost, wrong, or no fuzzing at all."""

import random
from pathlib import Path

import pytest
from torture import Lost, Skipped, Wrong, fuzzing
from torture.fuzz_inputs import Target, pick, take, uri_of
from torture.fuzzing import Progress, cases, dictionary_line, judge, write_corpus

SAID = """INFO: Running with entropic power schedule (0xFF, 100).
#2\tpulse  cov: 90 ft: 95 corp: 1/1b exec/s: 0 rss: 40Mb
#61\tINITED cov: 175 ft: 588 corp: 58/9010b exec/s: 30 rss: 98Mb
#70\tNEW    cov: 176 ft: 590 corp: 59/9020b lim: 4096 exec/s: 35 rss: 98Mb L: 10/4096 MS: 1 EraseBytes-
#5509\tDONE   cov: 180 ft: 807 corp: 114/21Kb lim: 4096 exec/s: 1836 rss: 99Mb
Done 5509 runs in 3 second(s)
stat::number_of_executed_units: 5509
stat::average_exec_per_sec:     1836
"""
FAILED = """
 === Uncaught Python exception: ===
{kind}: 'é' stands twice
Traceback (most recent call last):
  File "/a/b/fuzz_requests.py", line 60, in judge
  File "/a/b/uris.py", line 7, in parse_uri
{kind}: 'é' stands twice

==9== ERROR: libFuzzer: fuzz target exited
"""


def test_a_process_that_found_new_ways_through_the_code_has_tried_all_its_inputs() -> None:
    assert judge(0, SAID, None) == Progress(inputs=5509, covered=180, seeded=588, features=807, kept=114)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ("cov: 180 ft: 807", "cov: 3 ft: 807"),
        ("cov: 180 ft: 807", "cov: 180 ft: 588"),
        ("executed_units: 5509", "executed_units: 61"),
        ("DONE ", "pulse"),
        ("stat::", ""),
    ],
)
def test_a_process_that_was_not_guided_by_the_code_shows_nothing(found: str, told: str) -> None:
    assert found in SAID
    with pytest.raises(Lost):
        judge(0, SAID.replace(found, told), None)


def test_an_answer_that_breaks_a_rule_is_wrong_and_told_with_its_input() -> None:
    with pytest.raises(Wrong, match=r"^'é' stands twice; input: b'\\xff1'$"):
        judge(77, SAID + FAILED.format(kind="Wrong"), b"\xff1")


def test_an_error_that_nobody_foresaw_is_lost_and_told_with_its_place_and_input() -> None:
    with pytest.raises(Lost, match=r"^KeyError: 'é' stands twice in parse_uri, uris\.py:7; input: b'1'$"):
        judge(77, SAID + FAILED.format(kind="KeyError"), b"1")


def test_an_input_that_takes_too_long_is_lost_and_shown_in_part() -> None:
    said = SAID + "ALARM: working on the last Unit for 12 seconds\n==9== ERROR: libFuzzer: timeout after 12 seconds\n"
    with pytest.raises(Lost, match=r"^libFuzzer: timeout after 12 seconds; input: b'a+' … 2,000 bytes$"):
        judge(70, said, b"a" * 2000)


def test_a_process_that_fails_before_it_fuzzes_is_lost_with_what_it_said_last() -> None:
    with pytest.raises(Lost, match=r"^exit code 1: (?s:.*)No module named 'x'"):
        judge(1, "Traceback (most recent call last):\nModuleNotFoundError: No module named 'x'\n", None)


def test_words_of_a_grammar_are_written_byte_by_byte() -> None:
    assert dictionary_line('a"\n\ud800') == '"\\x61\\x22\\x0A\\xED\\xA0\\x80"\n'


def test_seeds_are_drawn_by_the_seed_and_no_longer_than_an_input_may_be(tmp_path: Path) -> None:
    target = Target("a", lambda _: print, lambda: [b"1" * 9, *(b"%d" % number for number in range(20))], (), longest=4)
    written = [
        [one.read_bytes() for one in sorted(write_corpus(tmp_path / name, target, random.Random(seed), 5).iterdir())]
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    assert written[0] == written[1] != written[2]
    assert len(written[0]) == 5
    whole = write_corpus(tmp_path / "d", target, random.Random(1), 99)
    assert sorted(one.read_bytes() for one in whole.iterdir()) == sorted([b"1111", *(b"%d" % n for n in range(20))])


def test_bytes_in_front_choose_options_and_the_others_are_text() -> None:
    assert take(b"\x05\x06\xc3\xa9", 2) == (b"\x05\x06", "é")
    assert take(b"\x05", 2) == (b"\x05\0", "")
    assert take(b"\xed\xa0\x80", 0) == (b"", "\ud800")
    assert take(b"\xff", 0) == (b"", "\ufffd")
    assert [pick("abc", byte) for byte in (0, 2, 3, 255)] == ["a", "c", "a", "a"]


def test_most_texts_are_put_behind_the_beginning_of_a_uri() -> None:
    assert uri_of(0, "a%") == "a%"
    assert uri_of(2, "a%") == "orchestr8://skills/a%"
    assert uri_of(128 + 2, "a%/é\ud800") == "orchestr8://skills/a%25/%C3%A9%3F"


def test_without_the_fuzzer_one_case_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fuzzing, "find_spec", lambda _: None)
    (only,) = cases(0, bounded=True)
    with pytest.raises(Skipped, match="atheris is not installed"):
        only.run(tmp_path)
