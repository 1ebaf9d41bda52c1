#!/usr/bin/env python3
"""Say from a CPU profile where the time went: by function, file and package, and what differs from a baseline.

Standard library only, Python 3.11+. Reads V8 profiles (.cpuprofile, Chrome traces), speedscope JSON, collapsed stacks,
`perf script`, and the text of `go tool pprof -raw` or `-top`; .gz of each; - is standard input.

    python3 read_profile.py FILE [--baseline OLD] [--focus TEXT] [--thread TEXT] [--top N] [--json]

Exit codes: 0 read, 1 no samples in it (or none left by --thread or --focus), 2 the file is no profile it can read.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import signal
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

MOST_BYTES = 1_000_000_000
MOST_SAMPLES = 5_000_000  # 100 a second of 14 threads for an hour
MILLISECONDS = {"nanoseconds": 1e-6, "microseconds": 1e-3, "milliseconds": 1.0, "seconds": 1e3}
GC = re.compile(
    r"^\(garbage collector\)$|^<GC>$|^runtime\.(gc[A-Z]|bgsweep|bgscavenge|mallocgc_gc)|gc_collect|^GCTask|VM_\w*Collect"
    r"|G1\w*(?:Collect|Evac|Mark)|ZGC|Shenandoah\w*(?:Mark|Evac)"
)
WAIT = re.compile(
    r"^\(idle\)$|epoll_p?wait|\bkevent|(?:^|[.:_])(?:select|ppoll|poll|nanosleep|sleep|accept4?)$|futex|cond_(?:timed)?wait"
    r"|Unsafe[._/]park|Unsafe_Park|Object[._/]wait|^runtime\.(?:gopark|notesleep|netpoll)|^wait$"
)
PYTHON_WAIT = re.compile(
    r"(?:^|\.)(?:wait|_try_wait|_wait_for_tstate_lock|join|select|poll|accept)"
    r"~(?:.*[/\\])?(?:threading|selectors|socket|subprocess|connection|popen_fork)\.py$"
)
NATIVE = re.compile(r"^\(program\)$|^<native>$")
UNKNOWN = re.compile(r"^\[?unknown|^0x[0-9a-f]+$|^\[\w+\.so|^no_symbol|^\(unknown\)", re.IGNORECASE)
DEPTHS = {64, 127, 128, 255, 256, 512, 1023, 1024, 2048}
"""Lengths at which perf, Go, V8 and async-profiler cut stacks by default."""
COLLAPSED = re.compile(r"^(?P<stack>\S.*?)\s+(?P<count>\d+(?:\.\d+)?)$")
THREAD = re.compile(r"^(?:tid:\d+|\[.* tid=\d+\]|thread \((?:0x[0-9a-fA-F]+|\d+)\).*|process \d+:.*)$")
PERF_HEAD = re.compile(r"^(?P<name>\S.*?)\s+\d+(?:/\d+)?\s+(?:\[\d+\]\s+)?\d+\.\d+:\s+(?:\d+\s+)?[\w:.-]+:?")
PERF_FRAME = re.compile(r"^\s+[0-9a-f]+ (?P<name>.+?)(?:\+0x[0-9a-f]+)? \((?P<file>[^()]*(?:\([^()]*\))?)\)$")
LOCATION = re.compile(r"^\s+(?:(?P<id>\d+): 0x[0-9a-f]+ (?:M=\d+ )?(?:\[F\] ?)?)?(?P<rest>\S.*)?$")
PLACE = re.compile(r"^(?P<name>.+?) (?P<file>\S+?):(?P<line>\d+)(?::\d+)? s=\d+")
TOP_ROW = re.compile(r"^\s*([\d.]+)([a-zµ]*)\s+[\d.]+%\s+[\d.]+%\s+([\d.]+)([a-zµ]*)\s+[\d.]+%\s+(\S.*)$")
TOP_UNITS = {"": 0.0, "ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3, "mins": 6e4, "hrs": 3.6e6}
REFUSED = (
    (b"PERFILE2", "this is perf.data: run `perf script -i FILE > stacks.txt` on the machine that recorded it"),
    (b"FLR\0", "this is a JFR recording: convert it with async-profiler's `jfrconv --cpu -o collapsed FILE out.txt`"),
    (b"Nettrace", "this is .nettrace: run `dotnet-trace convert FILE --format Speedscope`"),
    (b"<!", "this is a picture of a profile (HTML): ask for the data, e.g. `py-spy record -f raw`"),
    (b"<html", "this is a picture of a profile (HTML): ask for the data, e.g. `py-spy record -f raw`"),
    (b"<svg", "this is a picture of a profile (SVG): ask for the data, e.g. `py-spy record -f raw`"),
    (b"<?xml", "this is a picture of a profile (SVG): ask for the data, e.g. `py-spy record -f raw`"),
    (b"\x7fELF", "this is a program, not a profile"),
)
Json = dict[str, Any]


class Frame(NamedTuple):
    """A function: line is where it is defined, 0 if the profile only says which line ran."""

    name: str
    file: str = ""
    line: int = 0


@dataclass
class Stack:
    """Frames from the root to the leaf, their weight, in how many samples they were seen, the line that ran."""

    frames: tuple[Frame, ...]
    weight: float
    count: int = 1
    thread: str = ""
    line: int = 0


@dataclass
class Profile:
    """What was recorded. Unit is ms or samples; a table of pprof has totals by function instead of stacks."""

    form: str
    unit: str
    stacks: list[Stack]
    duration: float = 0
    notes: list[str] = field(default_factory=list)
    table: dict[Frame, tuple[float, float]] = field(default_factory=dict)


def clean(text: str) -> str:
    """Return *text* without queries, data and control characters: it comes from a file and goes to a terminal."""
    text = re.sub(r"^(data:[^,]{0,40}),.*", r"\1", text)
    text = re.sub(r"(?<=\w)\?[^ :)]*", "", text) if "://" in text else text
    return re.sub(r"(?<=://)[^/@\s]*@", "", "".join(one if one.isprintable() else "?" for one in text))


def read_bytes(name: str) -> bytes:
    data = sys.stdin.buffer.read(MOST_BYTES) if name == "-" else Path(name).read_bytes()
    unpacked = b""
    while data[:2] == b"\x1f\x8b":  # a file may hold several members one after the other
        try:
            unpacked += (unpacker := zlib.decompressobj(31)).decompress(data, MOST_BYTES - len(unpacked))
        except zlib.error as error:
            raise ValueError(f"the gzip data is damaged ({error}): copy the file again") from error
        if unpacker.unconsumed_tail or len(unpacked) >= MOST_BYTES:
            raise ValueError("more than 1 GB unpacked: record for a shorter time")
        if not unpacker.eof:
            raise ValueError("the gzip data ends too early: copy the file again")
        data = unpacker.unused_data
    return unpacked or data


def read_text(data: bytes) -> str:
    for start, advice in REFUSED:
        if data.lstrip()[: len(start)] == start:
            raise ValueError(advice)
    if re.match(rb"[{\xfb][()\xa9]", data) or re.search(rb"^ +\d+ function calls ", data[:4096], re.MULTILINE):
        raise ValueError("of cProfile, which keeps no stacks: read it with `python -m pstats FILE`, or record with py-spy")
    data = re.sub(rb"\x1b\[[0-9;]*[A-Za-z]", b"", data)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16")
    if re.search(rb"[\0-\x08\x0e-\x1a]", data[:4096]):
        raise ValueError("binary data: for pprof run `go tool pprof -raw BINARY FILE > stacks.txt` and give that text")
    return data.decode("utf-8-sig", "replace")


def read_profile(name: str) -> Profile:
    text = read_text(read_bytes(name))
    if not text.strip():
        raise ValueError("the file is empty: the recorder was probably killed before it wrote")
    if text.lstrip()[0] in "{[" and not COLLAPSED.match(text.lstrip().split("\n", 1)[0]):
        try:
            return read_json(json.loads(text))
        except json.JSONDecodeError as error:
            raise ValueError(f"JSON breaks off or is damaged in line {error.lineno}: {error.msg}; copy it again") from error
    head = text[:20_000]
    if "\nSamples:" in head and "PeriodType" in head:
        return read_raw(text)
    if re.search(r"^\s+flat\s+flat%\s+sum%\s+cum\s+cum%", head, re.MULTILINE):
        return read_top(text)
    if any(PERF_HEAD.match(line) for line in head.splitlines() if not line.startswith("#")):
        return read_perf(text)
    return read_collapsed(text)


def read_json(data: Any) -> Profile:  # noqa: ANN401
    events = data if isinstance(data, list) else data.get("traceEvents")
    if isinstance(events, list):
        return read_trace(events)
    if "speedscope" in str(data.get("$schema")):
        return read_speedscope(data)
    if isinstance(data.get("nodes"), list) and "startTime" in data:
        return read_v8(data, "V8 profile")
    kinds = {"snapshot": "a heap snapshot: memory, not time", "head": "a heap profile or a format before Node 8",
             "threads": "a Firefox profile: record with py-spy, or save speedscope JSON", "log": "a HAR file"}  # fmt: skip
    what = next((text for key, text in kinds.items() if key in data), "JSON without samples")
    raise ValueError(f"no CPU profile but {what}")


def read_trace(events: list[Any]) -> Profile:
    """Return the profile with the most samples of a trace that the Performance panel saved."""
    found: dict[tuple[Any, Any], Json] = {}
    for event in events:
        if isinstance(event, dict) and event.get("name") in ("Profile", "ProfileChunk"):
            data = event.get("args", {}).get("data", {})
            one = found.setdefault(
                (event.get("pid"), event.get("id")), {"nodes": [], "samples": [], "timeDeltas": [], "startTime": 0}
            )
            one["startTime"] = data.get("startTime", one["startTime"])
            part = data.get("cpuProfile", {})
            one["nodes"] += part.get("nodes", [])
            one["samples"] += part.get("samples", [])
            one["timeDeltas"] += data.get("timeDeltas", part.get("timeDeltas", []))
    if not found:
        raise ValueError("a trace without CPU samples: record with the JavaScript profiler on")
    best = max(found.values(), key=lambda one: len(one["samples"]))
    profile = read_v8(best, "Chrome trace")
    if len(found) > 1:
        profile.notes.append(f"{len(found)} profiles in the trace (workers, frames): this is the one with most samples")
    return profile


def read_v8(data: Json, form: str) -> Profile:
    nodes = {node["id"]: node for node in data["nodes"]}
    if len(nodes) < len(data["nodes"]):
        raise ValueError("several functions of its tree have one number: the file is damaged, record again")
    parents = {node["id"]: node["parent"] for node in data["nodes"] if "parent" in node}
    parents |= {child: node["id"] for node in data["nodes"] for child in node.get("children", ())}
    paths: dict[Any, tuple[Frame, ...]] = {}

    def path_to(leaf: Any) -> tuple[Frame, ...]:  # noqa: ANN401
        way: list[Any] = []
        here: Any = leaf
        while here in nodes and here not in paths:
            way.append(here)
            here = parents.get(here)
            if len(way) > len(nodes):
                raise ValueError("its call tree runs in a circle: the file is damaged")
        frames = paths.get(here, ())
        for one in reversed(way):
            frames = paths[one] = (*frames, *v8_frame(nodes[one]))
        return frames

    notes: list[str] = []
    samples, deltas, start = data.get("samples"), data.get("timeDeltas"), float(data["startTime"])
    if not samples or not deltas:
        hits = {key: int(node.get("hitCount", 0)) for key, node in nodes.items()}
        step = (float(data.get("endTime", start)) - start) / max(1, sum(hits.values())) / 1000
        notes.append("no sample times: each sample counts the same")
        stacks = [Stack(path_to(key), hit * step, hit) for key, hit in hits.items() if hit]
        return Profile(form, "ms", stacks, (float(data.get("endTime", start)) - start) / 1000, notes)
    if len(samples) != len(deltas):
        raise ValueError(f"{len(samples)} samples but {len(deltas)} times: the file is damaged, record again")
    if missing := {one for one in samples if one not in nodes}:
        raise ValueError(f"{len(missing)} sampled functions are not in its tree: the file is damaged, record again")
    moment, moments = start, []
    for delta in deltas:
        moment += delta
        moments.append(moment)
    end = max(float(data.get("endTime", 0)), max(moments))
    order = sorted(range(len(samples)), key=moments.__getitem__)  # V8 may write a sample before an earlier one
    times = [moments[one] for one in order] + [end]
    spans = [after - before for before, after in zip(times, times[1:], strict=False)]
    usual = sorted(spans)[len(spans) // 2]
    idle = {key for key, node in nodes.items() if node["callFrame"]["functionName"] == "(idle)"}
    late = sum(span for place, span in zip(order, spans, strict=True) if span > 10 * usual and samples[place] not in idle)
    if late > 0.05 * sum(spans):
        notes.append(f"{late / sum(spans):.0%} of the time lies in gaps over 10 x the usual step: the sampler was held up")
    grouped: defaultdict[Any, list[float]] = defaultdict(lambda: [0.0, 0])
    for place, span in zip(order, spans, strict=True):
        grouped[samples[place]][0] += span / 1000
        grouped[samples[place]][1] += 1
    stacks = [Stack(path_to(key), weight, int(count)) for key, (weight, count) in grouped.items()]
    return Profile(form, "ms", stacks, (end - start) / 1000, notes)


def v8_frame(node: Json) -> Iterator[Frame]:
    frame = node["callFrame"]
    if frame["functionName"] != "(root)":
        yield Frame(clean(frame["functionName"] or "(anonymous)"), clean(frame.get("url", "")),
                    max(0, int(frame.get("lineNumber", -1)) + 1))  # fmt: skip


def read_speedscope(data: Json) -> Profile:
    frames = [Frame(clean(str(one["name"])), clean(str(one.get("file") or ""))) for one in data["shared"]["frames"]]
    lines = [int(one.get("line") or 0) for one in data["shared"]["frames"]]
    stacks: list[Stack] = []
    duration, unit = 0.0, ""
    for part in data["profiles"]:
        if part["unit"] == "bytes":
            raise ValueError("its unit is bytes: a profile of memory, not of time")
        before, unit = unit, "ms" if part["unit"] in MILLISECONDS else "samples"
        if before not in ("", unit):
            raise ValueError("some of its profiles are in time, some in samples: save one of them")
        factor = MILLISECONDS.get(part["unit"], 1.0)
        duration = max(duration, (part["endValue"] - part["startValue"]) * factor)
        steps = _events(part) if part["type"] == "evented" else zip(part["samples"], part["weights"], strict=True)
        count = 0 if part["type"] == "evented" else 1
        for places, weight in steps:
            if weight < 0 or min(places, default=0) < 0:
                raise ValueError(f"the weight {weight} or a frame below 0: the file is damaged, save it again")
            if weight and places:
                stacks.append(Stack(tuple(frames[n] for n in places), weight * factor, count, clean(part["name"]),
                                    lines[places[-1]]))  # fmt: skip
    return Profile("speedscope", unit, stacks, duration if unit == "ms" else 0)


def _events(part: Json) -> Iterator[tuple[list[int], float]]:
    open_frames: list[int] = []
    last = part["startValue"]
    for event in part["events"]:
        yield list(open_frames), event["at"] - last
        last = event["at"]
        if event["type"] == "O":
            open_frames.append(event["frame"])
        elif not open_frames or open_frames.pop() != event["frame"]:
            raise ValueError(f"a frame closes at {event['at']} that is not the last one opened: the file is damaged")
    if open_frames:
        raise ValueError(f"{len(open_frames)} frames are never closed: the recording breaks off, save it again")


def read_collapsed(text: str) -> Profile:
    stacks, bad, first = [], 0, ""
    for number, line in enumerate(re.split(r"\r?\n", text), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not (match := COLLAPSED.match(line)):
            bad, first = bad + 1, first or f"line {number}"
            continue
        names = match["stack"].split(";")
        thread = names.pop(0) if THREAD.match(names[0]) else ""
        parsed = [collapsed_frame(name) for name in names if name]
        if parsed:
            stacks.append(Stack(tuple(frame for frame, _ in parsed), float(match["count"]), int(float(match["count"])),
                                clean(thread), parsed[-1][1]))  # fmt: skip
    if bad > len(stacks) or (bad and not any(len(stack.frames) > 1 for stack in stacks)):
        raise ValueError(f"{first} is no stack of the form `main;work;parse 42`, nor is this another known format")
    notes = [f"{bad} lines left out, the first is {first}"] if bad else []
    if (total := sum(stack.count for stack in stacks)) > MOST_SAMPLES:
        notes.append(f"the counts add up to {total:,}: times or periods (Austin, perf), not samples, so nothing says how exact a share is")
        for stack in stacks:
            stack.count = 0
    return Profile("collapsed stacks", "samples", stacks, notes=notes)


def collapsed_frame(text: str) -> tuple[Frame, int]:
    """Return the function of *text* and the line that ran: py-spy `f (a.py:3)`, Python 3.15 `a.py:f:3`, others `f`."""
    text = re.sub(r"_\[[jik01]\]$", "", clean(text))
    if match := re.match(r"^(.+) \((.+?):(\d+)\)$", text):
        return Frame(match[1], match[2]), int(match[3])
    if match := re.match(r"^([^:;]+\.pyx?|<[^>]+>):(.+):(\d+)$", text):
        return Frame(match[2], match[1]), int(match[3])
    return Frame(text), 0


def read_perf(text: str) -> Profile:
    stacks: list[Stack] = []
    events = set()
    for block in re.split(r"\n\s*\n", "\n".join(line for line in text.splitlines() if not line.startswith("#"))):
        head, *rest = block.strip("\n").split("\n")
        if not (match := PERF_HEAD.match(head)):
            continue
        found = [PERF_FRAME.match(line) for line in rest]
        frames = tuple(Frame(clean(one["name"]), clean(one["file"])) for one in reversed(found) if one)
        if frames:
            stacks.append(Stack(frames, 1.0, 1, clean(match["name"])))
            events |= set(re.findall(r"\s([a-z][\w./-]*)(?::\w*)?:\s*$", head))
    several = f"{len(events)} events are added up ({', '.join(sorted(events))}): run `perf script` for one of them"
    return Profile("perf script", "samples", stacks, notes=[several] * (len(events) > 1))


def read_raw(text: str) -> Profile:
    head, _, rest = text.partition("\nSamples:\n")
    samples, _, rest = rest.partition("\nLocations\n")
    places: defaultdict[str, list[tuple[Frame, int]]] = defaultdict(list)
    current = ""
    for line in rest.partition("\nMappings")[0].splitlines():
        if match := LOCATION.match(line):
            current = match["id"] or current
            place = PLACE.match(match["rest"] or "")
            name = place["name"] if place else (match["rest"] or "(unknown)")
            places[current].append((Frame(clean(name), clean(place["file"]) if place else ""),
                                    int(place["line"]) if place else 0))  # fmt: skip
    kinds, *rows = samples.splitlines()
    unit = re.sub(r"\[.*", "", kinds.split()[-1]).split("/")[-1]
    if unit not in {*MILLISECONDS, "count"}:
        raise ValueError(f"its unit is {unit}: a profile of memory or contention counts, not of time")
    stacks = []
    for row in rows:
        if match := re.match(r"^\s+(\d+)\s(?:.*?\s)?(\d+): ([\d ]+)$", " " + row):
            found = [place for key in match[3].split() for place in places[key]]
            frames = tuple(frame for frame, _ in reversed(found))
            stacks.append(Stack(frames, int(match[2]) * MILLISECONDS.get(unit, 1.0), int(match[1]), "", found[0][1]))
    length = re.search(r"^Duration: ([\d.]+)", head, re.MULTILINE)
    return Profile("pprof -raw", "ms" if unit in MILLISECONDS else "samples", stacks,
                   float(length[1]) * 1000 if length else 0)  # fmt: skip


def read_top(text: str) -> Profile:
    profile = Profile("pprof -top", "ms", [], notes=["a table without stacks: no files, callers or noise; -raw has them"])
    for line in text.splitlines():
        if match := TOP_ROW.match(line):
            own, own_unit, total, total_unit, name = match.groups()
            if {own_unit, total_unit} - TOP_UNITS.keys():
                raise ValueError(f"unit {own_unit or total_unit} in `{line.strip()[:60]}` is no time: a profile of memory?")
            frame = Frame(clean(re.sub(r" \((?:partial-)?inline\)$", "", name)))
            profile.table[frame] = (float(own) * TOP_UNITS[own_unit], float(total) * TOP_UNITS[total_unit])
        elif match := re.search(r"^Duration: ([\d.]+)(\w+)", line):
            profile.duration = float(match[1]) * TOP_UNITS.get(match[2], 0)
        elif match := re.search(r"^Dropped (\d+) nodes \((.*?)\)", line):
            profile.notes.append(f"{match[1]} functions were dropped from the table ({match[2]})")
    return profile


def package_of(frame: Frame) -> str:
    file = frame.file.replace("\\", "/")
    if file.endswith((".go", ".s")) and (match := re.match(r"^((?:[\w.-]+/)*[\w-]+)\.", frame.name)):
        return "(own code)" if match[1] == "main" else match[1]
    for pattern in (r".*node_modules/((?:@[^/]+/)?[^/]+)", r".*(?:site|dist)-packages/([^/.]+)"):
        if match := re.match(pattern, file):
            return match[1]
    if file.startswith("node:"):
        return "node (built in)"
    if re.search(r"/python3\.\d+/|^<frozen ", file):
        return "python (library)"
    if not file and (match := re.match(r"^((?:[\w.$-]+/)+[\w$-]+|\w+)(?=\.)", frame.name)):
        return match[1] if "/" in match[1] else f"{match[1]} (module)"
    if not file or ".so" in file or "kernel" in file:
        return "(native)"
    return "(own code)" if re.match(r"/|\w+:", file) else "(no package named)"


def category(stack: Stack) -> str:
    leaf, file, line = stack.frames[-1]
    if (leaf, file) == ("spawnSync", "node:internal/child_process"):  # stands still until the child has ended
        return "idle"
    if line or (file.endswith(".go") and "runtime/" not in file):  # code that runs, whatever its name is
        return "busy"
    if any(GC.search(frame.name) for frame in stack.frames):
        return "gc"
    if PYTHON_WAIT.search(f"{leaf}~{file}") if file.endswith(".py") else WAIT.search(leaf):
        return "idle"
    return "native" if NATIVE.search(leaf) else "unknown" if UNKNOWN.search(leaf) else "busy"


def sums(stacks: Iterable[Stack], key: Callable[[Frame], Any]) -> tuple[Counter[Any], Counter[Any]]:
    """Return self and total weight for each key. A key counts once in a stack, however often it recurs."""
    own: Counter[Any] = Counter()
    total: Counter[Any] = Counter()
    for stack in stacks:
        keys = [key(frame) for frame in stack.frames]
        own[keys[-1]] += stack.weight
        for one in set(keys):
            total[one] += stack.weight
    return own, total


def shown(frame: Frame) -> str:
    place = re.sub(r"^(?:file://)?/?.*/(?=[^/]+/[^/]+$)", "", frame.file) + (f":{frame.line}" if frame.line else "")
    return f"{frame.name[:70]} {place}".strip()


def noise(share: float, samples: int) -> float:
    """Return half the 95 % interval of a share of *samples* independent samples."""
    return 1.96 * math.sqrt(share * (1 - share) / samples) if samples else 0.0


def hot_path(stacks: list[Stack], total: float) -> list[tuple[Frame, float]]:
    """Return from the root down the child that holds most, as long as it holds a tenth of all; recursion is one step."""
    path: list[tuple[Frame, float]] = []
    stacks = [Stack(tuple(dict.fromkeys(one.frames)), one.weight) for one in stacks]
    while len(path) < 200:
        depth = len(path)
        children: Counter[Frame] = Counter()
        for stack in stacks:
            if len(stack.frames) > depth:
                children[stack.frames[depth]] += stack.weight
        if not children or (best := children.most_common(1)[0])[1] < total / 10:
            break
        path.append(best)
        stacks = [one for one in stacks if len(one.frames) > depth and one.frames[depth] == best[0]]
    return path


def analyse(profile: Profile) -> Json:
    kinds: Counter[str] = Counter()
    groups: defaultdict[str, list[Stack]] = defaultdict(list)
    for stack in profile.stacks:
        kinds[kind := category(stack)] += stack.weight
        groups[kind].append(stack)
    active = [stack for stack in profile.stacks if category(stack) != "idle"]
    own, total = sums(active, lambda frame: frame)
    if profile.table:
        own, total = (Counter({key: pair[n] for key, pair in profile.table.items()}) for n in (0, 1))
        kinds["busy"] = sum(own.values())
    busy = sum(own.values())
    samples = sum(stack.count for stack in active)
    depth: Counter[Frame] = Counter()
    callers: defaultdict[Frame, Counter[str]] = defaultdict(Counter)
    hot_lines: Counter[tuple[Frame, int]] = Counter()
    for stack in active:
        for frame, times in Counter(stack.frames).items():
            depth[frame] = max(depth[frame], times)
        first = stack.frames.index(stack.frames[-1])
        callers[stack.frames[-1]][shown(stack.frames[first - 1]) if first else "(root)"] += stack.weight
        if stack.line:
            hot_lines[stack.frames[-1], stack.line] += stack.weight
    rows = [
        {"function": shown(frame), "self": round(own[frame], 2), "total": round(total[frame], 2),
         "share": round(own[frame] / busy, 4) if busy else 0.0,
         "noise": round(noise(own[frame] / busy, samples), 4) if busy else 0.0,
         "depth": depth[frame], "package": package_of(frame),
         "caller": callers[frame].most_common(1)[0][0] if callers[frame] else ""}
        for frame in total
    ]  # fmt: skip
    by = {}
    if not profile.table:
        for name, key in (("files", lambda frame: frame.file or "(no file)"), ("packages", package_of)):
            mine, all_of = sums(active, key)
            by[name] = [{"name": one, "self": round(mine[one], 2), "total": round(all_of[one], 2)}
                        for one in sorted(all_of, key=lambda one: (-mine[one], one))]  # fmt: skip
    return {
        "format": profile.form, "unit": profile.unit, "duration_ms": round(profile.duration, 1), "samples": samples,
        "active": round(busy, 2), "kinds": {kind: round(kinds[kind], 2) for kind in sorted(kinds)},
        "notes": profile.notes + list(warnings(profile, kinds, samples)),
        "self": sorted(rows, key=lambda row: (-row["self"], row["function"])),
        "total": sorted(rows, key=lambda row: (-row["total"], row["function"])),
        **by,
        "lines": [{"function": shown(frame), "line": line, "self": round(weight, 2)}
                  for (frame, line), weight in sorted(hot_lines.items(), key=lambda one: (-one[1], one[0]))],
        "path": [{"function": shown(frame), "total": round(weight, 2)} for frame, weight in hot_path(active, busy)],
        "threads": {name: round(weight, 2) for name, weight in _threads(profile.stacks).most_common()},
    }  # fmt: skip


def _threads(stacks: list[Stack]) -> Counter[str]:
    found: Counter[str] = Counter()
    for stack in stacks:
        found[stack.thread] += stack.weight
    return found


def warnings(profile: Profile, kinds: Counter[str], samples: int) -> Iterator[str]:
    everything = sum(kinds.values())
    if not everything:
        return
    active = everything - kinds["idle"]
    if kinds["idle"] > everything / 2:
        other = " (or work on threads that V8 does not record: look at the CPU of the process)" if "V8" in profile.form else ""
        yield f"idle {kinds['idle'] / everything:.0%}: trace what it waits for{other}"
    if kinds["gc"] > active / 10:
        yield f"garbage collection {kinds['gc'] / active:.0%} of the active time: look for allocation, not for slow code"
    if kinds["native"] + kinds["unknown"] > active / 5:
        yield f"{(kinds['native'] + kinds['unknown']) / active:.0%} of the active time has no name: symbols, native code"
    if 0 < samples < 400 and not profile.table:
        yield f"{samples} samples: a share of 10 % is 10 +- {noise(0.1, samples):.0%}; record longer"
    for depth in DEPTHS & {max((len(stack.frames) for stack in profile.stacks), default=0)}:
        cut = sum(stack.weight for stack in profile.stacks if len(stack.frames) == depth)
        if cut > everything / 50:
            yield f"{cut / everything:.0%} of the stacks have exactly {depth} frames: cut there, so totals are too small"


def difference(now: Profile, old: Profile) -> Json:
    """Return by function, lines and hashes in file names left out, what share of the active time it gained or lost."""

    def name(frame: Frame) -> str:
        file = re.sub(r"[.-](?=[0-9a-zA-Z_]*\d)[0-9a-zA-Z_]{6,}(?=\.)", "", frame.file.replace("\\", "/").split("/")[-1])
        return f"{frame.name} {file}".strip()

    sides = []
    for profile in (old, now):
        own: Counter[str] = Counter()
        active = [stack for stack in profile.stacks if category(stack) != "idle"]
        for stack in active:
            own[name(stack.frames[-1])] += stack.weight
        for frame, (weight, _) in profile.table.items():
            own[name(frame)] += weight
        sides.append((own, sum(own.values()), sum(stack.count for stack in active)))
    (before, all_before, n_before), (after, all_after, n_after) = sides
    rows = []
    for key in before.keys() | after.keys():
        a, b = before[key] / (all_before or 1), after[key] / (all_after or 1)
        limit = math.hypot(noise(a, n_before), noise(b, n_after))
        rows.append({"function": key, "before": round(before[key], 2), "after": round(after[key], 2),
                     "points": round(100 * (b - a), 2), "noise": round(100 * limit, 2),
                     "real": bool(n_before and n_after) and abs(b - a) > limit})  # fmt: skip
    rows.sort(key=lambda row: (-abs(row["points"]), row["function"]))
    return {"active_before": round(all_before, 2), "active_after": round(all_after, 2), "rows": rows,
            "comparable": now.form == old.form and now.unit == old.unit}  # fmt: skip


def show(report: Json, top: int) -> None:
    unit = report["unit"]
    length = f", {report['duration_ms']:.0f} ms long" if report["duration_ms"] else ""
    count = f"{report['samples']} active samples" if report["samples"] else "samples not counted"
    print(f"profile {report['format']}, {count}{length}")
    print(f"time    active {report['active']:g} {unit}" + "".join(
        f", {kind} {weight:g}" for kind, weight in report["kinds"].items()))  # fmt: skip
    for note in report["notes"]:
        print(f"note    {note}")
    for title in ("self", "total"):
        print(f"\nby {title} time\n{'self':>10} {'%':>6} {'+-':>5} {'total':>10}  function (main caller)")
        for row in report[title][:top]:
            again = f" [recursive, {row['depth']} deep]" if row["depth"] > 1 else ""
            called = f" <- {row['caller']}" if title == "self" and row["caller"] else ""
            print(f"{row['self']:>10g} {row['share']:>6.1%} {row['noise']:>5.1%} {row['total']:>10g}  "
                  f"{row['function']}{again}{called}")  # fmt: skip
        if len(report[title]) > top:
            print(f"... {len(report[title]) - top} more: --top {len(report[title])} or --json")
    for title in ("packages", "files"):
        if rows := report.get(title):
            print(f"\n{'self':>10} {'total':>10}  {title}")
            for row in rows[: max(5, top // 2)]:
                print(f"{row['self']:>10g} {row['total']:>10g}  {row['name'][-70:]}")
    if report["lines"]:
        print(f"\n{'self':>10}  lines that ran")
        for row in report["lines"][: max(5, top // 2)]:
            print(f"{row['self']:>10g}  {row['function']}, line {row['line']}")
    if report["path"]:
        print("\nheaviest path")
        for row in report["path"][-top:]:
            print(f"{row['total']:>10g}  {row['function']}")
    if len(report["threads"]) > 1:
        print("\nthreads " + ", ".join(f"{name or '?'} {weight:g}" for name, weight in list(report["threads"].items())[:8]))
    if change := report.get("difference"):
        print(f"\nagainst the baseline: active {change['active_before']:g} -> {change['active_after']:g} {unit}"
              + ("" if change["comparable"] else " (different formats: compare shares only)"))  # fmt: skip
        print(f"{'before':>10} {'after':>10} {'points':>7} {'+-':>5}  function")
        for row in change["rows"][:top]:
            mark = "" if row["real"] else "  (within noise)" if row["noise"] else ""
            print(f"{row['before']:>10g} {row['after']:>10g} {row['points']:>+7.1f} {row['noise']:>5.1f}  "
                  f"{row['function']}{mark}")  # fmt: skip


def keep(profile: Profile, thread: str | None, focus: str | None) -> None:
    """Leave only the stacks of *thread*, and of these what runs below a function whose name has *focus*."""
    kept = []
    for stack in profile.stacks:
        place = next((n for n, frame in enumerate(stack.frames) if focus and focus in frame.name), None)
        if (thread is None or thread in stack.thread) and (focus is None or place is not None):
            stack.frames = stack.frames[place or 0 :]
            kept.append(stack)
    profile.stacks = kept


def load(name: str, thread: str | None, focus: str | None) -> Profile:
    try:
        profile = read_profile(name)
    except (KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise ValueError(f"damaged, a part of the format is missing ({type(error).__name__} {error})") from error
    except OverflowError as error:
        raise ValueError("damaged, a number in it is too large: record again") from error
    if profile.table and (thread or focus):
        raise ValueError("a table of `pprof -top` has no stacks to choose from: use -raw")
    keep(profile, thread, focus)
    return profile


def main() -> int:
    parser = argparse.ArgumentParser(description="Say from a CPU profile where the time went.")
    parser.add_argument("file", help="the profile, - for standard input")
    parser.add_argument("--baseline", help="an older profile of the same work to compare with")
    parser.add_argument("--focus", metavar="TEXT", help="only what runs below a function with TEXT in its name")
    parser.add_argument("--thread", metavar="TEXT", help="only threads with TEXT in their name")
    parser.add_argument("--top", type=int, default=15, help="rows in each table (default 15)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    profiles = []
    for name in filter(None, (args.file, args.baseline)):
        try:
            profiles.append(load(name, args.thread, args.focus))
        except (OSError, ValueError) as error:
            print(f"cannot read {name}: {error}", file=sys.stderr)
            return 2
        if not profiles[-1].table and not any(stack.weight > 0 for stack in profiles[-1].stacks):
            print(f"no samples in {name}" + (" are left by the filter" if args.thread or args.focus else ""), file=sys.stderr)
            return 1
    report = analyse(profiles[0])
    if args.baseline:
        report["difference"] = difference(*profiles)
    print(json.dumps(report, indent=1)) if args.json else show(report, max(1, args.top))
    return 0


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly under `| head`
    sys.exit(main())
