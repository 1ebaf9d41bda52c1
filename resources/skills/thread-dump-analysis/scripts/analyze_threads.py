#!/usr/bin/env python3
"""Say what the threads of a dump do: equal stacks, who holds what others wait for, deadlocks, exhausted pools.

Standard library only, Python 3.11+. Reads jstack and `jcmd Thread.print`, `jcmd Thread.dump_to_file` (JSON and plain),
Go goroutine dumps (SIGQUIT, panic, pprof with debug=2), Python faulthandler, and py-spy dump (text and --json).

    python3 analyze_threads.py dump1 [dump2 ...] [--top N] [--json]      # - reads standard input

Several dumps, in files or one after the other in one file, are compared: what stands still in all of them.
Exit codes: 0 analysed, 1 a deadlock or an exhausted pool, 2 no thread dump.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]
JAVA = re.compile(  # a name may have quotes
    r'^"(?P<name>(?:(?!" (?:#\d+ |prio=|os_prio=|daemon )).)*|.*?)"(?: #(?P<id>\d+))?.*?(?:\bnid=(?P<nid>\S+)|\btid=)'
)
PLAIN = re.compile(  # Thread.dump_to_file without -format=json: states and locks from JDK 25
    r'^#(?P<id>\d+) "(?P<name>.*)"(?P<virtual> virtual)?(?: (?P<state>[A-Z_]+))?(?: \d{4}-\S+)?$'
)
GO = re.compile(r"^goroutine (?P<id>\d+)(?: gp=\S+)?(?: m=\S+)?(?: mp=\S+)? \[(?P<state>[^\]]+)\](?: \{.*\})?:$")
FAULT = re.compile(
    r"^(?:Current thread|Thread) (?P<id>0x[0-9a-f]+)(?: \[(?P<name>[^\]]*)\])? \(most recent call first\):"
)
SPY = re.compile(r'^Thread (?P<id>\d+|0x[0-9A-Fa-f]+) \((?P<state>[^)]*)\)(?:: "(?P<name>.*)")?$')
LOGGED = re.compile(  # what docker compose, kubectl logs --prefix and --timestamps, CRI and journalctl put before a line
    r"^(?:\[pod/\S+\] ?|[\w.-]+ +\| ?"
    r"|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)(?: std(?:out|err) [FP]| \S+ [\w.@-]+\[\d+\]:)? ?"
    r"|[A-Z][a-z]{2} [ \d]\d [\d:.]{8,15} \S+ [\w.@-]+\[\d+\]: ?)+",
    re.MULTILINE,
)
LOCK = re.compile(r"<(0x[0-9a-f]+)>(?: \(an? ([^)]*)\))?")
LIBRARY = re.compile(
    r"^(java\.|javax\.|jdk\.|sun\.|java\.base/|runtime\.|internal/|sync\.|syscall\.|reflect\.|wait \(threading"
    r"|\w[\w.]* \((threading|queue|socket|selectors|ssl)\.py"
    r"|\w+ \(.*[/\\](threading|queue|selectors|concurrent[/\\]\S+)\.py)"
)
GO_LIBRARY = re.compile(  # where all frames are of it, the innermost of these says more than `runtime.gopark`
    r"^(time\.Sleep|net\.\(\*|net/\w+\.|crypto/tls\.|database/sql\.|bufio\.\(\*|os/exec\.|io\.[A-Z]\w*( \(|$))"
)
IDLE = re.compile(
    r"ThreadPoolExecutor\.getTask|ForkJoinPool\.(awaitWork|deactivate)"
    r"|Reference\.waitFor|ReferenceQueue\.remove|EPoll\.wait|EPollArrayWrapper|KQueue\.poll"
    r"|\.Native\.(epollWait|keventWait|ioUringEnter)|QueuedThreadPool(\$Runner)?\.idleJobPoll"
    r"|EnhancedQueueExecutor\$PoolThreadNode\.park|CoroutineScheduler\$Worker\.park"
    r"|VirtualThread\.takeVirtualThreadListToUnblock|DelayScheduler\.(loop|run)"
    r"|runtime\.(gcBgMarkWorker|bgsweep|bgscavenge|forcegchelper|runfinq|runFinalizers|runCleanups)|os/signal\.loop"
)

UNSAID = "no object reference available"
QUEUE = re.compile(r"BlockingQueue\.(take|poll)")
TASK = re.compile(r"ThreadPoolExecutor\.runWorker|FutureTask\.run|QueuedThreadPool\.runJob|EnhancedQueueExecutor")


@dataclass
class Thread:
    """One thread or goroutine; *stack* begins with the innermost frame."""

    id: str
    name: str
    state: str = ""
    stack: list[str] = field(default_factory=list)
    holds: list[str] = field(default_factory=list)
    waits: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        return (re.sub(r", \d+ minutes?", "", self.state), *map(plain, self.stack))

    @property
    def idle(self) -> bool:
        """Whether it waits for work, or has no stack at all, as the helpers of a virtual machine."""
        python = re.match(r"(get \(.*queue\.py:\d+\)\n)?_worker \(.*thread\.py", "\n".join(self.stack[:2]))
        if not self.stack or python or any(IDLE.search(frame) for frame in self.stack):
            return True
        task = any(TASK.search(frame) for frame in self.stack)  # which then waits for somebody's answer
        return not task and any(QUEUE.search(frame) for frame in self.stack)

    @property
    def pool(self) -> str:
        return re.sub(r"\d+", "N", self.name)


@dataclass
class Dump:
    kind: str
    threads: list[Thread]
    labels: dict[str, str]
    note: str = ""


def plain(frame: str) -> str:
    """Return a frame without what differs from run to run: addresses, generated numbers, versions of modules."""
    frame = re.sub(r"/?0x[0-9a-f]+|\+0x[0-9a-f]+", "", frame)
    return re.sub(r"Lambda\$\d+|(?<=[\w$])@[\d.]+(?=/)", "Lambda" if "Lambda$" in frame else "", frame)


def read_dumps(path: str) -> list[Dump]:
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"neither UTF-8 nor UTF-16 (byte {error.start}): a heap or core dump?") from error
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).replace("\r\n", "\n")
    if text.startswith('{"log":'):  # files of Docker's driver json-file
        text = "".join(json.loads(line)["log"] for line in text.split("\n") if line.strip())
    text = textwrap.dedent(LOGGED.sub("", text))
    if not text.strip():
        raise ValueError("empty: was the process still alive, and owned by your user?")
    if text.lstrip()[0] in "{[" and '"' in text[:200]:
        return [read_json(text)]
    if re.match(r"goroutine profile: total", text.lstrip()):
        raise ValueError("a goroutine profile with debug=1: take it with debug=2")
    for kind, pattern, read in (
        ("Java", JAVA, read_java),
        ("Java plain", PLAIN, read_plain),
        ("Go", GO, read_go),
        ("Python", FAULT, read_python),
        ("py-spy", SPY, read_spy),
    ):
        begins = re.compile(pattern.pattern, re.MULTILINE)
        if begins.search(text):
            parts = re.split(r"(?m)^(?=Full thread dump|Process \d+: |={3,} dump)", text)
            if read in (read_go, read_python, read_plain):
                parts = [each for part in parts for each in apart(part, pattern)]
            dumps = [read(kind, part.split("\n")) for part in parts if begins.search(part)]
            if empty := sum(part.startswith("Full thread dump") and not begins.search(part) for part in parts):
                dumps[-1].note = f"{empty} dumps without threads were left out: cut off?"
            elif not dumps[-1].note and is_cut(dumps[-1], parts[-1]):
                dumps[-1].note = "its end is missing: threads, locks and deadlocks may be missing too"
            return dumps
    raise ValueError("no thread dump of Java, Go or Python that is known here")


def apart(text: str, pattern: re.Pattern[str]) -> list[str]:
    """Cut dumps without a headline: one thread twice, or no empty line above a thread where others have one."""
    lines = text.split("\n")
    heads = {n: match["id"] for n, line in enumerate(lines) if (match := pattern.match(line))}
    spaced = any(n and not lines[n - 1] for n in heads)
    cuts, seen, names = [0], set[str](), list(heads.values())
    for place, (n, name) in enumerate(heads.items()):
        if name in seen or (spaced and lines[n - 1] and seen.intersection(names[place:])):
            cuts.append(n)
            seen = set()
        seen.add(name)
    return ["\n".join(lines[a:b]) for a, b in zip(cuts, [*cuts[1:], len(lines)], strict=True)]


def is_cut(dump: Dump, text: str) -> bool:
    """Return whether a dump breaks off: a JVM writes a last line, in other dumps each thread has a stack."""
    if dump.kind == "Java":
        return "JNI global ref" not in text
    if dump.kind == "Java plain":  # its last thread may be one without a stack
        return False
    return not dump.threads[-1].stack and "<no Python frame>" not in text


def read_java(kind: str, lines: list[str]) -> Dump:
    dump = Dump(kind, [], {})
    found = next((n for n, line in enumerate(lines) if line.startswith("Found one Java-level deadlock")), len(lines))
    for line in lines[:found]:
        if line.startswith("JNI global ref"):
            break
        if match := JAVA.match(line):
            dump.threads.append(Thread(match["id"] or match["nid"] or match["name"], match["name"]))
        elif dump.threads and (words := line.strip()):
            read_java_line(dump, dump.threads[-1], words)
    read_java_deadlock(dump, lines[found:])
    for one in dump.threads:
        one.holds = [lock for lock in dict.fromkeys(one.holds) if lock != one.waits]
        one.waits = one.waits.replace(UNSAID, "")
    return dump


def read_java_deadlock(dump: Dump, lines: list[str]) -> None:
    """Note who holds what in the circles that the JVM found: it knows holders that a dump without -l leaves out."""
    named = {one.name: one for one in dump.threads}
    waiter = None
    for line in lines:
        if match := re.match(r'"(.*)":$', line):
            waiter = named.get(match[1])
        elif waiter and waiter.waits and (match := re.search(r'which is held by "(.*)"', line)) and match[1] in named:
            named[match[1]].holds.append(waiter.waits)


def read_java_line(dump: Dump, one: Thread, words: str) -> None:
    if words.startswith("java.lang.Thread.State:"):
        one.state = words.partition(": ")[2].partition(" ")[0]
    elif words.startswith("at "):
        one.stack.append(re.sub(r"(?<=\()[\w.]+@[\w.+-]*/", "", words[3:]))
        if initialised := re.match(r"at (?:\S*/)?([^\s/(]+)\.<clinit>\(", words):
            one.holds.append(f"class {initialised[1]}")
    elif match := re.match(r"- waiting on the Class initialization monitor for (\S+)", words):
        one.waits = f"class {match[1]}"
        dump.labels[one.waits] = "the initialization of"
    elif words == "- waiting on <no object reference available>":
        one.waits = UNSAID
    elif match := LOCK.search(words):
        dump.labels[match[1]] = match[2] or "?"
        if one.waits == UNSAID and words.startswith("- locked"):
            one.waits = match[1]  # wait() in compiled code: it gave back the monitor that it entered last
        elif words.startswith(("- locked", "- <")):
            one.holds.append(match[1])
        elif words.startswith(("- waiting to", "- parking to wait", "- waiting on")) and not one.waits:
            one.waits = match[1]


def read_plain(kind: str, lines: list[str]) -> Dump:
    dump = Dump(kind, [], {})
    for line in lines:
        if match := PLAIN.match(line):
            name = match["name"] or ("virtual" if match["virtual"] else "thread")
            dump.threads.append(Thread(match["id"], name, match["state"] or ""))
        elif dump.threads and line.startswith("    "):
            one, words = dump.threads[-1], line.strip()
            if not words.startswith("- "):
                one.stack.append(words.removeprefix("at "))
            elif lock := re.search(r"<(.+)>", words):
                dump.labels[lock[1]] = lock[1].partition("@")[0]
                if words.startswith("- locked"):
                    one.holds.append(lock[1])
                else:
                    one.waits = lock[1]
    for one in dump.threads:
        one.holds = [lock for lock in one.holds if lock != one.waits]
    return dump


def read_go(kind: str, lines: list[str]) -> Dump:
    dump = Dump(kind, [], {})
    called = False  # whether the line of a frame comes next
    for line in lines:
        if called and (match := re.match(r"\s+(?:.*[/\\])?([^/\\]+:\d+)(?: \+0x|$)", line)):
            dump.threads[-1].stack[-1] += f" ({match[1]})"
        called = False
        if match := GO.match(line):
            dump.threads.append(Thread(match["id"], "goroutine", match["state"]))
        elif dump.threads and line and not line.startswith(("\t", " ", "exit status", "created by")) and "(" in line:
            called = True
            one = dump.threads[-1]
            one.stack.append(re.sub(r"\((0x[^)]*|\{.*|\.\.\.|)\)$", "", line))
            if found := re.search(r"(Mutex|RWMutex)\)\.(?:lockSlow|Lock|RLock)\((0x[0-9a-f]+)", line):
                one.waits = one.waits or found[2]
                dump.labels[found[2]] = f"sync.{found[1]}"
    return dump


def read_python(kind: str, lines: list[str]) -> Dump:
    threads: list[Thread] = []
    for line in lines:
        if match := FAULT.match(line):
            threads.append(Thread(match["id"], match["name"] or "thread"))
        elif threads and (frame := re.match(r'  File "(.*)", line (\d+) in (.*)', line)):
            threads[-1].stack.append(f"{frame[3]} ({frame[1]}:{frame[2]})")
    cut = "..." in lines
    note = (
        "the dump ends at the limit of faulthandler: older threads, the main one first of all, are missing"
        if cut
        else ""
    )
    return Dump(kind, threads, {}, note)


def read_spy(kind: str, lines: list[str]) -> Dump:
    threads: list[Thread] = []
    for line in lines:
        if match := SPY.match(line):
            threads.append(Thread(match["id"], match["name"] or "thread", match["state"]))
        elif threads and line.startswith("    "):
            threads[-1].stack.append(line.strip())
    return Dump(kind, threads, {})


def read_json(text: str) -> Dump:
    try:
        whole = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"no JSON at line {error.lineno}, column {error.colno}: cut off?") from error
    if isinstance(whole, list):
        return Dump("py-spy", [spy_thread(one) for one in whole], {})
    if not isinstance(whole.get("threadDump"), dict):
        raise ValueError("JSON, but neither of jcmd Thread.dump_to_file nor of py-spy dump")
    found = [each for box in whole["threadDump"]["threadContainers"] for each in box["threads"]]
    dump = Dump("Java JSON", [java_thread(one) for one in found], {})
    if not found:
        raise ValueError("JSON of a thread dump, but no threads in it")
    for one in dump.threads:
        dump.labels |= {lock: lock.partition("@")[0] for lock in [one.waits, *one.holds] if lock}
    return dump


def java_thread(one: Json) -> Thread:
    held = [lock for each in one.get("monitorsOwned") or [] for lock in each.get("locks") or [] if lock]
    blocker = one.get("parkBlocker") or {}
    waits = str(one.get("blockedOn") or one.get("waitingOn") or blocker.get("object") or "")
    name = str(one.get("name") or ("virtual" if one.get("virtual") else "thread"))
    stack = [str(frame) for frame in one.get("stack") or []]
    return Thread(
        str(one["tid"]), name, str(one.get("state", "")), stack, [lock for lock in held if lock != waits], waits
    )


def spy_thread(one: Json) -> Thread:
    stack = [f"{each['name']} ({each['short_filename'] or each['filename']}:{each['line']})" for each in one["frames"]]
    return Thread(
        str(one["thread_id"]), str(one["thread_name"] or "thread"), "active" if one["active"] else "idle", stack
    )


# --- analysis


def groups(dump: Dump) -> list[Json]:
    """Return threads with equal stacks, the largest groups first, those that wait for work last."""
    found: dict[tuple[str, ...], list[Thread]] = defaultdict(list)
    for one in dump.threads:
        found[one.key].append(one)
    rows = [
        {"threads": len(each), "state": key[0], "idle": each[0].idle, "names": sorted({one.pool for one in each})[:3],
         "top": each[0].stack[0] if each[0].stack else "", "own": own_frame(each[0]), "stack": each[0].stack}
        for key, each in found.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (row["idle"], -row["threads"], row["own"], row["state"]))


def own_frame(one: Thread) -> str:
    """Return the innermost frame that is not of the language's own library."""
    frames = [frame for frame in one.stack if not LIBRARY.match(frame)]
    return next((frame for frame in frames if not GO_LIBRARY.match(frame)), frames[0] if frames else "")


