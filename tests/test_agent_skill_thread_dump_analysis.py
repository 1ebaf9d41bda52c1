"""The script of the skill thread-dump-analysis finds who waits for whom in dumps of Java, Go and Python."""

import json
from pathlib import Path
from typing import Any

import pytest
from agent_skills import assert_refused, run_json, run_script

SCRIPT = ("thread-dump-analysis", "analyze_threads.py")


def java(name: str, number: int, state: str, *lines: str) -> str:
    below = "".join(f"\t{line}\n" for line in lines)
    return f'"{name}" #{number} prio=5 tid=0x1 nid=0x{number:x} x\n   java.lang.Thread.State: {state}\n{below}\n'


def written(path: Path, *parts: str) -> Path:
    path.write_text("Full thread dump OpenJDK\n\n" * parts[0].startswith('"') + "".join(parts))
    return path


WAITS = "- waiting to lock <0x0a> (a com.example.Cache)"


def test_a_circle_of_waiting_threads_is_a_deadlock(tmp_path: Path) -> None:
    circle = (
        java(
            "a",
            1,
            "BLOCKED (on object monitor)",
            "at x.A.f(A.java:1)",
            "- waiting to lock <0x02> (a B)",
            "- locked <0x01> (a A)",
        ),
        java(
            "b",
            2,
            "BLOCKED (on object monitor)",
            "at x.B.f(B.java:1)",
            "- waiting to lock <0x03> (a C)",
            "- locked <0x02> (a B)",
        ),
        java(
            "c",
            3,
            "WAITING (parking)",
            "at x.C.f(C.java:1)",
            "- parking to wait for  <0x01> (a A)",
            "- locked <0x03> (a C)",
        ),
        java("d", 4, "BLOCKED (on object monitor)", "at x.D.f(D.java:1)", "- waiting to lock <0x01> (a A)"),
    )
    done = run_script(*SCRIPT, written(tmp_path / "d", *circle))
    assert done.returncode == 1
    assert 'DEADLOCK "a" #1 waits for "b" #2 waits for "c" #3 waits for "a" #1\n' in done.stdout


def test_a_lock_is_shown_with_its_holder_and_those_that_wait(tmp_path: Path) -> None:
    dump = written(
        tmp_path / "d",
        java(
            "owner", 1, "RUNNABLE", "at java.net.Socket.read(Native Method)", "at x.Api.call(Api.java:7)",
            "- locked <0x0a> (a com.example.Cache)",
        ),
        *[java(f"w-{n}", n, "BLOCKED (on object monitor)", "at x.Cache.get(Cache.java:3)", WAITS) for n in (2, 3)],
    )  # fmt: skip
    assert run_json(*SCRIPT, dump)["locks"] == [
        {
            "lock": "0x0a",
            "kind": "com.example.Cache",
            "waiting": 2,
            "names": ['"w-2" #2', '"w-3" #3'],
            "holder": '"owner" #1',
            "holder_state": "RUNNABLE",
            "holder_at": "x.Api.call(Api.java:7)",
        }
    ]


def test_a_synchronizer_in_the_list_of_owned_ones_is_held(tmp_path: Path) -> None:
    dump = written(
        tmp_path / "d",
        java("o", 1, "RUNNABLE", "at x.O.f(O.java:1)") + "   Locked ownable synchronizers:\n\t- <0x0b> (a Sync)\n\n",
        java("w", 2, "WAITING (parking)", "at x.W.f(W.java:1)", "- parking to wait for  <0x0b> (a Sync)"),
    )
    assert run_json(*SCRIPT, dump)["locks"][0]["holder"] == '"o" #1'


def test_a_monitor_that_wait_gave_back_is_not_held(tmp_path: Path) -> None:
    lines = (
        "at java.lang.Object.wait(Native Method)",
        "- waiting on <0x0a> (a Q)",
        "at x.Q.take(Q.java:1)",
        "- locked <0x0a> (a Q)",
    )
    report = run_json(*SCRIPT, written(tmp_path / "d", java("q", 1, "WAITING (on object monitor)", *lines)))
    assert (report["deadlocks"], report["locks"]) == ([], [])


