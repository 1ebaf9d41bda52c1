#!/usr/bin/env python3
"""Say what a Terraform or OpenTofu plan destroys, replaces, forgets and hides.

Standard library only, Python 3.11+. Reads what `terraform show -json plan.bin` or `tofu show -json plan.bin` prints.
Values are printed for attributes that force a replacement, except sensitive, long or secret-looking ones.

    python3 review_plan.py plan.json [--protect 'acme_*'] [--top N] [--json]      # - reads standard input

Exit codes: 0 no danger, 1 at least one danger (destroy, replacement, protection removed, incomplete plan),
2 no readable plan.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

Json = dict[str, Any]
DATA = re.compile(
    r"(^|_)(db|rds|database|sql|dynamodb|table|bucket|storage|s3|efs|ebs|volume|disk|filesystem|file_system|fsx|netapp"
    r"|redis|elasticache|memorydb|valkey|memcache|opensearch|elasticsearch|kafka|msk|kinesis|sqs|queue|eventhub|pubsub"
    r"|bigquery|bigtable|spanner|firestore|cosmosdb|documentdb|docdb|neptune|redshift|synapse|snowflake|mongodb"
    r"|backup|snapshot|vault|kms|key_vault|secret|secretsmanager|persistent|cognito_user_pool|ecr|registry|stateful"
    r"|postgresql|mysql|zone|rds_cluster|lightsail|mssql|mariadb|alloydb|dsql|qldb|kusto|filestore|memorystore|servicebus|mq"
    r"|repository|log_group|(log_analytics|prometheus|monitor)_workspace|kv_namespace|kubernetes_namespace|redshiftserverless"
    r"|mongodbatlas_(advanced_|serverless_|flex_)?(cluster|instance)|rdb|pg|clickhouse|rediscloud|cockroach|timescale"
    r"|(neon|supabase)_(project|branch)|keycloak_realm|auth0_connection|catalog|schema|search_service|pinecone_index)(_|$)"
)
HARMLESS = re.compile(
    r"_(policy|rule|attachment|association|acl|grant|permission|parameter_group|subnet_group|option_group|notification"
    r"|alias|controls|public_access_block|ownership_controls|versioning|logging|metric|iam_member|iam_binding"
    r"|availability_zone|lifecycle_configuration|server_side_encryption_configuration)$"
)
SECRET = re.compile(
    r"passw|secret|token|private|credential|user_data|api_?key|connection_string|(?:AKIA|ASIA)[0-9A-Z]{16}|eyJ[\w-]{10}"
    r"|\bgh[pousr]_\w{20}|\bxox[a-z]-|\b[sr]k_live_|://[^/\s:@]*:[^/\s@]+@", re.IGNORECASE
)  # fmt: skip
ACTIONS = {"no-op", "create", "read", "update", "delete", "forget"}
GUARDS = {
    "disable_api_termination": True, "disable_api_stop": True, "prevent_deletion": True, "point_in_time_recovery_enabled": True, "purge_protection_enabled": True,
    "versioning_enabled": True, "force_destroy": False, "skip_final_snapshot": False, "force_delete": False,
    "delete_automated_backups": False, "delete_contents_on_destroy": False,
}  # fmt: skip
"""Attributes that keep data, and the value that does; others do by their names (`GUARD`) if they are `ON`."""
GUARD = re.compile(r"(delet|drop|destroy|terminat|rebuild)\w*_protect")
ON = (True, "ACTIVE", "ENABLED", "Enabled")
KEPT = re.compile(r"(delet\w*|reclaim|removal)_policy$")
"""Names of a text that says what becomes of the object when its resource goes."""
KEEPING = {"PREVENT", "ABANDON", "RETAIN"}
BACKUPS = re.compile(r"((backup|snapshot|log)_retention_(period|limit|days)|retention_in_days|retention_duration_seconds)$")
"""Numbers that delete backups, deleted objects or logs when they fall."""
KEEPERS = {"point_in_time_recovery", "backup_configuration", "backup", "versioning"}
"""Blocks that keep backups or old versions while they say `enabled`."""
WHY = {
    "replace_because_cannot_update": "the provider cannot change it in place",
    "replace_because_tainted": "marked as tainted",
    "replace_by_request": "asked for by -replace",
    "replace_by_triggers": "replace_triggered_by",
    "delete_because_no_resource_config": "its block is gone",
    "delete_because_wrong_repetition": "count or for_each was added or removed",
    "delete_because_count_index": "its index is beyond count",
    "delete_because_enabled_false": "lifecycle says enabled = false",
    "forgot_because_lifecycle_destroy_in_state": "destroy = false in the state",
    "forgot_because_lifecycle_destroy_in_config": "destroy = false",
    "delete_because_each_key": "its key is no longer in for_each",
    "delete_because_no_module": "its module is gone",
    "delete_because_no_move_target": "moved to an address that has no block",
}


def read_plan(path: str) -> Json:
    """Return the plan in the file *path*, or from standard input for `-`."""
    data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    if data.startswith(b"PK"):
        raise ValueError("a binary plan: print it with `terraform show -json FILE` first")
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"neither UTF-8 nor UTF-16 (byte {error.start}): print it again") from error
    if not text.strip():
        raise ValueError("empty: did `show -json` fail?")
    log = text.lstrip().startswith('{"@level"')  # of TF_LOG=json
    if (log or text.lstrip()[:1] != "{") and (own := re.findall(r'^\{"format_version".*', text, re.MULTILINE)):
        if len(own) > 1:
            raise ValueError(f"{len(own)} plans in one file: one plan for each file")
        text = own[0]  # without the lines that a wrapper of a CI job or `2>&1` put around it
    try:
        plan: Json = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        if '"@level"' in text[:2000]:
            raise ValueError("the log of `plan -json`: save the plan with -out, then `show -json` it") from error
        if error.msg == "Extra data":
            raise ValueError(f"more follows the plan in line {error.lineno}: one plan for each file") from error
        raise ValueError(
            f"no JSON at line {error.lineno}, column {error.colno}: cut off, or the readable plan?"
        ) from error
    check_plan(plan)
    return plan


def unique(pairs: list[tuple[str, Any]]) -> Json:
    """Return an object, none of whose names hides another one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        name = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise ValueError(f"the name {name[:60]!r} stands twice in one object: no plan that Terraform wrote")
    return found


