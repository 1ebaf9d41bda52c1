"""The script of the skill cpu-profile-reading gives each function its time, from each format, and no more than that."""

import cProfile
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from agent_skills import assert_refused, run_json, run_script

SCRIPT = ("cpu-profile-reading", "read_profile.py")


def node(id_: int, name: str, *children: int, url: str = "", line: int = -1) -> dict[str, Any]:
    frame = {"functionName": name, "scriptId": "0", "url": url, "lineNumber": line, "columnNumber": 0}
    return {"id": id_, "callFrame": frame, "hitCount": 0, "children": list(children)}


def v8(samples: list[int], deltas: list[int], end: int, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a profile that began at 1,000 us, of main -> walk -> walk, with collections and idle time beside it."""
    nodes = [
        node(1, "(root)", 2, 5, 6),
        node(2, "main", 3, url="file:///app/main.js", line=0),
        node(3, "walk", 4, url="file:///app/node_modules/@acme/tree/index.js", line=9),
        node(4, "walk", url="file:///app/node_modules/@acme/tree/index.js", line=9),
        node(5, "(garbage collector)"),
        node(6, "(idle)"),
    ]
    return {"nodes": nodes, "startTime": 1000, "endTime": 1000 + end, "samples": samples, "timeDeltas": deltas} | more


def write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def times(report: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Return self and total time of each function by its bare name."""
    return {row["function"].split()[0]: (row["self"], row["total"]) for row in report["self"]}


def test_a_sample_of_v8_lasts_until_the_next_and_the_last_until_the_end(tmp_path: Path) -> None:
    file = write(tmp_path / "a.cpuprofile", v8([2, 4, 5, 6], [1000, 2000, 4000, 8000], 20_000))
    report = run_json(*SCRIPT, file)
    assert times(report) == {"main": (2, 6), "walk": (4, 4), "(garbage": (8, 8)}
    assert report["kinds"] == {"busy": 6, "gc": 8, "idle": 5}
    assert (report["active"], report["duration_ms"]) == (14, 20)


def test_an_idle_v8_profile_says_that_other_threads_are_not_in_it(tmp_path: Path) -> None:
    file = write(tmp_path / "a.cpuprofile", v8([2, 6], [1000, 1000], 20_000))
    assert "threads that V8 does not record" in run_json(*SCRIPT, file)["notes"][0]


def test_samples_that_v8_wrote_out_of_order_are_sorted_by_time(tmp_path: Path) -> None:
    file = write(tmp_path / "a.cpuprofile", v8([2, 6, 3], [1000, 5000, -3000], 7_000))
    assert run_json(*SCRIPT, file)["kinds"] == {"busy": 5, "idle": 1}  # main at 1, walk at 3, idle from 6 to 7


def test_recursion_counts_once_and_a_dependency_is_named_by_its_package(tmp_path: Path) -> None:
    report = run_json(*SCRIPT, write(tmp_path / "a.cpuprofile", v8([4, 2], [0, 3000], 4000)))
    walk = next(row for row in report["total"] if row["function"].startswith("walk"))
    assert (walk["total"], walk["depth"], walk["package"]) == (3, 2, "@acme/tree")
    assert walk["caller"] == "main app/main.js:1"
    assert {row["name"]: row["total"] for row in report["packages"]} == {"@acme/tree": 3, "(own code)": 4}


def test_a_trace_of_chrome_holds_the_same_profile_in_pieces(tmp_path: Path) -> None:
    nodes = v8([], [], 0)["nodes"]
    for one, parent in ((2, 1), (3, 2), (4, 3), (5, 1), (6, 1)):
        nodes[one - 1]["parent"] = parent
    for one in nodes:
        del one["children"]
    events = [
        {"name": "Profile", "pid": 1, "id": "0x1", "args": {"data": {"startTime": 1000}}},
        {"name": "ProfileChunk", "pid": 1, "id": "0x1",
         "args": {"data": {"cpuProfile": {"nodes": nodes, "samples": [2, 4]}, "timeDeltas": [0, 2000]}}},
        {"name": "ProfileChunk", "pid": 1, "id": "0x1",
         "args": {"data": {"cpuProfile": {"samples": [5, 5]}, "timeDeltas": [1000, 500]}}},
    ]  # fmt: skip
    report = run_json(*SCRIPT, write(tmp_path / "trace.json", {"traceEvents": events}))
    assert times(report) == {"main": (2, 3), "walk": (1, 1), "(garbage": (0.5, 0.5)}


def test_lines_of_one_python_function_are_one_function(tmp_path: Path) -> None:
    stacks = (
        "<module> (a.py:9);work (a.py:3) 6\n<module> (a.py:9);work (a.py:4) 4\ntid:7;a.py:<module>:9;a.py:work:3 2\n"
    )
    report = run_json(*SCRIPT, write(tmp_path / "a.txt", stacks))
    assert [(row["function"], row["self"], row["total"]) for row in report["total"]] == [
        ("<module> a.py", 0, 12), ("work a.py", 12, 12)
    ]  # fmt: skip
    assert [(row["line"], row["self"]) for row in report["lines"]] == [(3, 8), (4, 4)]


@pytest.mark.parametrize("thread", ["thread (31305): worker", "thread (0x7F12): worker"])
def test_threads_of_collapsed_stacks_are_told_apart(tmp_path: Path, thread: str) -> None:
    file = write(tmp_path / "a.txt", f"thread (1);main (a.py:1) 5\n{thread};main (a.py:1);work (a.py:3) 2\n")
    assert times(run_json(*SCRIPT, file, "--thread", "worker")) == {"main": (0, 2), "work": (2, 2)}


def test_waiting_is_kept_apart_and_is_said_to_be_the_reason(tmp_path: Path) -> None:
    stacks = (
        "main;serve;epoll_wait 90\nmain;work;java/util/HashMap.get_[j] 9\nmain;VM_GenCollectForAllocation::doit 1\n"
    )
    report = run_json(*SCRIPT, write(tmp_path / "a.txt", stacks))
    assert report["kinds"] == {"busy": 9, "gc": 1, "idle": 90}
    assert report["self"][0]["share"] == 0.9
    assert report["notes"][0] == "idle 90%: trace what it waits for"
    assert report["self"][0]["package"] == "java/util/HashMap"


def test_a_function_of_your_own_with_the_name_of_a_wait_is_work(tmp_path: Path) -> None:
    nodes = [node(1, "(root)", 2, 3), node(2, "select", url="file:///app/main.js", line=4), node(3, "(idle)")]
    nodes[0]["children"].append(4)
    nodes.append(node(4, "spawnSync", url="node:internal/child_process", line=1107))  # waits for another process
    profile = {"nodes": nodes, "startTime": 0, "endTime": 9000, "samples": [2, 3, 4], "timeDeltas": [0, 7000, 1000]}
    assert run_json(*SCRIPT, write(tmp_path / "a.cpuprofile", profile))["kinds"] == {"busy": 7, "idle": 2}
    stacks = "main (a.py:9);select (a.py:4) 8\nget (queue.py:180);Condition.wait (threading.py:331) 3\n"
    assert run_json(*SCRIPT, write(tmp_path / "a.txt", stacks))["kinds"] == {"busy": 8, "idle": 3}
    part = {"type": "sampled", "name": "cpu", "unit": "none", "startValue": 0, "endValue": 2}
    frames = [{"name": "main.poll", "file": "/app/main.go"}, {"name": "runtime.futex", "file": "runtime/sys_linux.s"}]
    profiles = [part | {"samples": [[0], [1]], "weights": [2, 1]}]
    go = {"$schema": "speedscope", "shared": {"frames": frames}, "profiles": profiles}
    assert run_json(*SCRIPT, write(tmp_path / "go.json", go))["kinds"] == {"busy": 2, "idle": 1}


def test_speedscope_is_read_sampled_and_evented_and_by_thread(tmp_path: Path) -> None:
    def opened(kind: str, at: int, frame: int) -> dict[str, Any]:
        return {"type": kind, "at": at, "frame": frame}

    data = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "shared": {"frames": [{"name": "main"}, {"name": "work", "file": "w.rb", "line": 3}]},
        "profiles": [
            {"type": "sampled", "name": "one", "unit": "seconds", "startValue": 0, "endValue": 0.003,
             "samples": [[0], [0, 1]], "weights": [0.001, 0.002]},
            {"type": "evented", "name": "two", "unit": "microseconds", "startValue": 0, "endValue": 9000,
             "events": [opened("O", 0, 0), opened("O", 4000, 1), opened("C", 5000, 1), opened("C", 9000, 0)]},
        ],
    }  # fmt: skip
    file = write(tmp_path / "a.json", data)
    assert times(run_json(*SCRIPT, file)) == {"main": (9, 12), "work": (3, 3)}
    assert times(run_json(*SCRIPT, file, "--thread", "two")) == {"main": (8, 9), "work": (1, 1)}
    data["profiles"][1]["events"][2]["frame"] = 0  # type: ignore[index]
    assert_refused(run_script(*SCRIPT, write(file, data)), "a.json", "5000")