def test_a_monitor_that_compiled_code_gave_back_is_not_held(tmp_path: Path) -> None:
    waits = (
        "at java.lang.Object.wait(Native Method)", "- waiting on <no object reference available>",
        "at x.Q.take(Q.java:1)", "- locked <0x0a> (a Q)", "at x.R.run(R.java:1)", "- locked <0x0b> (a R)",
    )  # fmt: skip
    path = written(
        tmp_path / "d",
        java("real", 1, "RUNNABLE", "at x.S.f(S.java:1)", "- locked <0x0a> (a Q)"),
        java("q", 2, "WAITING (on object monitor)", *waits),
        java("a", 3, "BLOCKED (on object monitor)", "at x.T.f(T.java:1)", "- waiting to lock <0x0a> (a Q)"),
        java("b", 4, "BLOCKED (on object monitor)", "at x.T.g(T.java:2)", "- waiting to lock <0x0b> (a R)"),
        java("none", 5, "WAITING (on object monitor)", *waits[:3]),
    )
    locks = {row["lock"]: (row["waiting"], row["holder"]) for row in run_json(*SCRIPT, path)["locks"]}
    assert locks == {"0x0a": (2, '"real" #1'), "0x0b": (1, '"q" #2')}


def test_a_pool_whose_threads_all_stand_at_one_place_is_exhausted(tmp_path: Path) -> None:
    stack = ("at java.lang.Object.wait(Native Method)", "at com.example.Pool.getConnection(Pool.java:9)")
    busy = [java(f"http-{n}", n, "WAITING (parking)", *stack, f"at x.Page{n}.get(P.java:1)") for n in range(1, 6)]
    done = run_script(*SCRIPT, written(tmp_path / "a", *busy))
    assert done.returncode == 1
    assert "POOL     http-N: all 5 threads busy, 5 at com.example.Pool.getConnection(Pool.java:9)\n" in done.stdout
    free = java("http-6", 6, "WAITING (parking)", "at java.util.concurrent.ThreadPoolExecutor.getTask(T.java:1)")
    done = run_script(*SCRIPT, written(tmp_path / "b", *busy, free))
    assert (done.returncode, "POOL" in done.stdout) == (0, False)


@pytest.mark.parametrize(
    "frame",
    [
        "org.eclipse.jetty.util.thread.QueuedThreadPool.idleJobPoll(QueuedThreadPool.java:563)",
        "org.eclipse.jetty.util.thread.QueuedThreadPool$Runner.idleJobPoll(QueuedThreadPool.java:1169)",
        "io.netty.channel.epoll.Native.epollWait0(Native Method)",
        "io.netty.channel.kqueue.Native.keventWait(Native Method)",
        "io.netty.channel.uring.Native.ioUringEnter(Native Method)",
        "org.jboss.threads.EnhancedQueueExecutor$PoolThreadNode.park(EnhancedQueueExecutor.java:2418)",
        "kotlinx.coroutines.scheduling.CoroutineScheduler$Worker.park(CoroutineScheduler.kt:847)",
    ],
)
def test_threads_of_a_framework_that_wait_for_work_are_no_exhausted_pool(tmp_path: Path, frame: str) -> None:
    waiting = [
        java(f"pool-{n}", n, "TIMED_WAITING (parking)", f"at {frame}", "at x.Loop.run(L.java:1)") for n in range(5)
    ]
    done = run_script(*SCRIPT, written(tmp_path / "a", *waiting))
    assert (done.returncode, "POOL" in done.stdout, "group" in done.stdout) == (0, False, False)


def test_pools_with_the_names_of_the_jdk_are_told_apart(tmp_path: Path) -> None:
    stuck = [java(f"pool-1-thread-{n}", n, "WAITING (parking)", "at x.Task.f(T.java:1)") for n in range(1, 5)]
    free = java(
        "pool-2-thread-1", 9, "WAITING (parking)", "at java.util.concurrent.ThreadPoolExecutor.getTask(T.java:1)"
    )
    done = run_script(*SCRIPT, written(tmp_path / "a", *stuck, free))
    assert done.returncode == 1
    assert "POOL     pool-1-thread-N: all 4 threads busy, 4 at x.Task.f(T.java:1)\n" in done.stdout