def label(one: Thread) -> str:
    return f'"{one.name}" #{one.id}' if one.name != "goroutine" else f"goroutine {one.id}"


def locks(dump: Dump) -> list[Json]:
    """Return what several threads wait for, or one that another holds, with its holder."""
    holder = {lock: one for one in dump.threads for lock in one.holds}
    waiting: dict[str, list[Thread]] = defaultdict(list)
    for one in dump.threads:
        if one.waits and not one.idle:
            waiting[one.waits].append(one)
    rows = []
    for lock, each in waiting.items():
        by = holder.get(lock)
        if by or len(each) > 1:
            rows.append({
                "lock": lock, "kind": dump.labels.get(lock, "?"), "waiting": len(each),
                "names": [label(one) for one in each[:5]],
                "holder": label(by) if by else None, "holder_state": by.state if by else None,
                "holder_at": (own_frame(by) or (by.stack or [""])[0]) if by else None,
            })  # fmt: skip
    return sorted(rows, key=lambda row: (-row["waiting"], row["lock"]))


def deadlocks(dump: Dump) -> list[list[str]]:
    """Return each circle of threads in which everyone waits for what the next one holds."""
    holder = {lock: place for place, one in enumerate(dump.threads) for lock in one.holds}
    after = {place: holder[one.waits] for place, one in enumerate(dump.threads) if one.waits in holder}
    circles, seen = [], set()
    for start in after:
        path: list[int] = []
        place: int | None = start
        while place is not None and place not in seen:
            seen.add(place)
            path.append(place)
            place = after.get(place)
        if place in path:
            circles.append([label(dump.threads[each]) for each in path[path.index(place) :]])
    return circles