RAW = """PeriodType: cpu nanoseconds
Period: 10000000
Time: 2026-11-25 09:42:25 +0000 UTC
Duration: 1.30
Samples:
samples/count cpu/nanoseconds
          3   30000000: 1 2
                request:[7]
          1   10000000: 2
Locations
     1: 0x53ff27 M=1 runtime.memmove /usr/lib/go/src/runtime/memmove.s:10:0 s=10
             main.copyAll /src/main.go:8:0 s=5
     2: 0x53ff46 M=1 main.main /src/main.go:32:0 s=27
Mappings
1: 0x400000/0x541000/0x0 x [FN]
"""
TOP = """File: x
Type: cpu
Duration: 1.30s, Total samples = 40ms ( 3.08%)
Dropped 2 nodes (cum <= 0.20ms)
      flat  flat%   sum%        cum   cum%
      30ms 75.00% 75.00%       30ms 75.00%  runtime.memmove
      10ms 25.00%   100%       40ms   100%  main.main
         0     0%   100%       30ms 75.00%  main.copyAll (inline)
"""


def test_pprof_says_the_same_as_stacks_with_inlined_functions_and_as_a_table(tmp_path: Path) -> None:
    expected = {"runtime.memmove": (30, 30), "main.copyAll": (0, 30), "main.main": (10, 40)}
    for text in (RAW, TOP):
        report = run_json(*SCRIPT, write(tmp_path / "a.txt", text))
        assert times(report) == expected
        assert report["duration_ms"] == 1300
    assert "2 functions were dropped" in " ".join(report["notes"])
    heap = RAW.replace("cpu/nanoseconds", "inuse_space/bytes")
    assert_refused(run_script(*SCRIPT, write(tmp_path / "a.txt", heap)), "bytes")