def check_plan(plan: Any) -> None:
    version = plan.get("format_version") if isinstance(plan, dict) else None
    if not isinstance(version, str):
        raise ValueError("no plan: it has no format_version")
    if version.partition(".")[0] not in ("0", "1"):
        raise ValueError(f"format {version} is not known here: read it by hand")
    if "resource_changes" not in plan and "planned_values" not in plan:
        raise ValueError("a state, not a plan: name a plan file to `show -json`")
    if plan.get("resource_changes") is None and '"resources"' in json.dumps(plan.get("planned_values")):
        raise ValueError("resource_changes was cut out of it: print the whole plan again")
    for name in ("resource_changes", "resource_drift", "deferred_changes", "checks", "action_invocations"):
        if not isinstance(plan.get(name) or [], list):
            raise ValueError(f"no plan: {name} is no list")
    for place, one in enumerate(plan.get("resource_changes") or []):
        if not (isinstance(one, dict) and isinstance(one.get("address"), str) and isinstance(one.get("type"), str) and _actions(one)):
            raise ValueError(f"no plan: resource_changes[{place}] has no address, no type or no actions")


def _actions(one: Json) -> list[str]:
    change = one.get("change")
    actions = change.get("actions") if isinstance(change, dict) else None
    return actions if isinstance(actions, list) and all(isinstance(each, str) for each in actions) else []


def action_of(one: Json) -> str:
    actions = _actions(one)
    if len(actions) == 1:
        return {"delete": "destroy"}.get(actions[0], actions[0])
    return "replace" if "delete" in actions else "+".join(actions)


def part(value: Any, step: Any) -> Any:
    """Return what is at one step of a path: a member, or an item of a list."""
    if isinstance(value, dict):
        return value.get(str(step))
    if isinstance(value, list) and isinstance(step, int) and -1 < step < len(value):
        return value[step]
    return value if value is True else None  # a mask that covers all below


def at(value: Any, path: list[Any]) -> Any:
    for step in path:
        value = part(value, step)
    return value


