"""The script of the skill terraform-plan-review names what a plan destroys, why, and what it does not show."""

import codecs
import json
from pathlib import Path
from typing import Any

import pytest
from agent_skills import assert_refused, run_json, run_script

SCRIPT = ("terraform-plan-review", "review_plan.py")


def change(address: str, *actions: str, reason: str = "", **facts: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a change of a resource; facts are members of the change itself, or `previous_address`."""
    one: dict[str, Any] = {
        "address": address,
        "mode": "managed",
        "type": address.split(".")[-2],
        "change": {"actions": list(actions)},
    }
    for name in ("previous_address", "deposed"):
        if name in facts:
            one[name] = facts.pop(name)
    one["change"] |= {"before": None, "after": None} | facts
    return one | ({"action_reason": reason} if reason else {})


def plan(path: Path, *changes: dict[str, Any], **facts: Any) -> Path:  # noqa: ANN401
    whole = {"format_version": "1.2", "terraform_version": "1.17.2", "planned_values": {}, "errored": False}
    path.write_text(json.dumps(whole | {"resource_changes": list(changes)} | facts))
    return path


def test_a_replacement_is_named_with_the_attribute_that_forces_it(tmp_path: Path) -> None:
    done = run_script(
        *SCRIPT,
        plan(
            tmp_path / "p.json",
            change(
                "module.db.aws_db_instance.main",
                "delete",
                "create",
                reason="replace_because_cannot_update",
                before={"engine": "mysql", "name": "a"},
                after={"engine": "postgres", "name": "a"},
                replace_paths=[["engine"]],
            ),
        ),
    )
    assert done.returncode == 1
    assert (
        "danger   holds data: module.db.aws_db_instance.main is replaced, old one first: the provider cannot change it"
        ' in place; forced by engine "mysql" -> "postgres"\n'
    ) in done.stdout


@pytest.mark.parametrize(
    ("after", "unknown", "shown"),
    [(["a", None], [False, True], "(known in part)"), (None, True, "(known after apply)"), (["b"], [], '["b"]')],
)
def test_a_value_that_is_not_known_before_the_apply_is_not_shown_as_null(
    after: object, unknown: object, shown: str, tmp_path: Path
) -> None:
    values: dict[str, Any] = {"before": {"ids": ["a"]}, "after": {"ids": after}, "after_unknown": {"ids": unknown}}
    one = change("aws_instance.x", "delete", "create", replace_paths=[["ids"]], **values)
    assert f'forced by ids ["a"] -> {shown}\n' in run_script(*SCRIPT, plan(tmp_path / "p.json", one)).stdout


def test_what_holds_data_comes_first_and_more_types_can_be_named(tmp_path: Path) -> None:
    changes = [change(f"{kind}.x", "delete") for kind in ("aws_instance", "acme_ledger", "aws_s3_bucket")]
    report = run_json(*SCRIPT, plan(tmp_path / "p.json", *changes), "--protect", "acme_*")
    assert [(row["address"], row["data"]) for row in report["changes"]] == [
        ("acme_ledger.x", True),
        ("aws_s3_bucket.x", True),
        ("aws_instance.x", False),
    ]


def test_rules_and_policies_of_a_store_are_not_taken_for_the_store(tmp_path: Path) -> None:
    kinds = ("aws_s3_bucket_policy", "aws_db_subnet_group", "aws_s3_bucket_public_access_block", "aws_kms_alias")
    report = run_json(*SCRIPT, plan(tmp_path / "p.json", *[change(f"{kind}.x", "delete") for kind in kinds]))
    assert [row["data"] for row in report["changes"]] == [False] * 4


@pytest.mark.parametrize("actions", [("create", "forget"), ("forget", "create"), ("forget",)])
def test_what_is_forgotten_is_a_danger_although_nothing_is_deleted(tmp_path: Path, actions: tuple[str, ...]) -> None:
    done = run_script(*SCRIPT, plan(tmp_path / "p.json", change("aws_instance.x", *actions)))
    assert done.returncode == 1
    assert "aws_instance.x is forgotten, not destroyed" in done.stdout


def test_a_plan_without_danger_leaves_with_0_and_says_what_moves_and_is_imported(tmp_path: Path) -> None:
    done = run_script(
        *SCRIPT,
        plan(
            tmp_path / "p.json",
            change("aws_instance.b", "no-op", previous_address="aws_instance.a"),
            change(
                "aws_instance.i", "update", before={"t": 1, "s": [1]}, after={"t": 2, "s": [3]}, importing={"id": "i"}
            ),
            complete=True,
        ),
    )
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "plan     version 1.17.2, format 1.2, complete true, errored false",
        "counts   import 1, move 1, no-op 1, update 1",
        "moved    aws_instance.a -> aws_instance.b (no-op)",
        "import   aws_instance.i (update)",
        "update   aws_instance.i: s[0], t",
    ]


def test_a_destroyed_and_a_created_twin_are_proposed_as_a_move(tmp_path: Path) -> None:
    same = {"ami": "a", "size": "s", "tags": {"team": "x"}}
    report = run_json(
        *SCRIPT,
        plan(
            tmp_path / "p.json",
            change(
                "aws_instance.old", "delete", reason="delete_because_no_resource_config", before=same | {"id": "i-1"}
            ),
            change("aws_instance.new", "create", after=same),
            change("aws_instance.other", "create", after={"ami": "b", "size": "l", "tags": {"team": "y"}}),
            change("aws_eip.new", "create", after=same),
        ),
    )
    assert report["renames"] == [{"from": "aws_instance.old", "to": "aws_instance.new", "alike": 1.0}]


def test_protection_that_is_switched_off_is_a_danger(tmp_path: Path) -> None:
    before = {"deletion_protection": True, "skip_final_snapshot": False, "size": 1}
    after = {"deletion_protection": False, "skip_final_snapshot": True, "size": 1}
    report = run_json(
        *SCRIPT, plan(tmp_path / "p.json", change("aws_db_instance.x", "update", before=before, after=after))
    )
    assert report["dangers"] == [
        "holds data: aws_db_instance.x loses its protection: deletion_protection",
        "holds data: aws_db_instance.x loses its protection: skip_final_snapshot",
    ]


def test_a_protection_that_an_import_left_unset_and_the_plan_switches_off_is_a_danger(tmp_path: Path) -> None:
    adopted = change("aws_s3_bucket.x", "update", before={"force_destroy": None}, after={"force_destroy": True})
    harmless = change("aws_s3_bucket.y", "update", before={"force_destroy": None}, after={"force_destroy": False})
    report = run_json(*SCRIPT, plan(tmp_path / "p.json", adopted, harmless))
    assert report["dangers"] == ["holds data: aws_s3_bucket.x loses its protection: force_destroy"]


def test_an_object_that_was_only_moved_is_not_told_as_deleted_outside(tmp_path: Path) -> None:
    same = {"id": "1"}
    moved = change("terraform_data.new", "no-op", previous_address="terraform_data.old", before=same, after=same)
    done = run_script(*SCRIPT, plan(tmp_path / "p.json", resource_drift=[moved]))
    assert "drift    terraform_data.new: moved" in done.stdout.splitlines()


def test_values_that_are_sensitive_or_look_secret_or_are_not_known_are_not_printed(tmp_path: Path) -> None:
    done = run_script(
        *SCRIPT,
        plan(
            tmp_path / "p.json",
            change(
                "aws_instance.x",
                "delete",
                "create",
                before={"a": "geheim1", "user_data": "geheim2", "b": {"password": "geheim3"}, "c": "old"},
                after={"a": "geheim4", "user_data": "geheim5", "b": {"password": "geheim6"}},
                after_unknown={"c": True},
                before_sensitive={"a": True},
                after_sensitive={"a": True},
                replace_paths=[["a"], ["user_data"], ["b"], ["c"]],
            ),
        ),
    )
    assert "geheim" not in done.stdout
    assert 'forced by c "old" -> (known after apply)' in done.stdout
    assert "warning  the file holds sensitive values of 1 resources in plain text" in done.stdout


def test_attributes_known_only_after_the_apply_are_listed_for_updates(tmp_path: Path) -> None:
    update = change("aws_iam_policy.x", "update", before={"policy": "{}"}, after={}, after_unknown={"policy": True})
    assert "unknown  aws_iam_policy.x: policy" in run_script(*SCRIPT, plan(tmp_path / "p.json", update)).stdout


def test_a_partial_plan_failed_checks_drift_and_actions_are_said(tmp_path: Path) -> None:
    path = plan(
        tmp_path / "p.json",
        errored=True,
        complete=False,
        deferred_changes=[{"reason": "instance_count_unknown", "resource_change": {"address": "aws_instance.later"}}],
        checks=[{"address": {"to_display": "check.health"}, "status": "fail"}],
        resource_drift=[change("aws_instance.x", "delete", before={"id": "i"})],
        action_invocations=[{"address": "action.aws_lambda_invoke.migrate"}],
    )
    done = run_script(*SCRIPT, path)
    assert done.returncode == 1
    assert done.stdout.splitlines()[2:] == [
        "danger   the plan failed and is only a part: what is missing here may still be destroyed",
        "danger   the plan is incomplete: 1 changes deferred, plan again after the apply",
        "danger   check failed: check.health",
        "action   action.aws_lambda_invoke.migrate is invoked by the apply",
        "drift    aws_instance.x: deleted outside",
        "deferred aws_instance.later",
    ]


def test_a_plan_written_by_powershell_in_utf_16_is_read(tmp_path: Path) -> None:
    text = plan(tmp_path / "p.json", change("aws_vpc.ä", "delete")).read_text()
    for name, data in (("a", codecs.BOM_UTF16_LE + text.encode("utf-16-le")), ("b", codecs.BOM_UTF8 + text.encode())):
        (tmp_path / name).write_bytes(data)
        assert "aws_vpc.ä is destroyed" in run_script(*SCRIPT, tmp_path / name).stdout


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "empty"),
        ("PK\x03\x04", "terraform show -json"),
        ('{"format_version": "1.0", "values": {}}', "a state, not a plan"),
        ('{"format_version": "2.0"}', "format 2.0"),
        ('{"@level":"info"}\n{"@level":"info"}', "-out"),
        ('{"format_version": "1.2", "resource_changes": [{"addr', "line 1"),
        ("Terraform will perform the following actions:", "line 1"),
        ('{"format_version": "1.2", "resource_changes": [{"address": "a.b"}]}', "resource_changes[0]"),
        ('{"format_version": "1.2", "resource_changes": [], "resource_drift": [5]}', "not the shape"),
        ("[" * 100_000, "cannot read"),
    ],
)
def test_what_is_no_plan_is_refused_in_one_sentence(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "p.json").write_text(content)
    assert_refused(run_script(*SCRIPT, tmp_path / "p.json"), "p.json", words)


def test_escape_codes_in_addresses_do_not_reach_the_terminal(tmp_path: Path) -> None:
    path = plan(tmp_path / "p.json", change('aws_vpc.x["\x1b[2Jall fine"]', "delete"))
    assert "\x1b" not in run_script(*SCRIPT, path).stdout


def test_a_protection_lost_deep_inside_a_block_is_a_danger(tmp_path: Path) -> None:
    def settings(on: bool) -> dict[str, Any]:
        return {"settings": [{"deletion_protection_enabled": on}], "disable_api_termination": on}

    report = run_json(
        *SCRIPT, plan(tmp_path / "p.json", change("a_x.y", "update", before=settings(True), after=settings(False)))
    )
    assert report["dangers"] == [
        "a_x.y loses its protection: disable_api_termination",
        "a_x.y loses its protection: settings[0].deletion_protection_enabled",
    ]


def test_a_key_inside_an_unsuspicious_attribute_is_hidden(tmp_path: Path) -> None:
    values = {"label": "AKIAABCDEFGHIJKLMNOP", "url": "https://joe:pw@host"}
    paths = [["label"], ["url"]]
    one = change("a_x.y", "delete", "create", before=values, after={"label": "b", "url": "c"}, replace_paths=paths)
    assert run_json(*SCRIPT, plan(tmp_path / "p.json", one))["dangers"] == [
        'a_x.y is replaced, old one first: forced by label (hidden) -> "b"; forced by url (hidden) -> "c"'
    ]


def test_an_unknown_action_is_a_danger(tmp_path: Path) -> None:
    report = run_json(*SCRIPT, plan(tmp_path / "p.json", change("a_x.y", "evict")))
    assert report["dangers"] == ["a_x.y: the action evict is not known here, read it by hand"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"format_version": "1.2", "resource_changes": [{}], "resource_changes": []}', "stands twice"),
        ('{"format_version": "1.2", "resource_changes": []}\n{}', "more follows the plan in line 2"),
        ("[command]/x/terraform\n" + '{"format_version": "1.2", "resource_changes": []}\n' * 2, "2 plans"),
        ('{"format_version": "1.2", "planned_values": {"root_module": {"resources": [{}]}}}', "was cut out"),
        (
            '{"format_version": "1.2", "resource_changes": [{"address": "a", "change": {"actions": ["delete"]}}]}',
            "no type",
        ),
    ],
)
def test_a_plan_from_which_something_is_hidden_is_refused(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "p.json").write_text(content)
    assert_refused(run_script(*SCRIPT, tmp_path / "p.json"), words)


def test_a_protection_that_is_not_known_yet_is_a_danger(tmp_path: Path) -> None:
    on = {"deletion_protection": True}
    one = change("a_x.y", "update", before=on, after={}, after_unknown=on)
    report = run_json(*SCRIPT, plan(tmp_path / "p.json", one))
    assert report["dangers"] == ["a_x.y loses its protection: deletion_protection (perhaps: known after apply)"]


@pytest.mark.parametrize(
    "before",
    [
        "[command]/x/terraform-bin show -json p\n",
        "\nWarning: no file\n\n",
        '{"@level":"info","@message":"Terraform version: 1.11.4"}\n',  # TF_LOG=json
    ],
)
def test_lines_that_a_wrapper_puts_around_the_json_are_skipped(tmp_path: Path, before: str) -> None:
    path = plan(tmp_path / "p.json", change("a_x.y", "delete"))
    path.write_text(before + path.read_text() + "\n::debug::Terraform exited with code 0.\n")
    assert run_json(*SCRIPT, path)["dangers"] == ["a_x.y is destroyed: no reason given"]


@pytest.mark.parametrize(
    "kind",
    [
        *("azurerm_mssql_server", "google_alloydb_cluster", "aws_dsql_cluster", "aws_cloudwatch_log_group"),
        *("mongodbatlas_advanced_cluster", "scaleway_rdb_instance", "aiven_pg", "neon_project", "supabase_project"),
        *("keycloak_realm", "auth0_connection", "databricks_schema", "kubernetes_namespace"),
    ],
)
def test_stores_without_a_common_word_in_their_type_hold_data(tmp_path: Path, kind: str) -> None:
    assert run_json(*SCRIPT, plan(tmp_path / "p.json", change(f"{kind}.x", "delete")))["changes"][0]["data"]


def test_protections_are_known_by_their_name(tmp_path: Path) -> None:
    before = {"deletion_protection": "ACTIVE", "delete_protection": True, "enable_drop_protection": True, "name": "a"}
    after = {"deletion_protection": "INACTIVE", "delete_protection": False, "enable_drop_protection": None, "name": "b"}
    report = run_json(*SCRIPT, plan(tmp_path / "p.json", change("a_x.y", "update", before=before, after=after)))
    assert report["changes"][0]["unguarded"] == ["delete_protection", "deletion_protection", "enable_drop_protection"]


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        ({"backup_retention_period": 7}, {"backup_retention_period": 0}, ["backup_retention_period"]),
        ({"snapshot_retention_limit": 7}, {"snapshot_retention_limit": None}, ["snapshot_retention_limit"]),
        ({"backup_retention_period": 7}, {"backup_retention_period": 14}, []),
        ({"backup_retention_period": 0}, {"backup_retention_period": 0, "size": 1}, []),
        (
            {"point_in_time_recovery": [{"enabled": True}]},
            {"point_in_time_recovery": [{"enabled": False}]},
            ["point_in_time_recovery[0].enabled"],
        ),
        ({"backup": [{"enabled": True}]}, {"backup": []}, ["backup"]),
        ({"backup": [{"enabled": False}]}, {"backup": []}, []),
        ({"delete_automated_backups": False}, {"delete_automated_backups": True}, ["delete_automated_backups"]),
        ({"delete_contents_on_destroy": False}, {"delete_contents_on_destroy": True}, ["delete_contents_on_destroy"]),
        ({"retention_in_days": 365}, {"retention_in_days": 1}, ["retention_in_days"]),
        ({"retention_in_days": 0}, {"retention_in_days": 30}, ["retention_in_days"]),
        ({"retention_in_days": 365}, {"retention_in_days": 0}, []),
        ({"retention_in_days": 365}, {"retention_in_days": None}, []),
        (
            {"soft_delete_policy": [{"retention_duration_seconds": 604800}]},
            {"soft_delete_policy": [{"retention_duration_seconds": 0}]},
            ["soft_delete_policy[0].retention_duration_seconds"],
        ),
        (
            {"versioning_configuration": [{"status": "Enabled"}]},
            {"versioning_configuration": [{"status": "Suspended"}]},
            ["versioning_configuration[0].status"],
        ),
        (
            {"versioning_configuration": [{"status": "Suspended"}]},
            {"versioning_configuration": [{"status": "Enabled"}]},
            [],
        ),
        ({"versioning": [{"enabled": True}]}, {"versioning": []}, ["versioning"]),
        (
            {"settings": [{"backup_configuration": [{"enabled": True}], "insights": [{"enabled": True}]}]},
            {"settings": [{"backup_configuration": [{"enabled": False}], "insights": [{"enabled": False}]}]},
            ["settings[0].backup_configuration[0].enabled"],
        ),
    ],
)
def test_backups_that_an_update_gives_up_are_a_danger(
    tmp_path: Path, before: dict[str, Any], after: dict[str, Any], lost: list[str]
) -> None:
    report = run_json(*SCRIPT, plan(tmp_path / "p.json", change("a_x.y", "update", before=before, after=after)))
    assert report["dangers"] == [f"a_x.y loses its protection: {name}" for name in lost]


def test_a_policy_that_kept_the_object_and_no_longer_does_is_a_danger(tmp_path: Path) -> None:
    before = {"deletion_policy": "PREVENT", "reclaim_policy": "Retain", "iam_policy": "PREVENT"}
    after = {"deletion_policy": "DELETE", "reclaim_policy": "Delete", "iam_policy": "x"}
    away = change("google_project.x", "update", before=before, after=after)
    safer = change("google_project.y", "update", before=after, after=before)
    other = change("google_project.z", "update", before={"deletion_policy": "ABANDON"}, after=before)
    report = run_json(*SCRIPT, plan(tmp_path / "p.json", away, safer, other))
    assert [one["unguarded"] for one in report["changes"]] == [["deletion_policy", "reclaim_policy"], [], []]
