"""The script of the skill csv-profiling says what a CSV file holds and what will go wrong when it is loaded."""

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from agent_skills import assert_refused, run_json, run_script

SCRIPT = ("csv-profiling", "profile_csv.py")


def profile(path: Path, content: str | bytes, *arguments: str) -> dict[str, Any]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return run_json(*SCRIPT, path, *arguments)


def columns(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {column["name"]: column for column in report["columns"]}


def test_types_nulls_and_ranges_of_columns_are_counted(tmp_path: Path) -> None:
    report = profile(tmp_path / "a.csv", "id,price,day\n1,2.5,2024-02-01\n2,NA,2024-01-31\n3,,2024-03-01\n")
    found = columns(report)
    assert (report["rows"], report["delimiter"], report["problems"]) == (3, ",", [])
    assert [(c["type"], c["nulls"], c["distinct"]) for c in found.values()] == [
        ("integer", 0, 3),
        ("decimal", 2, 1),
        ("date", 0, 3),
    ]
    assert (found["id"]["min"], found["id"]["max"], found["id"]["unique"]) == (1, 3, True)
    assert (found["day"]["min"], found["day"]["max"]) == ("2024-01-31", "2024-03-01")
    assert found["price"]["notes"] == ["constant '2.5'", "several nulls: na, empty"]


def test_a_column_of_mixed_numbers_and_text_is_named_with_the_line(tmp_path: Path) -> None:
    report = profile(tmp_path / "a.csv", "id,n\n1,4\n2,5\n3,soon\n4,6\n")
    assert columns(report)["n"]["notes"] == ["mixed: 1 text, first 'soon' line 4"]


def test_codes_with_leading_zeros_and_long_numbers_are_to_stay_text(tmp_path: Path) -> None:
    report = profile(tmp_path / "a.csv", "zip,card\n01067,4000000000000000001\n10115,4000000000000000002\n")
    assert columns(report)["zip"]["type"] == "code"
    assert columns(report)["card"]["notes"] == ["2 above 2^53: read as text or int64, never float"]


def test_the_first_number_that_a_float_does_not_hold_is_named(tmp_path: Path) -> None:
    report = profile(tmp_path / "a.csv", f"id,n\n1,{2**53 + 1}\n2,7\n")
    assert columns(report)["n"]["notes"] == ["1 above 2^53: read as text or int64, never float"]


def test_a_comma_before_three_digits_stays_ambiguous_until_a_value_has_two_separators(tmp_path: Path) -> None:
    report = profile(tmp_path / "a.csv", "a;b\n1,234;1,234\n5,678;1,234,567\n")
    assert columns(report)["a"]["notes"] == ["1,234 may be 1.234 or 1234"]
    assert columns(report)["b"]["notes"] == []


def test_the_order_of_day_and_month_is_proven_or_left_open(tmp_path: Path) -> None:
    report = profile(tmp_path / "a.csv", "a,b,c\n03/04/2024,13/04/2024,13/04/2024\n05/06/2024,01/02/2024,04/13/2024\n")
    assert [column["notes"][0] for column in report["columns"]] == [
        "day or month first: cannot be told",
        "day first",
        "day/month and month/day mixed",
    ]


def test_encoding_delimiter_and_decimal_comma_of_a_german_export_are_found(tmp_path: Path) -> None:
    report = profile(tmp_path / "a.csv", "name;preis\nMüller;1,5\nMeyer;2.000,75\n".encode("cp1252"))
    assert (report["encoding"], report["delimiter"]) == ("cp1252", ";")
    assert (columns(report)["preis"]["type"], columns(report)["preis"]["max"]) == ("comma", 2000.75)


def test_rows_of_another_length_and_repeated_headers_are_counted(tmp_path: Path) -> None:
    report = profile(tmp_path / "a.csv", "a,b\n1,2\n3\na,b\n4,5,6\n")
    assert report["problems"] == [
        "1 repeated header rows, first line 4",
        "1 rows with too few fields, first line 3",
        "1 rows with too many, first line 5",
    ]


def test_many_distinct_values_are_estimated_and_an_outlier_is_seen(tmp_path: Path) -> None:
    lines = [f"{number},{10**9 if number == 7 else number % 9}" for number in range(60_000)]
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(("id,n\n" + "\n".join(lines)).encode()))
    found = columns(run_json(*SCRIPT, path))
    assert not found["id"]["exact"]
    assert 57_000 < found["id"]["distinct"] < 63_000
    assert found["id"]["unique"]
    assert found["n"]["notes"] == ["outlier: p1..p99 is 0..8"]