def dotted(path: list[Any]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def any_true(mask: Any) -> bool:
    if isinstance(mask, dict):
        return any(map(any_true, mask.values()))
    return any(map(any_true, mask)) if isinstance(mask, list) else mask is True


def differences(before: Any, after: Any, unknown: Any, path: list[Any]) -> Iterator[tuple[list[Any], bool]]:
    """Yield the path of each attribute that changes, and whether its new value is known."""
    if unknown is True:
        yield path, False
    elif isinstance(before, dict) and (isinstance(after, dict) or isinstance(unknown, dict)):
        after = after if isinstance(after, dict) else {}
        for name in sorted(before.keys() | after.keys() | (unknown if isinstance(unknown, dict) else {}).keys()):
            yield from differences(before.get(name), after.get(name), part(unknown, name), [*path, name])
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from differences(old, new, part(unknown, place), [*path, place])
    elif before != after or type(before) is not type(after):
        yield path, not any_true(unknown)


def shown(change: Json, side: str, path: list[Any]) -> str:
    """Return the value at *path* for people, hidden if it is sensitive or looks so."""
    unknown = at(change.get("after_unknown"), path) if side == "after" else None
    if any_true(unknown):
        return "(known after apply)" if unknown is True else "(known in part)"
    if any_true(at(change.get(f"{side}_sensitive"), path)):
        return "(sensitive)"
    text = json.dumps(at(change.get(side), path), ensure_ascii=False)
    if SECRET.search(dotted(path) + text) and text not in ("null", "true", "false"):
        return "(hidden)"
    return text if len(text) <= 60 else f"({len(text)} characters)"


def forced_by(change: Json) -> list[str]:
    paths = [path for path in change.get("replace_paths") or [] if isinstance(path, list)]
    return [f"{dotted(path)} {shown(change, 'before', path)} -> {shown(change, 'after', path)}" for path in paths]


def holds_data(type_: str, protect: list[str]) -> bool:
    if any(fnmatchcase(type_, pattern) for pattern in protect):
        return True
    return bool(DATA.search(type_)) and not HARMLESS.search(type_)


def rows(plan: Json, protect: list[str]) -> list[Json]:
    """Return one row for each resource change, the most dangerous first."""
    found = []
    for one in plan.get("resource_changes") or []:
        change, address = one["change"], one["address"]
        if isinstance(one.get("deposed"), str):
            address += f" (deposed {one['deposed']})"
        action = action_of(one)
        changed = list(differences(change.get("before"), change.get("after"), change.get("after_unknown"), []))
        update = action in ("update", "replace") or "+" in action
        found.append({
            "address": address, "type": str(one.get("type", "")), "action": action,
            "data": one.get("mode") != "data" and holds_data(str(one.get("type", "")), protect),
            "order": "new one first" if _actions(one)[0] == "create" else "old one first",
            "why": WHY.get(one.get("action_reason", ""), str(one.get("action_reason") or "")),
            "forced_by": forced_by(change),
            "moved_from": one.get("previous_address"),
            "imported": isinstance(change.get("importing"), dict),
            "changed": sorted({dotted(path) for path, _ in changed if path}) if update else [],
            "unknown": sorted({dotted(path) for path, known in changed if path and not known}) if update else [],
            "unguarded": guards_lost(change) if action == "update" else [],
        })  # fmt: skip
    weight = {"destroy": 0, "replace": 1, "create+forget": 2, "forget+create": 2, "forget": 3, "update": 4}
    return sorted(found, key=lambda row: (not row["data"], weight.get(row["action"], 9), row["address"]))


def guards_lost(change: Json) -> list[str]:
    """Return the path of each attribute, at any depth, that protected data and no longer does."""
    before, after, unknown = change.get("before"), change.get("after"), change.get("after_unknown")
    return [
        dotted(path) + " (perhaps: known after apply)" * (not known)
        for path, known in differences(before, after, unknown, [])
        if path
        and (
            at(before, path) is GUARDS.get(path[-1], ...)
            or (guards(path[-1], at(before, path)) and not guards(path[-1], at(after, path)))
            or fewer_backups(path, at(before, path), at(after, path))
            # an import leaves such an attribute unset
            or (at(before, path) is None and at(after, path) is True and GUARDS.get(path[-1]) is False)
        )
    ]


def guards(name: Any, value: Any) -> bool:
    """Return whether an attribute protects by its name, as `delete_protection = true` or `"ACTIVE"` do."""
    if isinstance(value, str) and KEPT.search(str(name)):
        return value.upper() in KEEPING
    return bool(GUARD.search(str(name))) and value in ON


def fewer_backups(path: list[Any], before: Any, after: Any) -> bool:
    """Return whether backups go: a shorter retention, or a block that kept them and is off or gone."""
    if path[-1] == "retention_in_days" and (before == 0 or not after):
        return before == 0 and bool(after)  # 0 and unset keep logs for ever
    if BACKUPS.search(str(path[-1])) and type(before) is int:
        return type(after) is not int or after < before
    if path[-1] == "status" and "versioning_configuration" in path:
        return bool(before == "Enabled")
    if path[-1] in KEEPERS and isinstance(before, list) and not after:
        return any(isinstance(block, dict) and block.get("enabled") is True for block in before)
    return path[-1] == "enabled" and before is True and bool(KEEPERS & set(map(str, path)))


def renames(plan: Json) -> list[Json]:
    """Return destroyed and created resources of one type that are alike: likely a move without a `moved` block."""
    changes = plan.get("resource_changes") or []
    gone = [(one, leaves(one["change"].get("before"))) for one in changes if action_of(one) == "destroy"]
    come = [(one, leaves(one["change"].get("after"))) for one in changes if action_of(one) == "create"]
    found: list[tuple[float, str, str]] = []
    for old, had in gone:
        for new, given in come:
            if old.get("type") == new.get("type") and len(given) > 1 and len(had & given) >= 0.7 * len(given):
                found.append((len(had & given) / len(given), old["address"], new["address"]))
    taken: set[str] = set()
    pairs = []
    for score, old_name, new_name in sorted(found, key=lambda one: (-one[0], one[1], one[2])):
        if not taken & {old_name, new_name}:
            taken |= {old_name, new_name}
            pairs.append({"from": old_name, "to": new_name, "alike": round(score, 2)})
    return pairs


def leaves(value: Any) -> set[tuple[str, str]]:
    """Return path and value of everything that is set in an object."""
    found: set[tuple[str, str]] = set()
    todo: list[tuple[str, Any]] = [("", value)]
    while todo:
        path, one = todo.pop()
        if isinstance(one, dict):
            todo += [(f"{path}.{name}", each) for name, each in one.items()]
        elif isinstance(one, list):
            todo += [(f"{path}[]", each) for each in one]
        elif one not in (None, "", False):
            found.add((path, str(one)))
    return found


def drift(plan: Json) -> list[Json]:
    found = []
    for one in plan.get("resource_drift") or []:
        change = one.get("change") or {}
        changed = differences(change.get("before"), change.get("after"), None, [])
        found.append({"address": str(one.get("address")), "gone": action_of(one) == "destroy",
                      "moved_from": one.get("previous_address"),
                      "changed": sorted({dotted(path) for path, _ in changed if path})})  # fmt: skip
    return found


def drifted(one: Json) -> str:
    what = "deleted outside" if one["gone"] else "moved" if one["moved_from"] else "nothing that is shown"
    return f"{one['address']}: {names(one['changed']) or what}"


def review(plan: Json, protect: list[str]) -> Json:
    changes = rows(plan, protect)
    counts = Counter(row["action"] for row in changes)
    counts["move"] = sum(bool(row["moved_from"]) for row in changes)
    counts["import"] = sum(row["imported"] for row in changes)
    failed = [c for c in plan.get("checks") or [] if isinstance(c, dict) and c.get("status") in ("fail", "error")]
    report: Json = {
        "terraform_version": str(plan.get("terraform_version", "?")),
        "format_version": plan["format_version"],
        "complete": plan.get("complete"), "errored": plan.get("errored"), "applyable": plan.get("applyable"),
        "counts": {name: number for name, number in sorted(counts.items()) if number},
        "changes": [row for row in changes if row["action"] != "no-op" or row["moved_from"] or row["imported"]],
        "renames": renames(plan),
        "drift": drift(plan),
        "deferred": [str(one["resource_change"]["address"]) for one in plan.get("deferred_changes") or []],
        "actions": [str(one.get("address")) for one in plan.get("action_invocations") or []],
        "failed_checks": [str((one.get("address") or {}).get("to_display")) for one in failed],
        "sensitive_values": sum(has_secrets(one) for one in plan.get("resource_changes") or []),
    }  # fmt: skip
    return report | {"dangers": list(dangers(report))}


def has_secrets(one: Json) -> bool:
    return any_true(one["change"].get("before_sensitive")) or any_true(one["change"].get("after_sensitive"))


def dangers(report: Json) -> Iterator[str]:
    if report["errored"]:
        yield "the plan failed and is only a part: what is missing here may still be destroyed"
    if report["complete"] is False:
        yield f"the plan is incomplete: {len(report['deferred'])} changes deferred, plan again after the apply"
    for row in report["changes"]:
        name = ("holds data: " if row["data"] else "") + row["address"]
        why = "; ".join(filter(None, [row["why"], *(f"forced by {one}" for one in row["forced_by"])]))
        if "forget" in row["action"]:
            yield f"{name} is forgotten, not destroyed: it stays and costs, and nothing manages it"
        elif row["action"] == "destroy":
            yield f"{name} is destroyed: {why or 'no reason given'}"
        elif row["action"] == "replace":
            yield f"{name} is replaced, {row['order']}: {why or 'no reason given'}"
        elif set(row["action"].split("+")) - ACTIONS:
            yield f"{name}: the action {row['action']} is not known here, read it by hand"
        yield from (f"{name} loses its protection: {guard}" for guard in row["unguarded"])
    yield from (f"check failed: {name}" for name in report["failed_checks"])


def show(report: Json, top: int) -> None:
    states = [f"{name} {str(report[name]).lower()}" for name in ("complete", "errored") if report[name] is not None]
    changes = report["changes"]
    versions = [f"version {report['terraform_version']}", f"format {report['format_version']}"]
    print("plan     " + ", ".join(versions + states))
    print("counts   " + (", ".join(f"{name} {n}" for name, n in report["counts"].items()) or "no resources"))
    tell("danger", report["dangers"], top)
    tell("rename?", [f"{p['from']} -> {p['to']}, {p['alike']:.0%} alike: moved block?" for p in report["renames"]], top)
    tell("moved", [f"{r['moved_from']} -> {r['address']} ({r['action']})" for r in changes if r["moved_from"]], top)
    tell("import", [f"{r['address']} ({r['action']})" for r in changes if r["imported"]], top)
    tell("action", [f"{name} is invoked by the apply" for name in report["actions"]], top)
    tell("drift", [drifted(one) for one in report["drift"]], top)
    tell("deferred", report["deferred"], top)
    tell("update", [f"{r['address']}: {names(r['changed'])}" for r in changes if r["action"] == "update"], top)
    tell("unknown", [f"{r['address']}: {names(r['unknown'])}" for r in changes if r["unknown"]], top)
    if count := report["sensitive_values"]:
        print(f"warning  the file holds sensitive values of {count} resources in plain text: do not pass it on")


def tell(kind: str, texts: list[str], top: int) -> None:
    for text in texts[:top]:
        print(f"{kind:<8} {''.join(char if char.isprintable() else '?' for char in text)}")
    if len(texts) > top:
        print(f"...      {len(texts) - top} more: --top {len(texts)} or --json")


def names(paths: list[str]) -> str:
    return ", ".join(paths[:6]) + (f" and {len(paths) - 6} more" if len(paths) > 6 else "")


def main() -> int:
    parser = argparse.ArgumentParser(description="Say what a Terraform or OpenTofu plan destroys and replaces.")
    parser.add_argument("file", help="output of `terraform show -json PLAN`; - for standard input")
    parser.add_argument(
        "--protect", action="append", default=[], metavar="TYPE", help="a type that holds data, * allowed"
    )
    parser.add_argument("--top", type=int, default=20, help="lines of each kind (default 20)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    try:
        report = review(read_plan(args.file), args.protect)
    except (OSError, ValueError) as error:
        print(f"cannot read {args.file}: {error}", file=sys.stderr)
        return 2
    except (RecursionError, AttributeError, KeyError, TypeError) as error:
        print(f"cannot read {args.file}: not the shape of a plan ({error})", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps(report, indent=1))
    else:
        show(report, args.top)
    return 1 if report["dangers"] else 0


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly under `| head`
    sys.exit(main())