def test_a_task_that_waits_at_a_queue_for_an_answer_is_busy(tmp_path: Path) -> None:
    stack = (
        "at java.util.concurrent.LinkedBlockingQueue.take(L.java:1)",
        "at com.example.Rpc.call(Rpc.java:40)",
        "at org.apache.tomcat.util.threads.ThreadPoolExecutor.runWorker(T.java:1)",
    )
    workers = [java(f"exec-{n}", n, "WAITING (parking)", *stack) for n in range(1, 5)]
    done = run_script(*SCRIPT, written(tmp_path / "a", *workers))
    assert done.returncode == 1
    assert "POOL     exec-N: all 4 threads busy, 4 at com.example.Rpc.call(Rpc.java:40)" in done.stdout


def test_equal_stacks_are_one_group_and_those_without_work_come_last(tmp_path: Path) -> None:
    dump = written(
        tmp_path / "d",
        *[
            java(f"p-{n}", n, "WAITING (parking)", "at java.util.concurrent.LinkedBlockingQueue.take(L.java:1)")
            for n in range(9)
        ],
        *[
            java(f"q-{n}", 20 + n, "RUNNABLE", "at x.Work.f(W.java:1)", f"at x.Work$$Lambda${n}/0x{n:08x}.run(U)")
            for n in range(3)
        ],
    )
    rows = run_json(*SCRIPT, dump)["groups"]
    assert [(row["threads"], row["names"], row["idle"]) for row in rows] == [(3, ["q-N"], False), (9, ["p-N"], True)]


def test_what_stands_still_in_all_dumps_is_named(tmp_path: Path) -> None:
    still, moves = java("s", 1, "RUNNABLE", "at x.S.loop(S.java:1)"), "at x.M.f(M.java:{})"
    first = written(tmp_path / "a", still, java("m", 2, "RUNNABLE", moves.format(1)))
    second = written(tmp_path / "b", still, java("m", 2, "RUNNABLE", moves.format(2)))
    both = written(tmp_path / "c", still, "Full thread dump OpenJDK\n", still)
    for report in (run_json(*SCRIPT, first, second), run_json(*SCRIPT, both)):
        assert [(row["threads"], row["own"]) for row in report["standing"]] == [(1, "x.S.loop(S.java:1)")]


def test_a_json_dump_of_java_has_virtual_threads_and_their_locks(tmp_path: Path) -> None:
    def thread(number: int, **facts: Any) -> dict[str, Any]:  # noqa: ANN401
        return {"tid": str(number), "name": f"v{number}", "state": "BLOCKED", "stack": ["x.A.f(A.java:1)"]} | facts

    lock = "java.lang.Object@1"
    threads = [thread(1, monitorsOwned=[{"depth": 0, "locks": [lock, None]}])]
    threads += [thread(n, virtual=True, blockedOn=lock) for n in (2, 3)]
    path = tmp_path / "d.json"
    path.write_text(json.dumps({"threadDump": {"threadContainers": [{"container": "<root>", "threads": threads}]}}))
    (row,) = run_json(*SCRIPT, path)["locks"]
    assert (row["holder"], row["waiting"], row["kind"]) == ('"v1" #1', 2, "java.lang.Object")


def test_two_threads_that_initialise_classes_in_two_orders_are_a_deadlock(tmp_path: Path) -> None:
    waiting = (
        '"ci-{0}" #1{0} prio=5 os_prio=0 tid=0x7 nid=0x4152 in Object.wait()  [0x00007f6e997fc000]\n'
        "   java.lang.Thread.State: RUNNABLE\n\tat {2}.<clinit>(T.java:3)\n"
        "\t- waiting on the Class initialization monitor for {1}\n\tat java.lang.Thread.run(Thread.java:840)\n\n"
    )
    text = waiting.format(1, "T$B", "app//T$A") + waiting.format(2, "T$A", "T$B") + waiting.format(3, "T$A", "T$C")
    path = written(tmp_path / "d", "Full thread dump OpenJDK 64-Bit\n\n", text, "JNI global refs: 1\n")
    assert run_script(*SCRIPT, path).returncode == 1
    report = run_json(*SCRIPT, path)
    assert report["deadlocks"] == [['"ci-1" #11', '"ci-2" #12']]
    assert [(row["waiting"], row["lock"], row["holder"]) for row in report["locks"]] == [
        (2, "class T$A", '"ci-1" #11'), (1, "class T$B", '"ci-2" #12')
    ]  # fmt: skip


