#!/usr/bin/env python3
"""Say where a PostgreSQL query spends its time, and where the planner's estimates go wrong, from EXPLAIN output.

Standard library only, Python 3.11+. Reads EXPLAIN in text and JSON form, also as psql, pgAdmin or auto_explain show it.
String constants of conditions are printed as '?'.

    python3 review_query_plan.py plan.txt [--top N] [--json]      # - reads standard input

Exit codes: 0 analysed, 1 nothing was measured (plain EXPLAIN: estimates only), 2 no plan.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]
ESTIMATE = r"\(cost=(?P<start>[\d.]+)\.\.(?P<cost>[\d.]+) rows=(?P<plan>[\d.]+) width=\d+\)"
ACTUAL = (
    r"\((?:actual (?:time=[\d.]+\.\.(?P<time>[\d.]+) )?rows=(?P<rows>[\d.]+) loops=(?P<loops>\d+)"
    r"|(?P<never>never executed))\)"
)
NODE = re.compile(
    rf"^(?P<indent>\s*)(?:->  ?)?(?P<label>\S.*?)\s+(?:{ESTIMATE}(?:\s+{ACTUAL})?|{ACTUAL.replace('P<', 'P<only_')})$"
)
SUBPLAN = re.compile(
    r"^\s*(?P<kind>InitPlan|SubPlan|CTE) (?P<name>\S+)(?: \(returns (?P<params>[^)]*)\))?(?: \(\w.*\))?$"
)
BLOCKS = re.compile(r"(shared|local|temp) ((?:(?:hit|read|dirtied|written)=\d+ ?)+)")
READS_ALL = ("Sort", "Hash", "Aggregate", "HashAggregate", "MixedAggregate", "HashSetOp", "Bitmap Heap Scan")
LOGGED = r"duration: ([\d.]+) ms +plan:"
FACTOR, REMOVED, LOOPS = 10, 10, 1000
"""A misestimate, the rows that a filter removes for each row it keeps, and repetitions that are worth a line."""


@dataclass
class Node:
    """One node of a plan: times in milliseconds, rows for each loop, blocks of 8 kB."""

    label: str
    kind: str = ""
    relation: str = "Outer"
    name: str = ""
    plan: float | None = None
    cost: float = 0.0
    time: float | None = None
    rows: float | None = None
    loops: int = 0
    texts: list[str] = field(default_factory=list)
    removed: dict[str, float] = field(default_factory=dict)
    blocks: dict[str, int] = field(default_factory=dict)
    disk: int = 0
    batches: int = 0
    lossy: int = 0
    heap_fetches: int = 0
    planned: int = 0
    launched: int = 0
    disabled: bool = False
    cte: str = ""
    processes: int = 1
    children: list[Node] = field(default_factory=list)

    @property
    def wall(self) -> float:
        """Milliseconds on the clock: of all loops, shared out among the processes that ran them side by side."""
        return (self.time or 0.0) * self.loops / self.processes

    @property
    def rounding(self) -> float:
        """Milliseconds by which `wall` may be off: the time of a loop is printed with three decimals."""
        return 0.0005 * self.loops / self.processes

    @property
    def direct(self) -> list[Node]:
        """Children whose rows this node itself asks for."""
        return [child for child in self.children if child.relation not in ("CTE", "InitPlan")]

    @property
    def inputs(self) -> list[Node]:
        return [child for child in self.direct if child.relation != "SubPlan"]

    @property
    def total_rows(self) -> float:
        return (self.rows or 0.0) * self.loops


@dataclass
class Plan:
    root: Node
    execution: float | None = None
    planning: float | None = None
    jit: float = 0.0
    triggers: list[tuple[str, float]] = field(default_factory=list)
    settings: str = ""
    serialize: float = 0.0

    @property
    def nodes(self) -> list[Node]:
        return list(walk(self.root))


def walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from walk(child)


def read_plans(path: str) -> list[Plan]:
    """Return the plans in the file *path*, or from standard input for `-`."""
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"neither UTF-8 nor UTF-16 (byte {error.start})") from error
    if not text.strip():
        raise ValueError("empty: write the output of EXPLAIN into it")
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)
    if re.search(
        r"^\s*-> .*\(cost=\d+(?:\.\d+)?(?:e[+-]?\d+)? rows=|^\s*\"query_block\"|^\{\"query_block\"", text, re.MULTILINE
    ):
        raise ValueError("a plan of MySQL or MariaDB: only those of PostgreSQL are read here")
    lines = [bare(line) for line in re.split(r"\r?\n", unpacked(text))]
    if re.search(r"^\s*- Plan:|<explain ", text, re.MULTILINE):
        raise ValueError("YAML or XML: ask for EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)")
    joined = "\n".join(lines)
    start = (LOGGED if re.search(LOGGED, joined) else "^()") + r"\s*(?=[\[{])"
    begin = re.search(start, joined, re.MULTILINE)
    if begin and not any(NODE.match(line) for line in joined[: begin.start()].split("\n")):
        return read_json(joined, re.compile(start, re.MULTILINE))
    return read_text(lines)


def unpacked(text: str) -> str:
    """Return the messages of a server log in JSON or CSV, or the column of psql --csv; other text as it is."""
    if text.startswith('{"timestamp":'):
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        return "\n".join(str(row.get("message", "")) for row in rows)
    log = re.match(r"\d{4}-\d\d-\d\d [\d:.]+ [\w+-]+,", text)
    if log or re.match(r'QUERY PLAN\r?\n"[\[{]', text):
        csv.field_size_limit(1 << 30)
        rows = csv.reader(io.StringIO(text, newline=""))
        return "\n".join(row[13] if log and len(row) > 13 else row[0] for row in rows if row)
    return text


def bare(line: str) -> str:
    """Return a line without what psql and pgAdmin put around it."""
    line = re.sub(r"^\s*(?:QUERY PLAN| {10})\s?[|│:] ?", "", line)  # psql -x
    line = re.sub(r"\s*[+↵]?\s*$", "", line)
    line = re.sub(r"^[|│] (.*?)\s*[+↵]?\s*[|│]$", r"\1", line)
    if len(line) > 1 and line[0] == line[-1] == '"':
        line = line[1:-1].replace('""', '"')
    return line


# --- JSON


def read_json(text: str, start: re.Pattern[str]) -> list[Plan]:
    """Read each document that begins at *start*; between them a server log has lines of its own."""
    decoder, plans, end = json.JSONDecoder(object_pairs_hook=single), list[Plan](), 0
    while begin := start.search(text, end):
        try:
            whole, after = decoder.raw_decode(text, begin.end())
        except json.JSONDecodeError as error:
            raise ValueError(f"no JSON at line {error.lineno}, column {error.colno} of the plan: cut off?") from error
        found = whole if isinstance(whole, list) else [whole]
        if not found or not all(isinstance(one, dict) and isinstance(one.get("Plan"), dict) for one in found):
            raise ValueError('no plan: JSON without "Plan"')
        if re.match(r"[^\n]*[{\[]", text[after:]):
            raise ValueError("more follows on the last line of a JSON document: one line for each")
        plans += [plan_of({"Execution Time": float(begin[1])} | one if begin[1] else one) for one in found]
        end = after
    return plans


def single(pairs: list[tuple[str, Any]]) -> Json:
    """Return an object that has one plan. PostgreSQL before 13 writes other names twice."""
    found = dict(pairs)
    if any(sum(name == one for one, _ in pairs) > 1 for name in ("Plan", "Plans") if name in found):
        raise ValueError("an object with two plans: one would hide the other")
    return found


def plan_of(whole: Json) -> Plan:
    triggers = [
        (str(one.get("Constraint Name") or one.get("Trigger Name")), float(one.get("Time") or 0))
        for one in whole.get("Triggers") or []
    ]
    jit = ((whole.get("JIT") or {}).get("Timing") or {}).get("Total") or 0.0
    settings = ", ".join(f"{name} = {value}" for name, value in (whole.get("Settings") or {}).items())
    root = node_of(whole["Plan"])
    share_out(root, 1)
    serialize = float((whole.get("Serialization") or {}).get("Time") or 0)
    return Plan(
        root, number(whole, "Execution Time"), number(whole, "Planning Time"), float(jit), triggers, settings, serialize
    )


def node_of(one: Json) -> Node:
    how = {"Sorted": "Group", "Hashed": "Hash", "Mixed": "Mixed"}.get(str(one.get("Strategy")), "")
    kind = how.replace("Group", "" if one["Node Type"] == "SetOp" else "Group") + str(one["Node Type"])
    subplan = str(one.get("Subplan Name", ""))
    node = Node(label_of(one), kind, plan=number(one, "Plan Rows"), cost=number(one, "Total Cost") or 0)
    node.relation = str(one.get("Parent Relationship", "Outer"))
    if subplan.startswith("CTE "):
        node.relation = "CTE"
    node.name = re.sub(r"^(CTE|InitPlan|SubPlan) ", "", subplan).partition(" ")[0]
    params = re.findall(r"\$\d+", subplan)
    node.texts = [
        str(value) for name, value in one.items() if isinstance(value, str) and ("Cond" in name or "Filter" in name)
    ]
    node.texts += [str(value) for value in one.get("Output") or []]
    node.name = " ".join([node.name, *params])
    node.time, node.rows, node.loops = (
        number(one, "Actual Total Time"),
        number(one, "Actual Rows"),
        int(number(one, "Actual Loops") or 0),
    )
    node.removed = {name[16:]: float(value) for name, value in one.items() if name.startswith("Rows Removed by ")}
    node.blocks = {
        f"{where} {what}": int(one.get(f"{where.title()} {what.title()} Blocks") or 0)
        for where in ("shared", "local", "temp") for what in ("hit", "read", "dirtied", "written")
    }  # fmt: skip
    parts = [one, *(each for each in one.get("Workers") or [] if isinstance(each, dict))]
    node.disk = sum(int(each.get("Sort Space Used") or 0) for each in parts if each.get("Sort Space Type") == "Disk")
    node.disk += sum(int(each.get("Disk Usage") or 0) for each in parts)
    node.disk += int(one.get("Maximum Storage") or 0) if one.get("Storage") == "Disk" else 0
    node.batches = max(int(each.get(name) or 0) for each in parts for name in ("Hash Batches", "HashAgg Batches"))
    node.lossy, node.heap_fetches = int(one.get("Lossy Heap Blocks") or 0), int(one.get("Heap Fetches") or 0)
    node.planned, node.launched = int(one.get("Workers Planned") or 0), int(one.get("Workers Launched") or 0)
    node.disabled, node.cte = one.get("Disabled") is True, str(one.get("CTE Name", ""))
    node.children = [node_of(each) for each in one.get("Plans") or []]
    return node


def number(one: Json, name: str) -> float | None:
    value = one.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f"{name} is {str(value)[:40]!r}: not what PostgreSQL writes, ask for the plan again")
    return float(value)


def label_of(one: Json) -> str:
    kind = str(one["Node Type"])
    words = [
        str(one.get("Partial Mode", "")).replace("Simple", ""),
        "Parallel" if one.get("Parallel Aware") else "",
        kind,
    ]
    if one.get("Join Type") not in (None, "Inner"):
        words.append(str(one["Join Type"]))
    if "Index Name" in one:
        words.append(f"using {one['Index Name']}")
    target = one.get("Relation Name") or one.get("CTE Name") or one.get("Function Name")
    words += [f"on {target}"] if target else []
    words += [str(one["Alias"])] if one.get("Alias") not in (None, target) else []
    return " ".join(filter(None, words))


# --- text


def read_text(lines: list[str]) -> list[Plan]:
    plans: list[Plan] = []
    stack: list[tuple[int, Node]] = []
    below: tuple[str, str] | None = None
    footer, logged, quoted = False, None, False
    for line in lines:
        if quoted:  # in the middle of a constant of several lines, which may look like anything
            quoted = not opens_quote(line)
        elif match := NODE.match(line):
            arrow = "->" in line[: len(match["indent"]) + 2]
            if not arrow and "->  " in match["label"]:
                raise ValueError(f"something stands before the nodes, take it off each line: {line.strip()[:60]}")
            node, indent = text_node(match), len(match["indent"])
            if below:
                (node.relation, node.name), below = below, None
            if not arrow:
                stack, footer = [(indent, node)], False
                plans.append(Plan(node, logged))
                logged = None
                continue
            while stack and stack[-1][0] >= indent:
                stack.pop()
            if not stack:
                raise ValueError(f"the first line of the plan is missing, before: {line.strip()[:60]}")
            stack[-1][1].children.append(node)
            stack.append((indent, node))
        elif match := re.search(LOGGED, line):
            logged = float(match[1])
        elif re.search(r"\((cost=\d|actual (time|rows)=|never executed\))", masked(line)):
            raise ValueError(f"a wrapped or damaged line: {line.strip()[:60]}")
        elif not plans:
            continue
        elif (match := SUBPLAN.match(line)) and not footer:
            below = (match["kind"], " ".join([match["name"], *re.findall(r"\$\d+", match["params"] or "")]))
        else:
            footer = footer or bool(
                re.match(r"\s*(Planning|Settings|JIT|Triggers?|Execution|Serialization|Query Id)\b", line)
            )
            read_footer(plans[-1], line) if footer else read_property(stack[-1][1], line.strip())
            quoted = not footer and bool(re.match(r"\s*[\w ]*(Cond|Filter|Output): ", line)) and opens_quote(line)
    if quoted:
        raise ValueError("it ends inside a text in quotes: cut off?")
    if not plans:
        raise ValueError("no plan in it: no line with (cost=...) or (actual ...)")
    for plan in plans:
        share_out(plan.root, 1)
    return plans


def opens_quote(line: str) -> bool:
    """Return whether a line leaves an odd quote behind its whole constants and names."""
    return "'" in re.sub(r"'(?:[^']|'')*'|\"[^\"]*\"", "", line)


def text_node(match: re.Match[str]) -> Node:
    def value(name: str) -> str | None:
        return match[name] or match[f"only_{name}"]

    label = match["label"].removeprefix("->").strip()
    kind = re.split(r" (?:on|using) ", label)[0]
    kind = re.sub(r"^(Parallel|Partial|Finalize|Async) ", "", re.sub(r"^(Parallel|Partial|Finalize) ", "", kind))
    node = Node(label, kind, plan=float(match["plan"]) if match["plan"] else None, cost=float(match["cost"] or 0))
    if rows := value("rows"):
        node.rows, node.loops = float(rows), int(value("loops") or 0)
        node.time = float(value("time") or 0) if value("time") else None
    elif value("never"):
        node.rows, node.time = 0.0, 0.0
    if kind == "CTE Scan":
        node.cte = label.split(" on ")[-1].split(" ")[0]
    return node


def read_property(node: Node, line: str) -> None:
    name, _, value = line.partition(": ")
    if name.startswith("Rows Removed by "):
        node.removed[name[16:]] = float(value)
    elif name.endswith(("Cond", "Filter", "Output")):
        node.texts.append(value)
    elif name == "Buffers":
        for where, counts in BLOCKS.findall(value):
            node.blocks |= {f"{where} {what}": int(n) for what, n in re.findall(r"(\w+)=(\d+)", counts)}
    elif name in ("Workers Planned", "Workers Launched"):
        setattr(node, name[8:].lower(), int(value))
    elif name == "Heap Fetches":
        node.heap_fetches = int(value)
    elif name == "Heap Blocks":
        node.lossy = sum(map(int, re.findall(r"lossy=(\d+)", value)))
    elif name == "Disabled":
        node.disabled = value == "true"
    node.disk += sum(map(int, re.findall(r"Disk(?: Usage)?: (\d+) ?kB", line)))
    if "Storage: Disk" in line:
        node.disk += sum(map(int, re.findall(r"Maximum Storage: (\d+)", line)))
    node.batches = max(node.batches, *map(int, re.findall(r"Batches: (\d+)", line)), 0)


def read_footer(plan: Plan, line: str) -> None:
    if match := re.match(r"\s*(Planning|Execution) Time: ([\d.]+) ms", line):
        setattr(plan, match[1].lower(), float(match[2]))
    elif match := re.match(r"\s*Settings: (.*)", line):
        plan.settings = match[1]
    elif match := re.search(r"^\s+Timing: .*Total ([\d.]+) ms", line):
        plan.jit = float(match[1])
    elif match := re.match(r"\s*Trigger (?:for constraint )?(\S+?)(?: on \S+)?: time=([\d.]+)", line):
        plan.triggers.append((match[1], float(match[2])))
    elif match := re.match(r"\s*Serialization: time=([\d.]+)", line):
        plan.serialize = float(match[1])


def share_out(node: Node, processes: int) -> None:
    node.processes = processes
    for child in node.children:
        shares = 1
        if node.kind.startswith("Gather") and child in node.direct:  # the leader may take no part
            shares = max(node.launched + (child.loops != node.launched * node.loops), 1)
        share_out(child, processes * shares)


# --- analysis


def own(nodes: list[Node], measure: Callable[[Node], float]) -> list[float]:
    """Return for each node what of a measure it used by itself.

    What a CTE or InitPlan used is not part of the node it hangs from, but of those that asked for its rows.
    The one that asks in its select list is not named without VERBOSE: the first that used as much stands for it.
    """
    used = {id(node): max(measure(node) - sum(map(measure, node.direct)), 0.0) for node in nodes}
    for node in nodes:
        if node.relation in ("CTE", "InitPlan"):
            rest = measure(node)
            home = next(one for one in nodes if any(child is node for child in one.children))
            asks = askers(node, home, nodes)
            if node.relation == "InitPlan" and not asks:
                asks = [one for one in own_tree(home) if used[id(one)] >= 0.99 * rest][:1]
            for asking in [*asks, home]:
                taken = min(rest, used[id(asking)])
                used[id(asking)] -= taken
                rest -= taken
    return [used[id(node)] for node in nodes]


def askers(below: Node, home: Node, nodes: list[Node]) -> list[Node]:
    """Return the nodes that ask a CTE or InitPlan for rows, in the order of the plan.

    A Gather evaluates an InitPlan that its workers need before it starts them: it asks instead of the nodes below it.
    """
    number_, *params = below.name.split(" ")
    if below.relation == "CTE":
        asking = [node for node in nodes if node.cte == number_]
    else:
        signs = [re.escape(one) + r"(?!\d)" for one in params] + [rf"InitPlan {re.escape(number_)}\)"]
        asking = [node for node in nodes if any(re.search(sign, text) for sign in signs for text in node.texts)]
    gathers = [(node, [*own_tree(node)]) for node in own_tree(home) if node.kind.startswith("Gather")]
    if below.relation == "InitPlan":
        asking = [
            next((gather for gather, part in gathers if any(one is node for one in part)), node) for node in asking
        ]
    return asking


def own_tree(node: Node) -> Iterator[Node]:
    """Yield a node and what runs below it, without the CTEs and InitPlans that hang there."""
    yield node
    for child in node.direct:
        yield from own_tree(child)


def factor(node: Node) -> float:
    """Return how many times more rows (negative: fewer) a loop gave than estimated; 1 if that is unknown."""
    if node.plan is None or node.rows is None or not node.loops:
        return 1.0
    plan, rows = max(node.plan, 1.0), max(node.rows, 1.0)
    return rows / plan if rows >= plan else -plan / rows


def wrong_nodes(node: Node, part: set[str], cut: bool = False, again: bool = False) -> Iterator[Node]:
    """Yield nodes whose estimate is wrong, without those whose count of rows is none of all they have.

    Something above stopped *cut* early and read *again* what it had read; *part* has the CTEs that were stopped early.
    """
    unlike = factor(node)
    if abs(unlike) >= FACTOR and not (cut if unlike < 0 else again) and node.kind not in ("BitmapAnd", "BitmapOr"):
        yield node
    for child, below, twice in ways(node, part, cut):
        yield from wrong_nodes(child, part, below, twice)


def ways(node: Node, part: set[str], cut: bool) -> Iterator[tuple[Node, bool, bool]]:
    """Yield each child, whether it may have been stopped early, and whether a merge join may go back in it."""
    for child in node.children:
        if child.relation == "CTE":
            yield child, child.name in part, False
        elif child.relation in ("InitPlan", "SubPlan"):  # EXISTS stops at the first row
            yield child, 0 < (child.rows or 0) <= 1, False
        else:
            place = next(n for n, one in enumerate(node.inputs) if one is child)
            merge = place == 1 and node.kind.startswith("Merge") and "Join" in node.kind
            yield child, stops(node, place) or (cut and node.kind not in READS_ALL), merge


def stops(node: Node, place: int) -> bool:
    """Return whether a node may stop asking its input at *place* before the end."""
    if node.kind == "Limit" or (node.kind.startswith("Merge") and "Join" in node.kind):
        return True
    if place == 1:
        return "Semi" in node.label or "Anti" in node.label
    return len(node.inputs) > 1 and node.inputs[1].kind == "Hash" and node.inputs[1].rows == 0


def stopped(node: Node, cut: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield for each scan of a CTE its name and whether it may have been stopped early."""
    if node.cte:
        yield node.cte, cut
    for child, below, _ in ways(node, set(), cut):
        yield from stopped(child, below)


