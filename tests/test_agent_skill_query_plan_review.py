"""The script of the skill query-plan-review finds the time of each node and the first wrong estimate in a plan."""

import json
from pathlib import Path
from typing import Any

import pytest
from agent_skills import assert_refused, run_json, run_script

SCRIPT = ("query-plan-review", "review_query_plan.py")
NESTED = """
 Sort  (cost=9.00..9.10 rows=2 width=8) (actual time=90.000..95.000 rows=3000.00 loops=1)
   Sort Key: o.id
   Sort Method: external merge  Disk: 512kB
   Buffers: shared hit=1300 read=70, temp read=64 written=64
   ->  Nested Loop  (cost=1.00..8.00 rows=2 width=8) (actual time=0.100..80.000 rows=3000.00 loops=1)
         Buffers: shared hit=1300 read=70
         ->  Seq Scan on orders o  (cost=0.00..4.00 rows=1 width=4) (actual time=0.020..20.000 rows=1500.00 loops=1)
               Filter: ((status = 'geheim'::text) AND (lower(city) = 'x'::text))
               Rows Removed by Filter: 98500
               Buffers: shared hit=100 read=50
         ->  Index Scan using items_order on items i  (cost=0.40..3.00 rows=2 width=4) (actual time=0.010..0.030 rows=2.00 loops=1500)
               Index Cond: (order_id = o.id)
               Index Searches: 1500
               Buffers: shared hit=1200 read=20
 Planning Time: 1.000 ms
 Execution Time: 96.000 ms
"""  # noqa: E501


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def own(report: dict[str, Any]) -> dict[str, float]:
    return {row["node"]: row["own_ms"] for row in report["plans"][0]["nodes"]}


def node(kind: str, time: float, *below: dict[str, Any], loops: int = 1, **facts: Any) -> dict[str, Any]:  # noqa: ANN401
    rows = {"Plan Rows": 10, "Actual Rows": 10.0, "Total Cost": 1.0, "Parent Relationship": "Outer"}
    named = {name.replace("_", " ").title().replace("Cte", "CTE"): value for name, value in facts.items()}
    return rows | {"Node Type": kind, "Actual Total Time": time, "Actual Loops": loops, "Plans": list(below)} | named


def plan(path: Path, root: dict[str, Any], **facts: Any) -> Path:  # noqa: ANN401
    return written(path, json.dumps([{"Plan": root, "Execution Time": root["Actual Total Time"]} | facts]))


def test_the_time_of_a_node_is_its_loops_without_its_children(tmp_path: Path) -> None:
    assert own(run_json(*SCRIPT, written(tmp_path / "p", NESTED))) == {
        "Index Scan using items_order on items i": 45.0,  # 1500 x 0.030
        "Seq Scan on orders o": 20.0,
        "Nested Loop": 15.0,  # 80 - 45 - 20
        "Sort": 15.0,  # 95 - 80
    }


def test_findings_name_the_first_wrong_estimate_the_filter_the_loops_and_the_spill(tmp_path: Path) -> None:
    assert run_json(*SCRIPT, written(tmp_path / "p", NESTED))["plans"][0]["findings"] == [
        "time: 45.0 of 96.0 ms (47%) in Index Scan using items_order on items i",
        "time: 20.0 of 96.0 ms (21%) in Seq Scan on orders o",
        (
            "misestimate: 1500 times more rows than estimated (1 -> 1500) begin at Seq Scan on orders o: "
            "((status = '?'::text) AND (lower(city) = '?'::text))"
        ),
        "spill: Sort: 512 kB on disk",
        "removed: Seq Scan on orders o reads 100000 rows to keep 1500 (Filter)",
        "loops: Index Scan using items_order on items i runs 1500 times, 45.0 ms in all (rounded: +-0.8)",
    ]


def test_blocks_are_those_that_a_node_touched_by_itself(tmp_path: Path) -> None:
    rows = run_json(*SCRIPT, written(tmp_path / "p", NESTED))["plans"][0]["nodes"]
    assert {row["node"].split(" ")[0]: (row["own_read_kB"], row["own_hit_kB"]) for row in rows} == {
        "Index": (160, 9600),
        "Seq": (400, 800),
        "Nested": (0, 0),
        "Sort": (0, 0),
    }