def test_goroutines_that_wait_in_two_lines_of_one_function_are_two_groups_with_their_lines(tmp_path: Path) -> None:
    sending = (
        "goroutine {} [chan send]:\nmain.leak(0xc000, 0x1)\n\t/a/g.go:{} +0x1\n"
        "created by main.main\n\t/a/g.go:1 +0x2\n\n"
    )
    sleeping = (
        "goroutine 9 [sleep]:\ntime.Sleep(0x34630b8a000)\n\t/go/src/runtime/time.go:368 +0x165\n"
        "main.wait()\n\t/a/g.go:20 +0x4\n\n"
    )
    path = written(tmp_path / "d", *[sending.format(n, 7 if n < 3 else 9) for n in range(8)], sleeping)
    assert [(row["threads"], row["own"]) for row in run_json(*SCRIPT, path)["groups"]] == [
        (5, "main.leak (g.go:9)"), (3, "main.leak (g.go:7)"), (1, "main.wait (g.go:20)")
    ]  # fmt: skip


def test_goroutines_are_grouped_whatever_they_wait_since_and_a_contended_mutex_is_named(tmp_path: Path) -> None:
    receiving = (
        "goroutine {} [chan receive, {} minutes]:\nmain.worker(0xc{})\n\t/a/g.go:4 +0x1\n"
        "created by main.main in goroutine 1\n\t/a/g.go:7 +0x65\n\n"
    )
    locking = (
        "goroutine {} [sync.Mutex.Lock]{}:\ninternal/sync.(*Mutex).lockSlow(0x554018)\n\t/s/mutex.go:149 +0x1\n"
        "main.lock()\n\t/a/g.go:5 +0x2\n\n"
    )
    path = written(
        tmp_path / "d",
        "SIGQUIT: quit\n\n",
        *[receiving.format(n, n, n) for n in range(5)],
        locking.format(8, ""),
        locking.format(9, " {route: /x}"),  # labels of runtime/pprof, from Go 1.27 on
    )
    report = run_json(*SCRIPT, path)
    assert [(row["threads"], row["own"]) for row in report["groups"]] == [
        (5, "main.worker (g.go:4)"), (2, "main.lock (g.go:5)")
    ]  # fmt: skip
    assert [(row["kind"], row["waiting"], row["holder"]) for row in report["locks"]] == [("sync.Mutex", 2, None)]


def test_dumps_of_python_are_read_in_three_forms(tmp_path: Path) -> None:
    fault = (
        'Thread 0x00007f00 (most recent call first):\n  File "/a/f.py", line 4 in w\n'
        '  File "/l/threading.py", line 982 in run\n\n'
    )
    spy = (
        'Process 7: python\nPython v3.13\n\nThread 7 (idle): "MainThread"\n    w (f.py:4)\n    run (threading.py:982)\n'
    )
    frames = [{"name": "w", "short_filename": "f.py", "filename": "/a/f.py", "line": 4}]
    one = {"thread_id": 7, "thread_name": "MainThread", "active": False, "frames": frames}
    for text, own in ((fault, "w (/a/f.py:4)"), (spy, "w (f.py:4)"), (json.dumps([one]), "w (f.py:4)")):
        report = run_json(*SCRIPT, written(tmp_path / "d", text))
        assert [row["own"] for row in report["groups"]] == [own]


def test_dumps_of_faulthandler_and_go_one_after_the_other_in_a_log_are_several(tmp_path: Path) -> None:
    def one(*names: str) -> str:
        return "\n".join(f'Thread 0x{name} (most recent call first):\n  File "/a.py", line 3 in f\n' for name in names)

    log = f"started\n{one('02', '01')}a line of the program\n{one('03', '02', '01')}{one('04', '02', '01')}"
    found = run_json(*SCRIPT, written(tmp_path / "a", log))
    assert (found["threads"], found["standing"][0]["threads"]) == ([2, 3, 3], 2)
    unspaced = log.replace("\n\n", "\n")  # a journal drops empty lines
    assert run_json(*SCRIPT, written(tmp_path / "b", unspaced))["dumps"] == 3
    between = one("02", "01").replace("\n\nThread", "\n\na line of the program\nThread")
    assert run_json(*SCRIPT, written(tmp_path / "d", between))["threads"] == [2]
    go = "".join(f"goroutine {n} [select]:\nmain.f()\n\t/a.go:1 +0x1\n\n" for n in (1, 2))
    assert run_json(*SCRIPT, written(tmp_path / "c", go * 2))["threads"] == [2, 2]