def pools(dump: Dump) -> list[Json]:
    found: dict[str, list[Thread]] = defaultdict(list)
    for one in dump.threads:
        if re.search(r"\d", one.name):  # pool-1-thread-2 and pool-2-thread-2 are of two pools
            found[re.sub(r"\d+(?=\D*$)", "N", one.name)].append(one)
    rows: list[Json] = []
    for name, each in sorted(found.items()):
        busy = [one for one in each if not one.idle]
        alike: dict[tuple[str, str], int] = defaultdict(int)
        for one in busy:  # not by the whole stack: requests of many kinds wait for one connection pool
            alike[one.key[0], plain(own_frame(one) or one.stack[0])] += 1
        (_, place), most = max(alike.items(), key=lambda item: item[1], default=(("", ""), 0))
        rows.append({"pool": name, "threads": len(each), "busy": len(busy), "in_one_place": most, "place": place,
                     "exhausted": len(each) > 3 and len(busy) == len(each) and most >= 0.8 * len(each)})  # fmt: skip
    return [row for row in rows if row["threads"] > 1]


def standing(dumps: list[Dump]) -> list[Json]:
    """Return groups of threads that have the same stack in every dump and do not wait for work."""
    places = [{(one.id, one.name): one for one in dump.threads} for dump in dumps]
    found: dict[tuple[str, ...], list[Thread]] = defaultdict(list)
    for key, one in places[0].items():
        if not one.idle and all(key in other and other[key].key == one.key for other in places[1:]):
            found[one.key].append(one)
    rows = [{"threads": len(each), "state": key[0], "own": own_frame(each[0]) or each[0].stack[0],
             "names": sorted({one.pool for one in each})[:3]} for key, each in found.items()]  # fmt: skip
    return sorted(rows, key=lambda row: (-row["threads"], row["own"]))