def test_constants_of_the_query_are_not_printed(tmp_path: Path) -> None:
    assert "geheim" not in run_script(*SCRIPT, written(tmp_path / "p", NESTED)).stdout


def test_workers_run_side_by_side_so_their_loops_are_shared_out(tmp_path: Path) -> None:
    inner = node("Index Scan", 0.01, loops=9000)
    root = node("Gather", 100, node("Nested Loop", 90, inner, loops=3), workers_planned=4, workers_launched=2)
    report = run_json(*SCRIPT, plan(tmp_path / "p", root))
    assert own(report) == {"Gather": 10.0, "Nested Loop": 60.0, "Index Scan": 30.0}
    assert "workers: Gather got 2 of 4 workers" in report["plans"][0]["findings"]


def test_a_cte_costs_those_that_read_it_and_not_the_node_it_hangs_from(tmp_path: Path) -> None:
    cte = node("Aggregate", 70, subplan_name="CTE x", parent_relationship="InitPlan")
    first, second = node("CTE Scan", 60, cte_name="x", alias="a"), node("CTE Scan", 15, cte_name="x", alias="b")
    report = run_json(*SCRIPT, plan(tmp_path / "p", node("Hash Join", 80, cte, first, second)))
    assert own(report) == {"Aggregate": 70.0, "CTE Scan on x a": 0.0, "CTE Scan on x b": 5.0, "Hash Join": 5.0}


@pytest.mark.parametrize(
    ("name", "sign"), [("InitPlan 1 (returns $0)", "(id > $0)"), ("InitPlan 1", "(id > (InitPlan 1).col1)")]
)
def test_an_initplan_costs_the_node_whose_condition_needs_it(tmp_path: Path, name: str, sign: str) -> None:
    init = node("Result", 30, subplan_name=name, parent_relationship="InitPlan")
    root = node("Aggregate", 50, init, node("Seq Scan", 45, filter=sign))
    assert own(run_json(*SCRIPT, plan(tmp_path / "p", root))) == {"Result": 30.0, "Seq Scan": 15.0, "Aggregate": 5.0}


def test_an_initplan_that_workers_need_costs_the_gather_that_starts_them(tmp_path: Path) -> None:
    init = node("Result", 30, subplan_name="InitPlan 1", parent_relationship="InitPlan")
    scan = node("Seq Scan", 45, loops=2, filter="(id > (InitPlan 1).col1)")
    root = node("Gather", 80, init, scan, workers_planned=1, workers_launched=1)
    assert own(run_json(*SCRIPT, plan(tmp_path / "p", root))) == {"Result": 30.0, "Seq Scan": 45.0, "Gather": 5.0}


def test_an_initplan_of_a_select_list_costs_a_node_that_took_as_long(tmp_path: Path) -> None:
    init = node("Result", 30, subplan_name="InitPlan 1 (returns $0)", parent_relationship="InitPlan")
    root = node("Limit", 91, init, node("Sort", 90, node("Hash Join", 70, node("Seq Scan", 20))))
    assert own(run_json(*SCRIPT, plan(tmp_path / "p", root))) == {
        "Result": 30.0, "Hash Join": 20.0, "Sort": 20.0, "Seq Scan": 20.0, "Limit": 1.0,
    }  # fmt: skip


@pytest.mark.parametrize("prefix", ["> ", "Nov 21 10:00:00 db postgres[12]: "])
def test_a_prefix_before_each_line_is_refused_as_every_node_would_be_a_plan(tmp_path: Path, prefix: str) -> None:
    lines = "".join(f"{prefix}{line}\n" for line in NESTED.splitlines())
    assert_refused(run_script(*SCRIPT, written(tmp_path / "p", lines)), "stands before the nodes")