def beginnings(plan: Plan) -> list[Node]:
    """Return the wrong nodes below which no estimate is wrong."""
    scans = list(stopped(plan.root))
    part = {name for name, _ in scans} - {name for name, cut in scans if not cut}
    wrong = list(wrong_nodes(plan.root, part))
    return [node for node in wrong if not any(below in wrong for below in walk(node) if below is not node)]


def masked(text: str) -> str:
    return re.sub(r"'(?:[^']|'')*(?:'|$)", "'?'", text)


def findings(plan: Plan) -> Iterator[str]:
    nodes, total = plan.nodes, plan.root.wall
    whole = max(plan.execution or 0.0, total)
    if total:
        times = zip(own(nodes, lambda node: node.wall), nodes, strict=True)
        for ms, node in sorted(times, key=lambda one: -one[0]):
            if ms >= 0.2 * whole:
                yield f"time: {ms:.1f} of {whole:.1f} ms ({ms / whole:.0%}) in {node.label}"
        rest = whole - total - plan.serialize
        if rest > max(0.1 * whole, 5):
            others = ", the end of workers, or the measuring of SERIALIZE" if plan.serialize else ", or the end of workers"
            yield f"outside: {rest:.1f} ms belong to no node: triggers, JIT{others}"
    if plan.serialize > 0.1 * whole:
        yield f"serialize: {plan.serialize:.1f} ms to convert the rows for the client (SERIALIZE)"
    for node in beginnings(plan):
        wrong = f"{abs(factor(node)):.0f} times {'more' if factor(node) > 0 else 'fewer'} rows than estimated"
        why = f": {masked('; '.join(node.texts))[:120]}" if node.texts else ""
        yield f"misestimate: {wrong} ({show_rows(node)}) begin at {node.label}{why}"
    for node in nodes:
        yield from node_findings(node)
    yield from repeated(plan.root)
    if plan.jit and plan.jit > 0.1 * whole:
        yield f"jit: {plan.jit:.1f} ms of compiling in a query of {whole:.1f} ms"
    if plan.planning and plan.planning > max(0.33 * (plan.planning + whole), 5):
        yield f"planning: {plan.planning:.1f} ms to plan, {whole:.1f} ms to run"
    yield from (f"trigger: {ms:.1f} ms in {name}" for name, ms in plan.triggers if ms > 0.1 * whole)