def test_a_key_is_proven_or_refuted_with_the_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,day\n1,mon\n1,tue\n2,mon\n1,mon\n")
    refuted = run_script(*SCRIPT, path, "--key", "id,day")
    assert refuted.returncode == 1
    assert "1, mon (lines 2 and 5)" in refuted.stdout
    path.write_text("id,day\n1,mon\n1,tue\n")
    assert run_script(*SCRIPT, path, "--key", "id,day").returncode == 0
    assert_refused(run_script(*SCRIPT, path, "--key", "ident"), "no column 'ident'", "id, day")


def test_a_key_name_that_two_columns_have_proves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,id,b\n1,1,3\n2,1,4\n")
    assert_refused(run_script(*SCRIPT, path, "--key", "id"), "column name 'id' 2 times", "--no-header")
    assert run_script(*SCRIPT, path, "--key", "b").returncode == 0


def test_what_is_no_csv_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for content, words in ((b"PK\x03\x04rest", "Excel"), (b"", "empty"), (bytes(range(256)) * 20, "binary")):
        path.write_bytes(content)
        assert_refused(run_script(*SCRIPT, path), words)
    assert_refused(run_script(*SCRIPT, tmp_path / "none.csv"), "No such file")
    assert_refused(run_script(*SCRIPT, tmp_path), "not a file")


def test_a_quote_that_never_closes_is_named_with_its_line(tmp_path: Path) -> None:
    report = profile(tmp_path / "a.csv", 'a,b\n1,2\n3,"4\n5,6\n')
    assert report["problems"] == ["1 quote that never closes: the rows from there on are lost, first line 3"]
    assert profile(tmp_path / "a.csv", 'a,b\n1,"2\n3"\n')["problems"] == []


def test_lines_above_the_header_are_noticed(tmp_path: Path) -> None:
    report = profile(tmp_path / "a.csv", "Report\n\na;b\n1;2\n3;4\n", "--delimiter", ";")
    assert "most rows have 2 fields, the first 1: cut off lines above the header" in report["problems"]
    report = profile(tmp_path / "a.csv", "sep=;\na;b\n1;2\n")
    assert list(columns(report)) == ["a", "b"]
    assert "line sep=" in report["problems"][0]


def test_phone_numbers_stay_text_and_values_stay_on_their_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    found = columns(profile(path, 'p\tn\n+4930123456\t"a\nb"\n+4930123457\t"a\nb"\n', "--delimiter", "\\t"))
    assert found["p"]["type"] == "code"
    assert "a b x2" in run_script(*SCRIPT, path).stdout