def test_perf_script_is_read_without_another_tool(tmp_path: Path) -> None:
    block = "app  5/6 [000] 4.97: 250 cpu-clock:ppp: \n\t 14 leaf+0xa (/usr/bin/app)\n\t 9 main+0x1 (/usr/bin/app)\n\n"
    report = run_json(*SCRIPT, "-", stdin="# a comment\n" + block * 3)
    assert {row["function"]: (row["self"], row["total"]) for row in report["self"]} == {
        "leaf bin/app": (3, 3), "main bin/app": (0, 3)
    }  # fmt: skip


def test_focus_keeps_what_runs_below_a_function(tmp_path: Path) -> None:
    file = write(tmp_path / "a.txt", "main;handle;sql 5\nmain;handle;handle;json 3\nmain;other 90\n")
    assert times(run_json(*SCRIPT, file, "--focus", "handle")) == {"sql": (5, 5), "json": (3, 3), "handle": (0, 8)}
    assert run_script(*SCRIPT, file, "--focus", "nobody").returncode == 1


def test_a_difference_within_the_noise_of_sampling_is_called_that(tmp_path: Path) -> None:
    old = write(tmp_path / "old.txt", "main;slow (app.1a2b3c4d.js:1) 500\nmain;rest 480\nmain;small 20\n")
    new = write(tmp_path / "new.txt", "main;slow (app.99ffee00.js:7) 100\nmain;rest 873\nmain;small 27\n")
    rows = {row["function"]: row for row in run_json(*SCRIPT, new, "--baseline", old)["difference"]["rows"]}
    assert (rows["slow app.js"]["points"], rows["slow app.js"]["real"]) == (-40, True)
    # 1.96 * sqrt(.02 * .98 / 1000) = 0.87 points, 1.96 * sqrt(.027 * .973 / 1000) = 1.00: together 1.33
    assert (rows["small"]["points"], rows["small"]["noise"], rows["small"]["real"]) == (0.7, 1.33, False)