def test_text_with_initplans_and_ctes_is_read_as_json_is(tmp_path: Path) -> None:
    text = """Hash Join  (cost=1.00..2.00 rows=10 width=4) (actual time=1.000..80.000 rows=10 loops=1)
  CTE x
    ->  HashAggregate  (cost=1.00..2.00 rows=10 width=4) (actual time=1.000..70.000 rows=10 loops=1)
          Batches: 5  Memory Usage: 4145kB  Disk Usage: 3000kB
  InitPlan 2 (returns $1)
    ->  Result  (cost=1.00..2.00 rows=1 width=4) (actual time=1.000..2.000 rows=1 loops=1)
  ->  CTE Scan on x a  (cost=1.00..2.00 rows=10 width=4) (actual time=1.000..60.000 rows=10 loops=1)
  ->  CTE Scan on x b  (cost=1.00..2.00 rows=10 width=4) (actual time=1.000..15.000 rows=10 loops=1)
        Filter: (id > $1)
  ->  Seq Scan on t  (cost=1.00..2.00 rows=10 width=4) (never executed)
"""
    report = run_json(*SCRIPT, written(tmp_path / "p", text))
    assert own(report) == {
        "HashAggregate": 70.0, "CTE Scan on x a": 0.0, "CTE Scan on x b": 3.0, "Hash Join": 5.0, "Result": 2.0,
        "Seq Scan on t": 0.0,
    }  # fmt: skip
    assert report["plans"][0]["never_executed"] == ["Seq Scan on t"]
    assert "spill: HashAggregate: 3000 kB on disk, 5 batches" in report["plans"][0]["findings"]


def test_what_a_limit_stops_early_is_no_misestimate_unless_a_sort_had_to_read_it_all(tmp_path: Path) -> None:
    few: dict[str, Any] = {"plan_rows": 90_000, "actual_rows": 10.0}
    stopped = node("Limit", 1, node("Index Scan", 1, **few))
    assert run_json(*SCRIPT, plan(tmp_path / "p", stopped))["plans"][0]["findings"][1:] == []
    read = node("Limit", 1, node("Sort", 1, node("Seq Scan", 1, **few), **few))
    assert run_json(*SCRIPT, plan(tmp_path / "p", read))["plans"][0]["findings"][1:] == [
        "misestimate: 9000 times fewer rows than estimated (90000 -> 10) begin at Seq Scan"
    ]


def test_time_outside_of_nodes_is_given_to_triggers_jit_and_planning(tmp_path: Path) -> None:
    path = plan(
        tmp_path / "p",
        node("ModifyTable", 10),
        **{
            "Execution Time": 100.0,
            "Planning Time": 80.0,
            "Triggers": [{"Trigger Name": "RI_1", "Constraint Name": "b_a_fkey", "Time": 60.0, "Calls": 9}],
            "JIT": {"Functions": 3, "Timing": {"Total": 25.0}},
        },
    )
    assert run_json(*SCRIPT, path)["plans"][0]["findings"] == [
        "outside: 90.0 ms belong to no node: triggers, JIT, or the end of workers",
        "jit: 25.0 ms of compiling in a query of 100.0 ms",
        "planning: 80.0 ms to plan, 100.0 ms to run",
        "trigger: 60.0 ms in b_a_fkey",
    ]


def test_the_conversion_of_rows_is_no_time_of_triggers_or_workers(tmp_path: Path) -> None:
    facts = {"Execution Time": 293.0, "Serialization": {"Time": 180.0, "Output Volume": 4931, "Format": "text"}}
    written_out = """
 Seq Scan on cu  (cost=0.00..8.00 rows=90 width=8) (actual time=0.010..100.000 rows=90.00 loops=1)
 Planning Time: 0.400 ms
 Serialization: time=180.000 ms  output=4931kB  format=text
 Execution Time: 293.000 ms
"""
    rows = {"Plan Rows": 90, "Actual Rows": 90}
    for path in (plan(tmp_path / "json", node("Seq Scan", 100, **rows), **facts), written(tmp_path / "p", written_out)):
        findings = run_json(*SCRIPT, path)["plans"][0]["findings"]
        assert "serialize: 180.0 ms to convert the rows for the client (SERIALIZE)" in findings
        assert not any(one.startswith("outside") for one in findings)


def test_a_plan_without_analyze_is_said_to_be_estimates_and_leaves_with_1(tmp_path: Path) -> None:
    done = run_script(*SCRIPT, written(tmp_path / "p", "Seq Scan on t  (cost=0.00..4.00 rows=1 width=4)\n"))
    assert done.returncode == 1
    assert "estimates only, nothing was run" in done.stdout