def node_findings(node: Node) -> Iterator[str]:
    for why, removed in node.removed.items():
        thrown, kept = removed * max(node.loops, 1), node.total_rows
        if thrown >= 1000 and thrown >= REMOVED * max(kept, 1):
            yield f"removed: {node.label} reads {thrown + kept:.0f} rows to keep {kept:.0f} ({why})"
    if node.disk or node.batches > 1:
        how = [f"{node.disk} kB on disk"] * bool(node.disk) + [f"{node.batches} batches"] * (node.batches > 1)
        yield f"spill: {node.label}: {', '.join(how)}"
    if node.lossy:
        yield f"lossy: {node.label} rechecks whole pages, {node.lossy} of them"
    if node.heap_fetches > 1000 and node.heap_fetches > 0.1 * node.total_rows:
        yield f"heap: {node.label} had to visit the table {node.heap_fetches} times: VACUUM"
    if node.planned > node.launched and node.loops:
        yield f"workers: {node.label} got {node.launched} of {node.planned} workers"
    if node.disabled:
        yield f"disabled: {node.label} is used although a setting forbids it"


def repeated(node: Node) -> Iterator[str]:
    """Yield the topmost nodes that run very often."""
    if node.loops / node.processes >= LOOPS:
        yield f"loops: {node.label} runs {node.loops} times, {node.wall:.1f} ms in all (rounded: +-{node.rounding:.1f})"
        return
    for child in node.children:
        yield from repeated(child)


