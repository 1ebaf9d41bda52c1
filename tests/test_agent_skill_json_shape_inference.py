"""The script of the skill json-shape-inference says what unknown JSON holds and what will surprise a parser."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from agent_skills import assert_refused, run_json, run_script, start_script

SCRIPT = ("json-shape-inference", "infer_shape.py")


def shape(path: Path, content: str | bytes, *arguments: str) -> dict[str, Any]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return run_json(*SCRIPT, path, *arguments)


def paths(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["path"]: row for row in report["paths"]}


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def test_every_path_has_its_types_and_how_often_it_is_there(tmp_path: Path) -> None:
    report = shape(tmp_path / "a.json", lines({"a": 1, "b": {"c": [1, 2.5]}}, {"a": None}, {"a": 7, "x y": "z"}))
    found = paths(report)
    assert (report["mode"], report["records"], report["problems"]) == ("JSON Lines", 3, [])
    assert {path: (row["kinds"], row["present"], row["of"]) for path, row in found.items()} == {
        ".": ({"object": 3}, 3, 0),
        ".a": ({"integer": 2, "null": 1}, 3, 3),
        ".b": ({"object": 1}, 1, 3),
        ".b.c": ({"array": 1}, 1, 1),
        ".b.c[]": ({"integer": 1, "number": 1}, 2, 0),
        '["x y"]': ({"string": 1}, 1, 3),
    }
    assert found[".a"]["content"] == "1..7"


def test_a_key_of_mixed_types_is_named_with_its_first_record(tmp_path: Path) -> None:
    report = shape(tmp_path / "a.jsonl", lines({"n": 1}, {"n": 2}, {"n": "3"}, {"n": 4}))
    assert paths(report)[".n"]["notes"] == ["MIXED: 1 string, first in record 3", "number in a string"]


def test_rare_keys_and_two_spellings_are_told(tmp_path: Path) -> None:
    records: list[dict[str, int]] = [{"userId": n} for n in range(99)]
    found = paths(shape(tmp_path / "a.jsonl", lines(*records, {"user_id": 5})))
    assert found["."]["notes"] == ["two spellings: userId, user_id"]
    assert found[".user_id"]["notes"] == ["RARE key, first in record 100"]


def test_objects_keyed_by_ids_are_one_map(tmp_path: Path) -> None:
    items = {str(number): {"name": f"n{number}"} for number in range(1000)}
    few = {"2024-01": 1, "2024-02": 2, "2024-03": 3}
    found = paths(shape(tmp_path / "a.json", json.dumps({"users": items, "months": few})))
    assert list(found) == [".", ".users", ".users.*", ".users.*.name", ".months", ".months.*"]
    assert found[".users.*"]["present"] == 1000
    assert found[".months"]["notes"] == ["keys are data: a map, not a record"]


def test_values_that_other_parsers_change_are_named(tmp_path: Path) -> None:
    record = '{"id": 9007199254740993, "at": 1700000000, "raw": "{\\"a\\": 1}", "id": 9007199254740995, "x": NaN}\n'
    report = shape(tmp_path / "a.jsonl", record * 2)
    notes = {path: row["notes"] for path, row in paths(report).items()}
    assert notes[".id"] == ["2 above 2^53: JavaScript rounds them"]
    assert paths(report)[".id"]["content"] == "9007199254740995..9007199254740995"
    assert notes[".at"] == ["epoch seconds?"]
    assert notes[".raw"] == ["JSON in a string: decode twice"]
    assert report["problems"] == [
        "2 objects repeat a key: most parsers keep the last value",
        "2 x NaN: not JSON, strict parsers refuse the file",
    ]


def test_a_long_array_below_keys_is_streamed_over_the_borders_of_chunks(tmp_path: Path) -> None:
    items = [{"id": number, "text": "é" * (number % 197)} for number in range(4_000)]  # 2.5 MB, over two chunks
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"data": {"items": items}, "next": None}, indent=1).encode()))
    report = run_json(*SCRIPT, path)
    found = paths(report)
    assert (report["mode"], report["records"]) == ("one document", 4_000)
    assert found[".data.items[].id"]["content"] == "0..3999"
    assert found[".data.items[].text"]["present"] == 4_000
    assert found[".next"]["kinds"] == {"null": 1}


def test_one_shape_for_each_value_of_a_key_shows_a_tagged_union(tmp_path: Path) -> None:
    records = [{"type": "buy", "amount": 1}, {"type": "view"}, {"type": "buy", "amount": 2}]
    found = paths(shape(tmp_path / "a.jsonl", lines(*records), "--by", "type"))
    assert (found['["type=buy"].amount']["present"], found['["type=buy"].amount']["of"]) == (2, 2)
    assert '["type=view"].amount' not in found


def test_the_schema_requires_only_what_every_object_has(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(lines({"id": 1, "day": "2024-01-31"}, {"id": None, "tags": ["a"]}))
    assert json.loads(run_script(*SCRIPT, path, "--schema").stdout) == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "id": {"type": ["integer", "null"]},
            "day": {"type": "string", "format": "date"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["id"],
    }


def test_broken_lines_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n\n{"a": \n{"a": 2}\n')
    done = run_script(*SCRIPT, path)
    assert done.returncode == 1
    assert "line 3 is no JSON" in done.stdout
    assert "1 of 3 lines are no JSON" in done.stdout


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"<html>", "XML or HTML"),
        (b"callback({})", "JSONP"),
        (b'[{"a": 1}, {"a": 2}', "cut off"),
        (b'[{"a": 1}, {"a": 2', "cut off"),
        (b'[{"a": 1}, {"a": 2,', "cut off"),
        (b'{"a": 1, // no\n}', "expected"),
        (b"[" * 100_000, "nested"),
        (b"PK\x03\x04", "binary"),
        (b'{"a": "no end', "Unterminated"),
        (b'{"a": [1, 2,]}', "comma before ]"),
        (b'{"a": 1,}', "expected"),
    ],
    ids=lambda value: value[:9] if isinstance(value, str) else "",
)
def test_what_is_no_json_is_refused_in_one_line(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    assert_refused(run_script(*SCRIPT, path), words)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    assert_refused(run_script(*SCRIPT, tmp_path / "none.json"), "No such file")
    assert_refused(run_script(*SCRIPT, tmp_path), "not a file")


def test_texts_anywhere_below_a_key_of_secrets_are_hidden(tmp_path: Path) -> None:
    report = shape(tmp_path / "a.json", '{"token": {"access": "s3cr3t"}, "secrets": [{"value": "s3cr3t"}]}')
    assert "s3cr3t" not in json.dumps(report)


def test_texts_below_keys_of_secrets_are_hidden(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(lines(*[{"user": {"password": f"hunter{n}", "apiKey": "abc", "name": "ann"}} for n in range(50)]))
    for output in (run_script(*SCRIPT, path).stdout, run_script(*SCRIPT, path, "--json").stdout):
        assert "hidden" in output
        assert "ann x50" in output
        assert "hunter" not in output
        assert "abc" not in output


def test_records_of_documents_one_after_the_other_count_from_one(tmp_path: Path) -> None:
    found = paths(shape(tmp_path / "a.json", '{\n"a": 1}\n{\n"a": "x"}\n{\n"a": 2}\n'))
    assert "MIXED: 1 string, first in record 2" in found[".a"]["notes"]


def test_leading_zeros_are_a_code(tmp_path: Path) -> None:
    found = paths(shape(tmp_path / "a.json", '[{"zip": "01067", "n": "0"}, {"zip": "10115", "n": "12"}]'))
    assert "leading zeros: a code, keep as text" in found["[].zip"]["notes"]
    assert found["[].n"]["notes"] == ["number in a string"]


def test_a_document_cut_inside_a_key_is_called_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": 1, "b')
    assert_refused(run_script(*SCRIPT, path), "the end: cut off?")


def test_a_few_numbers_or_json_among_texts_are_counted(tmp_path: Path) -> None:
    records = [{"a": f"x{n}", "b": "t"} for n in range(8)] + [{"a": "12", "b": '{"c": 1}'}, {"a": "3.5", "b": "t"}]
    found = paths(shape(tmp_path / "a.jsonl", lines(*records)))
    assert found[".a"]["notes"] == ["2 of 10 strings are numbers"]
    assert found[".b"]["notes"] == ["1 of 10 strings are JSON: decode twice"]


@pytest.mark.parametrize(
    ("factor", "unit"), [(1, "seconds"), (10**3, "milliseconds"), (10**6, "microseconds"), (10**9, "nanoseconds")]
)
def test_the_unit_of_an_epoch_is_guessed(tmp_path: Path, factor: int, unit: str) -> None:
    found = paths(shape(tmp_path / "a.jsonl", lines({"t": 1763700000 * factor}, {"t": 1763700001 * factor})))
    assert f"epoch {unit}?" in found[".t"]["notes"]


def test_objects_over_several_lines_after_one_of_a_line_are_pointed_to(tmp_path: Path) -> None:
    content = '{"a": 1}\n{\n "a": 3\n}\n'
    problems = shape(tmp_path / "a.json", content)["problems"]
    assert problems[-1] == "3 of 4 lines are no JSON: values over several lines? try --document"
    assert shape(tmp_path / "a.json", content, "--document")["records"] == 2


@pytest.mark.parametrize("part", ["1.", "1.5e", "1.5E-"])
def test_a_number_is_read_whole_wherever_the_file_is_read_in_parts(tmp_path: Path, part: str) -> None:
    start = "[1.5," + " " * ((1 << 20) - 5 - len(part)) + part
    found = paths(shape(tmp_path / "a.json", start + "5, 2.5]"))
    assert found["[]"]["present"] == 3


def test_texts_of_secrets_stay_hidden_where_their_key_is_one_of_many(tmp_path: Path) -> None:
    names = [f"VAR_{number}" for number in range(40)] + ["DB_PASSWORD"]
    records = [
        {"env": {names[(number + step) % 41]: f"value{number % 2}" for step in range(3)}} for number in range(82)
    ]
    found = paths(shape(tmp_path / "a.jsonl", lines(*records)))
    assert found[".env"]["notes"] == ["keys are data: a map, not a record"]
    assert found[".env.*"]["content"] == ""


def test_half_of_a_surrogate_pair_and_control_characters_are_shown_escaped(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a\\ud83d": "\\ud83d\\u001b[31m\\n"}\n' * 4, encoding="utf-8")
    output = run_script(*SCRIPT, path).stdout
    assert r'["a\ud83d"]' in output
    assert r"\ud83d\x1b[31m\n x4" in output


def test_a_schema_names_no_format_that_refuses_what_was_seen(tmp_path: Path) -> None:
    seen = [{"a": "2026-01-01T10:00Z", "b": "2026-01-01T10:00:00Z", "c": "m\u00fcller@x.de", "d": "https://x.de/a|b"}]
    path = tmp_path / "a.jsonl"
    path.write_text(lines(*seen), encoding="utf-8")
    properties = json.loads(run_script(*SCRIPT, path, "--schema").stdout)["properties"]
    assert {name: one["format"] for name, one in properties.items() if "format" in one} == {"b": "date-time"}


def test_what_is_read_again_at_the_end_of_a_piece_is_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("[NaN, 1, Infinity]")
    told = [
        "1 x NaN: not JSON, strict parsers refuse the file",
        "1 x Infinity: not JSON, strict parsers refuse the file",
    ]
    assert run_json(*SCRIPT, path)["problems"] == told
    path.write_text(json.dumps([{"text": "x" * 700_000}] * 4).replace('{"text"', '{"a": 1, "a": 2, "text"'))
    assert run_json(*SCRIPT, path)["problems"] == ["4 objects repeat a key: most parsers keep the last value"]


@pytest.mark.parametrize(
    ("text", "required", "present"),
    [('{"a": 1, "a": 2}{"b": 1}', [], 1), ('{"a": 1, "a": 2, "b": 3}', ["a", "b"], 1)],
)
def test_an_object_that_repeats_a_key_has_it_once(tmp_path: Path, text: str, required: list[str], present: int) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    assert paths(run_json(*SCRIPT, path))[".a"]["present"] == present
    assert json.loads(run_script(*SCRIPT, path, "--schema").stdout)["required"] == required


def test_values_over_several_lines_in_a_file_called_jsonl_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{\n "a": 1\n}\n')
    assert "try --document" in run_script(*SCRIPT, path).stderr


def test_a_map_of_many_ids_takes_seconds_not_minutes(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({f"id{number}": number for number in range(120_000)}))
    assert "keys are data" in start_script(*SCRIPT, path).stdout