def test_a_plan_without_times_is_ordered_by_blocks_and_says_so(tmp_path: Path) -> None:
    text = "Seq Scan on t  (cost=0.00..4.00 rows=1 width=4) (actual rows=2 loops=1)\n"
    done = run_script(*SCRIPT, written(tmp_path / "p", text))
    assert (done.returncode, "TIMING OFF" in done.stdout) == (0, True)


def test_what_psql_pgadmin_and_the_log_put_around_a_plan_is_taken_off(tmp_path: Path) -> None:
    psql = "   QUERY PLAN\n-----\n" + NESTED + "(16 rows)\n"
    pgadmin = "".join(f'"{line}"\n' for line in NESTED.splitlines())
    log = "LOG:  duration: 96.000 ms  plan:\nQuery Text: select 1\n" + NESTED.replace("\n ", "\n\t ")
    for text in (psql, pgadmin, log, NESTED.replace("\n", "\r\n")):
        report = run_json(*SCRIPT, written(tmp_path / "p", text))["plans"][0]
        assert (report["execution_ms"], len(report["nodes"])) == (96.0, 4)
    boxed = (
        "QUERY PLAN\n---\n"
        + " +\n".join(json.dumps([{"Plan": node("Result", 1)}], indent=1).splitlines())
        + "\n(1 row)\n"
    )
    assert own(run_json(*SCRIPT, written(tmp_path / "p", boxed))) == {"Result": 1.0}


def test_several_plans_of_one_file_are_told_apart(tmp_path: Path) -> None:
    done = run_script(*SCRIPT, written(tmp_path / "p", NESTED + NESTED))
    assert [line for line in done.stdout.splitlines() if line.startswith("==")] == ["== plan 1 of 2", "== plan 2 of 2"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("SELECT 1;\n", "no plan in it"),
        ('[{"Plan": {"Node Type": "Result", ', "cut off"),
        ('{"a": 1}', 'without "Plan"'),
        ('[{"Plan": {"Actual Rows": 1}}]', "not the shape of a plan"),
        ('[{"Plan": {"Node Type": "Result"}}] [{"Plan": {"Node Type": "Result"}}]', "one line for each"),
        ('- Plan:\n    Node Type: "Result"\n', "FORMAT JSON"),
        (NESTED.replace(" (actual time=0.020", "\n (actual time=0.020"), "a wrapped or damaged line"),
        ("  ->  Seq Scan on t  (cost=0.00..4.00 rows=1 width=4)\n", "first line of the plan is missing"),
    ],
)
def test_what_is_no_plan_is_refused_in_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    assert_refused(run_script(*SCRIPT, written(tmp_path / "p.txt", text)), "p.txt", words)


def test_escape_codes_in_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    text = 'Seq Scan on "a\x1b[2J"  (cost=0.00..4.00 rows=1 width=4) (actual time=0.000..9.000 rows=2 loops=1)\n'
    assert "\x1b" not in run_script(*SCRIPT, written(tmp_path / "p", text)).stdout


PLAIN = """ Seq Scan on t  (cost=0.00..9.00 rows=1 width=4) (actual time=0.010..9.000 rows=1 loops=1)
   Filter: (note = '{}'::text)
 Execution Time: 9.100 ms
"""


@pytest.mark.parametrize(
    "constant",
    [
        "it''s (cost=1..2 rows=3 width=4)",
        "a\n   ->  Seq Scan on evil  (cost=0.00..1.00 rows=1 width=4) (actual time=0.010..8.000 rows=1 loops=1)\nb",
        "a\u2028   ->  Seq Scan on evil  (cost=0.00..1.00 rows=1 width=4) (never executed)",
    ],
)
def test_a_constant_that_looks_like_a_node_is_none(tmp_path: Path, constant: str) -> None:
    report = run_json(*SCRIPT, written(tmp_path / "p.txt", PLAIN.format(constant)))["plans"][0]
    assert [(row["node"], row["own_ms"]) for row in report["nodes"]] == [("Seq Scan on t", 9.0)]
    assert report["execution_ms"] == 9.1