def show_rows(node: Node) -> str:
    plan = "?" if node.plan is None else f"{node.plan:.0f}"
    return f"{plan} -> {'?' if node.rows is None else f'{node.rows:g}'}"


def report_of(plan: Plan) -> Json:
    measured = plan.root.rows is not None
    timed = plan.root.time is not None
    nodes = plan.nodes
    used = [
        own(nodes, measure)
        for measure in (lambda node: node.wall, lambda node: blocks(node, "read"), lambda node: blocks(node, "hit"))
    ]
    rows = [
        {
            "node": node.label, "own_ms": round(ms, 3), "wall_ms": round(node.wall, 3), "loops": node.loops,
            "processes": node.processes, "estimated_rows": node.plan, "rows": node.rows,
            "factor": round(factor(node), 1), "own_read_kB": 8 * round(read), "own_hit_kB": 8 * round(hit),
            "executed": bool(node.loops) or not measured, "cost": node.cost,
        }
        for node, ms, read, hit in zip(nodes, *used, strict=True)
    ]  # fmt: skip
    order = "own_ms" if timed else "own_hit_kB" if any(row["own_hit_kB"] for row in rows) else "cost"
    return {
        "measured": measured, "timed": timed, "execution_ms": plan.execution, "planning_ms": plan.planning,
        "settings": plan.settings, "findings": list(findings(plan)),
        "never_executed": [row["node"] for row in rows if not row["executed"]],
        "nodes": sorted(rows, key=lambda row: -row[order]),
    }  # fmt: skip