def report_of(dumps: list[Dump]) -> Json:
    last = dumps[-1]
    return {
        "kind": last.kind, "dumps": len(dumps), "threads": [len(dump.threads) for dump in dumps],
        "deadlocks": deadlocks(last), "pools": pools(last), "locks": locks(last), "groups": groups(last),
        "standing": standing(dumps) if len(dumps) > 1 else [],
        "notes": sorted({dump.note for dump in dumps if dump.note}),
    }  # fmt: skip


def lines_of(report: Json) -> Iterator[tuple[str, str]]:
    yield from (("note", text) for text in report["notes"])
    for circle in report["deadlocks"]:
        yield "DEADLOCK", " waits for ".join([*circle, circle[0]])
    for row in report["pools"]:
        if row["exhausted"]:
            yield "POOL", f"{row['pool']}: all {row['threads']} threads busy, {row['in_one_place']} at {row['place']}"
    for row in report["locks"]:
        by = (
            f"held by {row['holder']} ({row['holder_state']} at {row['holder_at']})"
            if row["holder"]
            else "holder unknown"
        )
        yield "lock", f"{row['waiting']} wait for {row['kind']} {row['lock']}, {by}: {', '.join(row['names'])}"
    for row in report["standing"]:
        yield (
            "still",
            f"{row['threads']} threads in all {report['dumps']} dumps ({', '.join(row['names'])}): {row['own']}",
        )
    for row in report["groups"]:
        where = row["own"] or row["top"] or "no stack"
        inside = f" in {row['top']}" if row["top"] != where else ""
        yield (
            "idle" if row["idle"] else "group",
            f"{row['threads']} {row['state']} ({', '.join(row['names'])}): {where}{inside}",
        )