def test_colours_and_the_frame_of_psql_are_taken_off(tmp_path: Path) -> None:
    text = "".join(f"\x1b[32m| {line:<99} |\x1b[0m\n" for line in PLAIN.format("x").splitlines())
    report = run_json(*SCRIPT, written(tmp_path / "p.txt", text))["plans"][0]
    assert (report["execution_ms"], report["nodes"][0]["own_ms"]) == (9.1, 9.0)


def test_the_beginning_of_a_constant_is_masked_too(tmp_path: Path) -> None:
    text = PLAIN.format("hunter2\nmore").replace("rows=1 loops", "rows=500 loops")
    done = run_script(*SCRIPT, written(tmp_path / "p.txt", text))
    assert "misestimate: 500 times more" in done.stdout
    assert "hunter2" not in done.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PLAIN.partition("::text")[0].replace("'{}'", "'cut"), "ends inside a text in quotes"),
        ("-> Nested loop inner join  (cost=4.50 rows=10) (actual time=0.1..0.2 rows=10 loops=1)\n", "MySQL"),
        ('{"query_block": {"select_id": 1}}', "MySQL"),
        ('[{"Plan": {"Node Type": "Seq Scan"}, "Plan": {"Node Type": "Result"}}]', "two plans"),
        ('[{"Plan": {"Node Type": "Seq Scan", "Actual Rows": "1000"}}]', "Actual Rows is '1000'"),
        ('[{"Plan": {"Node Type": "Seq Scan", "Actual Total Time": NaN}}]', "Actual Total Time is 'nan'"),
    ],
)
def test_odd_plans_are_refused_in_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    assert_refused(run_script(*SCRIPT, written(tmp_path / "p.txt", text)), words)


PRETTY = json.dumps([{"Plan": node("Result", 2.0), "Execution Time": 2.0}], indent=2)
COLUMN = [f" {line:<40}" for line in PRETTY.split("\n")]


@pytest.mark.parametrize(
    "text",
    [
        "QUERY PLAN\n-----\n" + "+\n".join(COLUMN) + "\n(1 row)\n",
        "QUERY PLAN\r\n-----\r\n" + "+\r\n".join(COLUMN) + "\r\n(1 row)\r\n",
        "QUERY PLAN\n─────\n" + "↵\n".join(COLUMN) + " \n(1 row)\n",
        "┌───┐\n│ QUERY PLAN │\n├───┤\n" + "↵│\n".join("│" + line for line in COLUMN) + " │\n└───┘\n",
        "-[ RECORD 1 ]---\nQUERY PLAN |" + "+\n           |".join(COLUMN) + "\n",
        'QUERY PLAN\n"' + PRETTY.replace('"', '""') + '"\n',
    ],
    ids=["default", "crlf", "unicode", "unicode frame", "expanded", "csv"],
)
def test_json_is_read_in_each_form_that_psql_prints(tmp_path: Path, text: str) -> None:
    assert own(run_json(*SCRIPT, written(tmp_path / "p", text))) == {"Result": 2.0}


AUTO = json.dumps({"Query Text": "select '{'", "Plan": node("Result", 2.0)}, indent=2)


@pytest.mark.parametrize("form", ["plain", "csv", "json"])
def test_json_plans_are_taken_out_of_each_form_of_the_server_log(tmp_path: Path, form: str) -> None:
    time, message = "2026-11-28 03:28:01.462 UTC", "duration: 3.5 ms  plan:\n" + AUTO
    if form == "plain":
        entries = [f"{time} [9] LOG:  " + text.replace("\n", "\n\t") for text in (message, "statement:\n{x", message)]
    elif form == "csv":
        quoted = message.replace('"', '""')
        entries = [f'{time},"p","p",9,"[local]",6b.1,1,"SELECT",{time},3/2,0,LOG,00000,"{quoted}",,,,,,,,,"psql"'] * 2
    else:
        entries = [json.dumps({"timestamp": time, "message": message})] * 2
    plans = run_json(*SCRIPT, written(tmp_path / "p", "\n".join(entries)))["plans"]
    assert [one["execution_ms"] for one in plans] == [3.5, 3.5]


def begins(path: Path, root: dict[str, Any]) -> list[str]:
    found = run_json(*SCRIPT, plan(path, root))["plans"][0]["findings"]
    return [one.partition("begin at ")[2] for one in found if one.startswith("misestimate")]