def blocks(node: Node, what: str) -> int:
    return node.blocks.get(f"shared {what}", 0)


def show(report: Json, top: int) -> None:
    times = [
        f"{name[:-3]} {report[name]:.1f} ms" for name in ("execution_ms", "planning_ms") if report[name] is not None
    ]
    print(
        "plan     "
        + ", ".join(times or ["no times of the whole"])
        + (f"; {report['settings']}" if report["settings"] else "")
    )
    if not report["measured"]:
        print("note     estimates only, nothing was run: ask for EXPLAIN (ANALYZE, BUFFERS)")
    elif not report["timed"]:
        print("note     TIMING OFF: no times of nodes, ordered by blocks")
    elif report["execution_ms"] is None:
        print("note     no line Execution Time: the end may be cut off")
    for finding in report["findings"] or (["none above the thresholds"] if report["measured"] else []):
        print("finding  " + clean(finding))
    rows = report["nodes"]
    print(f"\n{'own ms':>10} {'loops':>8} {'rows: estimate -> real':>24} {'read kB':>9} {'hit kB':>10}  node")
    for row in [row for row in rows if row["executed"]][:top]:
        estimate = ["?" if row[name] is None else f"{row[name]:g}" for name in ("estimated_rows", "rows")]
        own_ms = f"{row['own_ms']:.1f}" if report["timed"] else "-"
        print(
            f"{own_ms:>10} {row['loops']:>8} {' -> '.join(estimate):>24}"
            f" {row['own_read_kB']:>9} {row['own_hit_kB']:>10}  {clean(row['node'])}"
        )
    if len(rows) > top:
        print(f"... {len(rows) - top} more: --top {len(rows)} or --json")
    for name in report["never_executed"][:top]:
        print(f"never executed: {clean(name)}")


def clean(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


def main() -> int:
    parser = argparse.ArgumentParser(description="Say where a PostgreSQL query spends its time, from EXPLAIN.")
    parser.add_argument("file", help="output of EXPLAIN (ANALYZE, BUFFERS), text or JSON; - for standard input")
    parser.add_argument("--top", type=int, default=12, help="rows of the table (default 12)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    try:
        reports = [report_of(plan) for plan in read_plans(args.file)]
    except (OSError, ValueError, RecursionError) as error:
        print(f"cannot read {args.file}: {error}", file=sys.stderr)
        return 2
    except (AttributeError, KeyError, TypeError) as error:
        print(f"cannot read {args.file}: not the shape of a plan ({error})", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps({"plans": reports}, indent=1))
    else:
        for place, report in enumerate(reports):
            if len(reports) > 1:
                print(f"{chr(10) * bool(place)}== plan {place + 1} of {len(reports)}")
            show(report, args.top)
    return 0 if all(report["measured"] for report in reports) else 1


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly under `| head`
    sys.exit(main())