def test_what_is_no_profile_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "a.prof"
    for content, word in (
        (b"", "empty"), (b"PERFILE2\0\0", "perf script"), (b"FLR\0\0", "jfrconv"), (b"<!DOCTYPE html>", "picture"),
        (b"\x0a\x04\x08\x01\x10\x02\x12", "pprof -raw"), (b'{"nodes": [', "line 1"), (b'{"snapshot": {}}', "heap"),
        (b"just\nsome text\n", "line 1"), (gzip.compress(b"main;a 1\n")[:-9], "gzip"), (b"{}", "JSON without samples"),
        (json.dumps(v8([9], [1], 2)).encode(), "not in its tree"), (json.dumps(v8([2], [1, 2], 2)).encode(), "2 times"),
        (b'{"nodes": [{"id": 1}], "startTime": 1, "samples": [1], "timeDeltas": [1]}', "damaged"),
    ):  # fmt: skip
        path.write_bytes(content)
        assert_refused(run_script(*SCRIPT, path), "a.prof", word)
    assert_refused(run_script(*SCRIPT, tmp_path / "none"), "none")


def test_a_tree_that_runs_in_a_circle_is_refused(tmp_path: Path) -> None:
    data = v8([4], [1], 2)
    data["nodes"][3]["children"] = [2]
    assert_refused(run_script(*SCRIPT, write(tmp_path / "a.json", data)), "circle")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_encodings_and_line_ends_of_windows_are_read_and_damaged_lines_counted(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes("main;größe 3\r\ncut of\r\nmain 1\r\n".encode(encoding))
    report = run_json(*SCRIPT, file)
    assert times(report) == {"größe": (3, 3), "main": (1, 4)}
    assert report["notes"][0] == "1 lines left out, the first is line 2"


def test_queries_passwords_and_control_characters_are_not_printed(tmp_path: Path) -> None:
    data = v8([2], [0], 1000)
    data["nodes"][1] = node(2, "bad\x1b[31m", url="https://ann:hunter2@a.example.com/x.js?token=geheim", line=1)
    out = run_script(*SCRIPT, write(tmp_path / "a.json", data)).stdout
    assert not [secret for secret in ("hunter2", "geheim", "\x1b") if secret in out]
    assert "x.js:2" in out


def speedscope(**profile: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return one profile of 10 ms with the frames a and b."""
    head = {"name": "p", "unit": "milliseconds", "startValue": 0, "endValue": 10}
    return {"$schema": "speedscope", "shared": {"frames": [{"name": "a"}, {"name": "b"}]}, "profiles": [head | profile]}


SAMPLED = {"type": "sampled", "samples": [[0, 1]], "weights": [10]}


def test_all_members_of_a_gzip_file_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.gz"
    file.write_bytes(gzip.compress(b"main;a 10\n") + gzip.compress(b"main;b 90\n"))
    assert times(run_json(*SCRIPT, file)) == {"a": (10, 10), "b": (90, 90), "main": (0, 100)}


def test_colours_and_odd_line_ends_leave_a_stack_whole(tmp_path: Path) -> None:
    file = write(tmp_path / "a.txt", "\x1b[31mmain;a 10\x1b[0m\nmain;b\u2028c 30\r\n")
    report = run_json(*SCRIPT, file)
    assert {row["function"]: row["self"] for row in report["self"]} == {"b?c": 30, "a": 10, "main": 0}
    assert not any("left out" in note for note in report["notes"])


def test_events_of_perf_that_are_added_up_are_named(tmp_path: Path) -> None:
    text = "".join(
        f"prog 1 1.{n}: 5 {event}:\n\t55d main+0x1 (/bin/prog)\n\n"
        for n, event in enumerate(("cycles", "cache-misses"))
    )
    notes = run_json(*SCRIPT, write(tmp_path / "a.txt", text))["notes"]
    assert "2 events are added up (cache-misses, cycles): run `perf script` for one of them" in notes


def test_a_baseline_that_only_waited_is_compared(tmp_path: Path) -> None:
    old, new = write(tmp_path / "old", "main;futex 10\n"), write(tmp_path / "new", "main;work 10\n")
    change = run_json(*SCRIPT, new, "--baseline", old)["difference"]
    assert (change["active_before"], change["active_after"]) == (0, 10)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (v8([2], [0], 10) | {"nodes": [node(1, "a"), node(1, "b")]}, "have one number"),
        (speedscope(**SAMPLED | {"weights": [-1]}), "below 0"),
        (speedscope(**SAMPLED | {"samples": [[-1]]}), "below 0"),
        (speedscope(type="evented", events=[{"type": "O", "frame": 0, "at": 0}]), "1 frames are never closed"),
        (
            speedscope(**SAMPLED)
            | {"profiles": [*speedscope(**SAMPLED)["profiles"], *speedscope(**SAMPLED | {"unit": "none"})["profiles"]]},
            "some in samples",
        ),
        ("main;a " + "9" * 400, "too large"),
        ("hello\nthis is note 5\n", "line 1 is no stack"),
    ],
)
def test_odd_profiles_are_refused_in_one_sentence(tmp_path: Path, content: object, words: str) -> None:
    assert_refused(run_script(*SCRIPT, write(tmp_path / "a", content)), words)


def test_what_cprofile_writes_is_named_and_refused(tmp_path: Path) -> None:
    profile = cProfile.Profile()
    profile.runcall(sorted, [2, 1])
    profile.dump_stats(tmp_path / "a.pstats")
    (tmp_path / "a.txt").write_text("         270 function calls (269 primitive calls) in 0.001 seconds\n")
    for name in ("a.pstats", "a.txt"):
        assert_refused(run_script(*SCRIPT, tmp_path / name), name, "cProfile", "py-spy")


def test_times_instead_of_samples_make_no_share_exact() -> None:
    microseconds = "P1;T2;a.py:work:5 14200000\nP1;T2;a.py:rest:3 800000\n"
    report = run_json(*SCRIPT, "-", stdin=microseconds)
    assert (report["samples"], report["self"][0]["noise"]) == (0, 0.0)
    assert report["notes"] == [
        (
            "the counts add up to 15,000,000: times or periods (Austin, perf), not samples, "
            "so nothing says how exact a share is"
        )
    ]
    assert run_script(*SCRIPT, "-", stdin=microseconds).stdout.startswith(
        "profile collapsed stacks, samples not counted\n"
    )