def few(kind: str = "Seq Scan", *below: dict[str, Any], **facts: Any) -> dict[str, Any]:  # noqa: ANN401
    return node(kind, 1.0, *below, plan_rows=3000, **facts)


def test_what_streams_below_a_limit_may_stop_early_and_what_reads_all_may_not(tmp_path: Path) -> None:
    for kind, facts in {"Unique": {}, "WindowAgg": {}, "Materialize": {}, "Aggregate": {"strategy": "Sorted"}}.items():
        assert begins(tmp_path / "p", node("Limit", 1.0, few(kind, few(), **facts))) == []
    for kind, facts in {"Sort": {}, "Bitmap Heap Scan": {}, "Aggregate": {"strategy": "Hashed"}}.items():
        assert begins(tmp_path / "p", node("Limit", 1.0, few(kind, few(), **facts))) == ["Seq Scan"]
    joined = few("Hash Join", few(), node("Hash", 1.0, few("Index Scan")))
    assert begins(tmp_path / "p", node("Limit", 1.0, joined)) == ["Index Scan"]


@pytest.mark.parametrize(
    "text",
    [
        """ Bitmap Heap Scan on bm  (cost=46.18..81.20 rows=9 width=73) (actual time=0.793..0.916 rows=9 loops=1)
   ->  BitmapOr  (cost=46.18..46.18 rows=900 width=0) (actual time=0.770..0.771 rows=0 loops=1)
         ->  Bitmap Index Scan on b  (cost=0.00..22.54 rows=900 width=0) (actual time=0.390..0.390 rows=899 loops=1)
""",
        """ Merge Join  (cost=203.49..1708.49 rows=100000 width=12) (actual time=0.620..42.342 rows=100000 loops=1)
   ->  Sort  (cost=64.83..67.33 rows=1000 width=8) (actual time=0.251..0.371 rows=1000 loops=1)
   ->  Sort  (cost=138.66..143.66 rows=2000 width=8) (actual time=0.365..7.962 rows=99951 loops=1)
""",
        """ Limit  (cost=1.00..4.00 rows=100 width=15) (actual time=90.000..91.000 rows=100 loops=1)
   InitPlan 1 (returns $0)
     ->  Aggregate  (cost=1.00..2.00 rows=1 width=32) (actual time=89.000..89.000 rows=1 loops=1)
   ->  Seq Scan on o  (cost=0.00..3.00 rows=200000 width=15) (actual time=89.100..90.900 rows=100 loops=1)
         Filter: (amt > $0)
""",
        """ Limit  (cost=9.00..9.10 rows=5 width=4) (actual time=9.000..9.010 rows=5 loops=1)
   CTE x
     ->  Seq Scan on o  (cost=0.00..9.00 rows=203970 width=36) (actual time=8.000..8.900 rows=5 loops=1)
   ->  CTE Scan on x  (cost=0.00..4079.40 rows=203970 width=4) (actual time=8.001..8.950 rows=5 loops=1)
""",
    ],
)
def test_counts_that_are_not_all_rows_are_no_misestimates(tmp_path: Path, text: str) -> None:
    report = run_json(*SCRIPT, written(tmp_path / "a.txt", text))
    assert not [line for line in report["plans"][0]["findings"] if line.startswith("misestimate")]


def test_a_semi_join_stops_only_its_inner_side_and_an_empty_hash_the_outer(tmp_path: Path) -> None:
    inner = node("Nested Loop", 1.0, few("Index Scan"), few(), join_type="Semi")
    assert begins(tmp_path / "p", inner) == ["Index Scan"]
    empty = node("Hash", 1.0, actual_rows=0, plan_rows=1)
    assert begins(tmp_path / "p", node("Hash Join", 1.0, few(), empty)) == []


def test_a_leader_that_takes_no_part_is_not_counted(tmp_path: Path) -> None:
    scan = node("Seq Scan", 90.0, loops=2)
    found = own(run_json(*SCRIPT, plan(tmp_path / "p", node("Gather", 100.0, scan, workers_launched=2))))
    assert found == {"Seq Scan": 90.0, "Gather": 10.0}