def show(report: Json, top: int) -> None:
    print(f"dump     {report['kind']}, threads {' -> '.join(map(str, report['threads']))}")
    shown: dict[str, int] = defaultdict(int)
    for kind, text in lines_of(report):
        shown[kind] += 1
        if shown[kind] <= top:
            print(f"{kind:<8} {''.join(char if char.isprintable() else '?' for char in text)}")
    for kind, number in shown.items():
        if number > top:
            print(f"...      {number - top} more lines {kind}: --top {number} or --json")


def one_or_more(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def main() -> int:
    parser = argparse.ArgumentParser(description="Say what the threads of one or more thread dumps do.")
    parser.add_argument("files", nargs="+", metavar="file")
    parser.add_argument("--top", type=one_or_more, default=10, help="lines of each kind (default 10)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    dumps: list[Dump] = []
    for path in args.files:
        try:
            dumps += read_dumps(path)
        except (OSError, ValueError, RecursionError) as error:
            print(f"cannot read {path}: {error}", file=sys.stderr)
            return 2
        except (AttributeError, KeyError, TypeError) as error:
            print(f"cannot read {path}: not the shape of a thread dump ({error!r})", file=sys.stderr)
            return 2
    if len({dump.kind for dump in dumps}) > 1:
        print(f"cannot compare {' and '.join(args.files)}: dumps of different kinds", file=sys.stderr)
        return 2
    report = report_of(dumps)
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        show(report, args.top)
    return 1 if report["deadlocks"] or any(row["exhausted"] for row in report["pools"]) else 0


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly under `| head`
    sys.exit(main())