def test_a_python_pool_thread_in_a_call_without_frames_of_its_own_is_not_idle(tmp_path: Path) -> None:
    worker = 'Thread 0x00007f0{} (most recent call first):\n{}  File "/l/futures/thread.py", line 81 in _worker\n\n'
    run = '  File "/l/futures/thread.py", line 58 in run\n'
    rows = run_json(*SCRIPT, written(tmp_path / "d", worker.format(1, run), worker.format(2, "")))["groups"]
    assert [row["idle"] for row in rows] == [False, True]


def test_a_dump_that_faulthandler_cut_is_said_to_be_cut(tmp_path: Path) -> None:
    thread = 'Thread 0x00007f0{} (most recent call first):\n  File "/a/f.py", line 4 in w\n\n'
    dump = written(tmp_path / "d", thread.format(1), thread.format(2), "...\n")
    assert "note     the dump ends at the limit of faulthandler" in run_script(*SCRIPT, dump).stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("hello\n", "no thread dump"),
        ('{"threadDump": {"threadContainers": [', "cut off"),
        ('{"a": 1}', "dump_to_file"),
        ('{"threadDump": {"threadContainers": [{"threads": [5]}]}}', "not the shape"),
        ("goroutine profile: total 3\n", "debug=2"),
    ],
)
def test_what_is_no_thread_dump_is_refused_in_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "d").write_text(text)
    assert_refused(run_script(*SCRIPT, tmp_path / "d"), "d", words)


def test_dumps_of_different_kinds_are_not_compared(tmp_path: Path) -> None:
    first = written(tmp_path / "a", java("s", 1, "RUNNABLE", "at x.S.f(S.java:1)"))
    second = written(tmp_path / "b", "goroutine 1 [running]:\nmain.main()\n\t/a/g.go:1\n")
    assert_refused(run_script(*SCRIPT, first, second), "different kinds")


PARKED = "- parking to wait for  <0x0{}> (a java.util.concurrent.locks.ReentrantLock$NonfairSync)"
FOUND = """JNI global refs: 12, weak refs: 0

Found one Java-level deadlock:
=============================
"t1":
  waiting for ownable synchronizer 0x0a, (a java.util.concurrent.locks.ReentrantLock$NonfairSync),
  which is held by "t2"

"t2":
  waiting for ownable synchronizer 0x0b, (a java.util.concurrent.locks.ReentrantLock$NonfairSync),
  which is held by "t1"

Found 1 deadlock.
"""


def test_a_deadlock_that_only_the_jvm_names_is_reported(tmp_path: Path) -> None:
    threads = [
        java(f"t{n}", n, "WAITING (parking)", PARKED.format(lock), "at x.A.f(A.java:1)")
        for n, lock in ((1, "a"), (2, "b"))
    ]
    done = run_script(*SCRIPT, written(tmp_path / "d.txt", *threads, FOUND))
    assert done.returncode == 1
    assert 'DEADLOCK "t1" #1 waits for "t2" #2 waits for "t1" #1' in done.stdout


CUT = "its end is missing: threads, locks and deadlocks may be missing too"


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        (java("a", 1, "RUNNABLE", "at x.A.f(A.java:1)"), [CUT]),
        (java("a", 1, "RUNNABLE", "at x.A.f(A.java:1)") + "JNI global refs: 1, weak refs: 0\n", []),
        (java("a", 1, "RUNNABLE") + "Full thread dump OpenJDK\n", ["1 dumps without threads were left out: cut off?"]),
        ("goroutine 1 [running]:\r\nmain.f()\r\n", []),
        ("goroutine 1 [running]:\nmain.f()\n\ngoroutine 2 [select]:\n",
         [CUT]),
        ('\x1b[1mProcess 1: app\x1b[0m\n\x1b[32mThread 1 (idle): "M"\x1b[0m\n    f (a.py:1)\n', []),
    ],
)  # fmt: skip
def test_a_dump_that_breaks_off_says_so_and_colours_and_crlf_do_not_matter(
    tmp_path: Path, text: str, notes: list[str]
) -> None:
    path = tmp_path / "d.txt"
    path.write_bytes(text.encode())
    report = run_json(*SCRIPT, path)
    assert report["notes"] == notes
    assert report["groups"][0]["threads"] == 1