def test_the_key_of_no_rows_is_not_proven(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n")
    assert_refused(run_script(*SCRIPT, path, "--key", "a"), "no rows")
    path.write_text("a,b\n1,2\n")
    assert run_script(*SCRIPT, path, "--key", "a, b").returncode == 0


def test_values_of_secret_columns_are_not_printed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,password,api_key\n1,hunter1,abc\n2,hunter2,abc\n3,77,abc\n")
    for output in (run_script(*SCRIPT, path).stdout, run_script(*SCRIPT, path, "--json").stdout):
        assert "hidden" in output
        assert "hunter" not in output
        assert "abc" not in output


def test_numbers_and_repeated_keys_of_secret_columns_are_not_printed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    numbers = [*range(7001, 7030), 7001, 987654]
    path.write_text("pin_token,day_secret,n\n" + "".join(f"{one},2026-11-01,{one}\n" for one in numbers))
    for output in (run_script(*SCRIPT, path, "--json"), run_script(*SCRIPT, path)):
        assert "2026-11-01" not in output.stdout
        token, _, rest = output.stdout.partition("day_secret")
        assert not {"7001", "987654"} & set(re.findall(r"\d+", token))
        assert "987654" in rest
    told = run_script(*SCRIPT, path, "--key", "pin_token,n")
    assert (told.returncode, told.stdout.splitlines()[-1]) == (1, "  hidden, 7001 (lines 2 and 31)")


def test_a_column_that_a_spreadsheet_damaged_throughout_is_named(tmp_path: Path) -> None:
    report = profile(tmp_path / "a.csv", "id,card,mass\n1,1.23457E+15,1.5e-7\n2,4.00000E+15,2.5e-7\n")
    assert "some like 1E+11: digits lost in a spreadsheet" in columns(report)["card"]["notes"]
    assert columns(report)["mass"]["notes"] == []


def test_nul_bytes_are_a_problem(tmp_path: Path) -> None:
    assert profile(tmp_path / "a.csv", "a,b\n1,x\0y\n")["problems"] == [
        "1 lines with NUL bytes, left out here, first line 2"
    ]


def test_a_row_that_a_stray_quote_swallows_is_told_with_and_without_a_key(tmp_path: Path) -> None:
    content = 'id,a,n\n1,"x",1\n2,"y,2\n3,"z",3\n4,"w",4\n'
    report = profile(tmp_path / "a.csv", content)
    told = "1 records over several lines with a stray quote: rows swallowed, first line 3"
    assert (report["rows"], report["problems"]) == (3, [told])
    assert profile(tmp_path / "a.csv", content, "--key", "id")["problems"] == [told]
    good = profile(tmp_path / "b.csv", 'id,a\n1,"x ""y"",\nz"\n2,"a, b"\n')
    assert (good["rows"], good["problems"]) == (2, [])


def test_rows_without_all_parts_are_told_with_a_key(tmp_path: Path) -> None:
    report = profile(tmp_path / "a.csv", "id,day\n1,2\n1\n", "--key", "id,day")
    assert report["problems"] == ["1 rows with too few fields or too many, first line 3"]
    assert report["rows_with_empty"] == 1


def test_a_sentinel_is_noticed_where_another_value_is_more_frequent(tmp_path: Path) -> None:
    rows = [f"{n % 1500},2024-01-0{n % 5 + 1} 10:00:00,{n / 7:.3f}" for n in range(3000)]
    rows += ["9999,1900-01-01 00:00:00,-999.0"] * 2
    report = profile(tmp_path / "a.csv", "\n".join(["n,t,x", *rows]) + "\n")
    notes = {name: column["notes"] for name, column in columns(report).items()}
    assert "2 x 9999: stands for missing?" in notes["n"]
    assert notes["t"] == ["2 x 1900-01-01 00:00:00: stands for missing?"]
    assert "2 x -999.0: stands for missing?" in notes["x"]
    assert not columns(profile(tmp_path / "b.csv", "n\n1\n999\n999\n1200\n1\n1\n"))["n"]["notes"]


def test_numbers_and_dates_that_a_loader_takes_for_text_are_counted(tmp_path: Path) -> None:
    report = profile(
        tmp_path / "a.csv",
        "a;b;c\n1 234,50;05-JAN-24;red\n12,00 \u20ac;2024/01/31;12 apes\n"
        "-$5;Jan 5, 2024;may 1\n1'000;5. Februar 2024;x\n",
    )
    found = columns(report)
    assert found["a"]["notes"] == ["4 numbers with a sign, space or apostrophe: text to a loader"]
    assert found["b"]["notes"] == ["4 dates of another form: text to a loader"]
    assert found["c"]["notes"] == []


def test_each_kind_that_does_not_fit_is_named(tmp_path: Path) -> None:
    report = profile(tmp_path / "a.csv", "n,m\n1,1\n2,1\n3,1\nsoon,1\n2024-01-01,1\n2024-01-02,1\n7,2\n")
    assert columns(report)["n"]["notes"][:2] == [
        "mixed: 1 text, first 'soon' line 5",
        "mixed: 2 date, first '2024-01-01' line 6",
    ]


def test_an_encoding_that_is_a_guess_is_called_one(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("id;n\n1;J\u00f6rg\n2;a\n".encode("latin-1"))
    assert "cp1252 (a guess: not UTF-8)" in run_script(*SCRIPT, path).stdout
    assert "guess" not in run_script(*SCRIPT, path, "--encoding", "cp1252").stdout


def test_a_compressed_file_without_its_suffix_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n"))
    assert_refused(run_script(*SCRIPT, path), "gzip without the suffix")


def test_a_first_row_with_a_date_or_a_code_is_no_header(tmp_path: Path) -> None:
    for row in ("2024-01-01,ann", "007,ann", "05.01.2024,ann"):
        assert profile(tmp_path / "a.csv", f"{row}\n{row}\n")["problems"][-1].startswith(
            "the first row looks like data"
        )


def test_a_printed_table_is_told_from_csv(tmp_path: Path) -> None:
    psql = " id | name\n----+------\n  1 | ann\n(1 row)\n"
    mysql = "+----+------+\n| id | name |\n+----+------+\n|  1 | ann  |\n+----+------+\n"
    for content in (psql, mysql, "| id | n |\n|----|---|\n| 1 | a |\n"):
        assert any(
            "ruled lines of a printed table" in problem for problem in profile(tmp_path / "a.csv", content)["problems"]
        )
    assert profile(tmp_path / "b.csv", "a,b\n--,-\n-,--\n")["problems"] == []


def test_a_word_for_missing_in_a_key_is_told_and_refutes_nothing(tmp_path: Path) -> None:
    report = profile(tmp_path / "a.csv", "iso,name\nDE,Germany\nNA,Namibia\n", "--key", "iso")
    assert (report["rows_with_duplicate"], report["rows_with_empty"]) == (0, 0)
    assert report["problems"] == ["1 key parts 'NA': a value, or missing?, first line 3"]


def test_thousands_with_a_point_are_no_decimals_without_a_word(tmp_path: Path) -> None:
    path = tmp_path / "de.csv"
    path.write_text("a;b;c\n1.234;1.234,50;0.123\n5.678;1.234;5.678\n12;3,5;1.222\n")
    notes = {name: column["notes"] for name, column in columns(run_json(*SCRIPT, path)).items()}
    told = ["1.234 may be 1.234 or 1234"]
    assert notes == {"a": told, "b": told, "c": []}


def test_a_quote_that_is_not_doubled_is_told_though_the_fields_are_as_many(tmp_path: Path) -> None:
    path = tmp_path / "mysql.csv"
    path.write_text('id,note\n1,"a ""b"" c"\n2,"C:\\dir\\"\n3,x "y"\n4,"say \\"hi\\" bye"\n5,"5" disk"\n')
    assert run_json(*SCRIPT, path)["problems"] == [
        r"2 lines with a stray quote (\" of MySQL, or not doubled): their fields are not as written, first line 5"
    ]


def test_long_numbers_are_shown_in_full(tmp_path: Path) -> None:
    path = tmp_path / "epoch.csv"
    path.write_text("at\n1764057600000\n1764057600039\n")
    assert "1764057600000..1764057600039" in run_script(*SCRIPT, path).stdout


def test_a_line_of_another_source_does_not_change_the_encoding_of_the_others(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"id,n\n" + "1,Müller\n".encode() * 9 + "2,Schröder\n".encode("cp1252"))
    report = run_json(*SCRIPT, path)
    assert (report["encoding"], report["problems"]) == ("utf-8", ["1 lines that are not utf-8, first line 11"])
    path.write_bytes(b"id,n\n" + "1,Müller\n".encode("cp1252") * 9)
    assert run_json(*SCRIPT, path)["encoding"] == "cp1252"


def test_a_damaged_archive_is_unreadable_and_refutes_no_key(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"id,n\n1,2\n")[:10] + b"\xff" * 50)
    assert_refused(run_script(*SCRIPT, tmp_path / "a.csv.gz", "--key", "id"), "cannot read")


def test_an_empty_key_is_refused_and_so_is_a_file_of_a_mark_alone(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,n\n1,2\n")
    assert_refused(run_script(*SCRIPT, tmp_path / "a.csv", "--key", ""), "no column ''")
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf")
    assert_refused(run_script(*SCRIPT, tmp_path / "a.csv"), "empty")


def test_what_overflows_a_float_is_text_and_few_widths_are_not_most(tmp_path: Path) -> None:
    report = profile(tmp_path / "a.csv", "id,n,x\n9e1234,2,3\n4\n1,2,3,4\n")
    assert columns(report)["id"]["kinds"] == {"text": 1, "integer": 2}
    assert not [problem for problem in report["problems"] if "most rows" in problem]


def test_times_with_and_without_an_offset_are_told_apart(tmp_path: Path) -> None:
    bare, zoned, also = "2024-07-01 10:00:00", "2024-07-01T10:00:00Z", "2024-07-01T10:00+0200"
    report = profile(
        tmp_path / "a.csv", f"a,b,c\n{bare},{zoned},{bare}\n{zoned},{also},{bare}\n{also},{zoned},2024-07-01\n"
    )
    found = columns(report)
    assert "2 of 3 times with an offset" in found["a"]["notes"]
    assert not [note for name in "bc" for note in found[name]["notes"] if "offset" in note]


def test_the_times_that_postgresql_copies_out_are_times(tmp_path: Path) -> None:
    first, second = "2024-03-31 02:30:00+02,2024-03-31 02:30:00", "2024-03-31 02:30:00.5-05,2024-03-31 02:30:00-05"
    found = columns(profile(tmp_path / "a.csv", f"a,b\n{first}\n{second}\n"))
    assert found["a"]["type"] == found["b"]["type"] == "datetime"
    assert "1 of 2 times with an offset" in found["b"]["notes"]


def test_dates_that_no_calendar_has_are_counted(tmp_path: Path) -> None:
    report = profile(tmp_path / "a.csv", "id,day\n1,0000-00-00\n2,2023-02-29 10:00\n3,2024-02-29\n")
    assert "2 dates that no calendar has" in columns(report)["day"]["notes"]


def test_spaces_around_names_in_the_header_are_named_since_loaders_keep_them(tmp_path: Path) -> None:
    report = profile(tmp_path / "a.csv", "id, name,v\u00a0\n1,a,2\n2,b,3\n")
    assert report["problems"] == ["1 header names with spaces around, such as ' name', first line 1"]
    assert set(columns(report)) == {"id", "name", "v"}
    assert profile(tmp_path / "b.csv", " 1,2\n3,4\n", "--no-header")["problems"] == []


def test_digits_of_other_scripts_are_no_numbers_to_a_loader(tmp_path: Path) -> None:
    report = profile(tmp_path / "a.csv", "id,n\n1,\uff11\n2,\u0662\n")
    assert [column["type"] for column in report["columns"]] == ["integer", "text"]


@pytest.mark.parametrize("content", ['id,t\n1,"abc\n2,d\n1,e\n', 'id,t\n1,"a\n2,"b"\n3,c\n'])
def test_a_key_is_not_proven_while_a_quote_hides_rows(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    done = run_script(*SCRIPT, tmp_path / "a.csv", "--key", "id")
    assert (done.returncode, "not proven: rows are missing" in done.stdout) == (1, True), done.stdout