def test_a_dump_in_json_without_threads_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text('{"threadDump": {"threadContainers": [{"threads": []}]}}')
    assert_refused(run_script(*SCRIPT, path), "no threads in it")


@pytest.mark.parametrize(
    "prefix",
    [
        "app-1  | ",
        "[pod/a-1/app] 2026-11-28T03:00:00.123456Z ",
        "2026-11-28T03:00:00.123456789Z stdout F ",
        "2026-11-28T03:00:00+0000 host my@app.sh[12]: ",
        "Nov 28 03:00:00.123456 host java[12]: ",
        "    ",
        "2026-11-28T03:00:00+00:00 ",
        "Nov 28 03:00:00 host java[123]: ",
    ],
)
def test_prefixes_of_a_log_are_taken_off(tmp_path: Path, prefix: str) -> None:
    dump = "Full thread dump OpenJDK\n\n" + java("a", 1, "RUNNABLE", "at x.A.f(A.java:1)") + "JNI global refs: 1\n"
    path = tmp_path / "d.txt"
    path.write_text("".join(f"{prefix}{line}\n" for line in dump.splitlines()))
    assert "x.A.f(A.java:1)" in run_script(*SCRIPT, path).stdout


def test_a_quote_in_the_name_of_a_thread_does_not_end_it(tmp_path: Path) -> None:
    dump = written(tmp_path / "d", *(java(f'copy "a" #{n}', n, "RUNNABLE", "at D.f(D.java:4)") for n in (11, 12)))
    assert 'still    2 threads in all 2 dumps (copy "a" #N)' in run_script(*SCRIPT, dump, dump).stdout


def test_less_than_one_line_is_refused(tmp_path: Path) -> None:
    done = run_script(*SCRIPT, written(tmp_path / "d", java("a", 1, "RUNNABLE", "at D.f(D.java:4)")), "--top", "0")
    assert done.returncode == 2
    assert "must be 1 or more" in done.stderr


def test_the_plain_file_of_the_jvm_is_read_like_its_json(tmp_path: Path) -> None:
    """JDK 25 writes states and locks; JDK 21 only names and frames."""
    head = "10819\n2026-11-29T23:55:56.374950810Z\n25.0.3+9-LTS\n\n"
    at, lock = "2026-11-29T23:55:56.444Z\n    at D.f(D.java:27)\n", "<java.lang.Object@{}>\n"
    left = f'#67 "v \\"left" virtual BLOCKED {at}    - locked {lock.format(1)}    - waiting to lock {lock.format(2)}\n'
    right = f'#69 "right" BLOCKED {at}    - locked {lock.format(2)}    - waiting to lock {lock.format(1)}\n'
    path = tmp_path / "dump"
    path.write_text(head + left + right + '#14 "Signal Dispatcher" RUNNABLE 2026-11-29T23:55:56.433723145Z\n\n')
    done = run_script(*SCRIPT, path)
    assert (done.returncode, "DEADLOCK" in done.stdout, "note" in done.stdout) == (1, True, False)
    path.write_text('#1 "main"\n      A.main(A.java:3)\n\n#22 "" virtual\n      A.x(A.java:9)\n')
    assert [row["own"] for row in run_json(*SCRIPT, path)["groups"]] == ["A.main(A.java:3)", "A.x(A.java:9)"]


def test_the_log_files_of_docker_are_read(tmp_path: Path) -> None:
    text = "Full thread dump OpenJDK\n\n" + java("a", 1, "RUNNABLE", "at x.A.f(A.java:1)") + "JNI global refs: 1\n"
    path = tmp_path / "c-json.log"
    path.write_text("".join(json.dumps({"log": line, "stream": "stdout"}) + "\n" for line in text.splitlines(True)))
    assert run_json(*SCRIPT, path)["threads"] == [1]
