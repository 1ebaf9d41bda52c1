"""The script of the skill openapi-breaking-changes tells what breaks clients from what does not."""

import json
from pathlib import Path
from typing import Any

import pytest
from agent_skills import assert_refused, run_json, run_script

SCRIPT = ("openapi-breaking-changes", "compare_openapi.py")
ORDER: dict[str, Any] = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "integer"}, "state": {"type": "string", "enum": ["open", "paid"]}},
}


def describe(order: dict[str, Any] = ORDER, **operation: object) -> dict[str, Any]:
    """Return a description in which one operation takes and returns an order."""
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}
    post = {"requestBody": {"content": content}, "responses": {"200": {"content": content}}, **operation}
    return {
        "openapi": "3.1.0",
        "paths": {"/orders/{id}": {"post": post}},
        "components": {"schemas": {"Order": order}},
    }


def changes(tmp_path: Path, old: dict[str, Any], new: dict[str, Any], *arguments: str) -> list[tuple[str, str, str]]:
    paths = [tmp_path / "old.json", tmp_path / "new.json"]
    for path, document in zip(paths, (old, new), strict=True):
        path.write_text(json.dumps(document))
    report = run_json(*SCRIPT, *paths, *arguments)
    return [(change["level"], change["place"], change["what"]) for change in report["changes"]]


def with_property(name: str, schema: dict[str, Any], *required: str) -> dict[str, Any]:
    return {**ORDER, "properties": {**ORDER["properties"], name: schema}, "required": ["id", *required]}


def test_the_same_description_has_no_changes(tmp_path: Path) -> None:
    assert changes(tmp_path, describe(), describe(), "--all") == []


def test_a_removed_property_breaks_readers_and_is_a_risk_for_writers(tmp_path: Path) -> None:
    new = {**ORDER, "properties": {"id": {"type": "integer"}}}
    assert changes(tmp_path, describe(), describe(new)) == [
        ("break", "response schema Order.state", "property removed"),
        ("risk", "request schema Order.state", "property removed: what clients send is ignored"),
    ]


def test_a_new_property_breaks_only_if_it_must_be_sent(tmp_path: Path) -> None:
    assert changes(tmp_path, describe(), describe(with_property("note", {"type": "string"}))) == []
    assert changes(tmp_path, describe(), describe(with_property("note", {"type": "string"}, "note"))) == [
        ("break", "request schema Order.note", "required and new")
    ]
    filled = with_property("note", {"type": "string", "default": "-"}, "note")
    assert changes(tmp_path, describe(), describe(filled)) == [
        ("risk", "request schema Order.note", "required and new: a server that does not fill in the default refuses")
    ]


def test_values_of_an_enum_are_judged_by_direction(tmp_path: Path) -> None:
    wider = with_property("state", {"type": "string", "enum": ["open", "paid", "lost"]})
    assert changes(tmp_path, describe(), describe(wider)) == [
        ("risk", "response schema Order.state", "new values may arrive: lost")
    ]
    assert changes(tmp_path, describe(wider), describe()) == [
        ("break", "request schema Order.state", "values no longer accepted: lost")
    ]


def test_integer_to_number_is_fine_to_send_but_not_to_receive(tmp_path: Path) -> None:
    assert changes(tmp_path, describe(), describe(with_property("id", {"type": "number"}))) == [
        ("break", "response schema Order.id", "type integer -> number")
    ]


@pytest.mark.parametrize(
    ("operation", "place", "what"),
    [
        ({"parameters": [{"name": "q", "in": "query", "required": True}]}, " query parameter q", "required and new"),
        ({"responses": {}}, " 200", "status removed"),
        ({"security": [{"oauth": ["write"]}]}, "", "security no longer accepts none, only oauth+oauth:write"),
        ({"requestBody": {"content": {"text/csv": {}}}}, " request", "application/json is no longer accepted"),
    ],
)
def test_an_operation_that_demands_more_or_gives_less_breaks(
    tmp_path: Path, operation: dict[str, Any], place: str, what: str
) -> None:
    assert changes(tmp_path, describe(), describe(**operation)) == [("break", f"POST /orders/{{id}}{place}", what)]


def test_the_name_of_a_path_parameter_does_not_matter_but_the_operation_does(tmp_path: Path) -> None:
    new = describe()
    new["paths"] = {"/orders/{order}": new["paths"]["/orders/{id}"]}
    assert changes(tmp_path, describe(), new) == []
    assert changes(tmp_path, describe(), {**new, "paths": {}}) == [("break", "POST /orders/{id}", "operation removed")]


def test_schemas_that_contain_themselves_and_swagger_are_compared(tmp_path: Path) -> None:
    def swagger(leaf: str) -> dict[str, Any]:
        node = {"properties": {"leaf": {"type": leaf}, "next": {"$ref": "#/definitions/Node"}}}
        response = {"200": {"description": "", "schema": {"allOf": [{"$ref": "#/definitions/Node"}]}}}
        limit = {"name": "limit", "in": "query", "type": "integer", "required": True}
        return {
            "swagger": "2.0",
            "paths": {"/tree": {"get": {"parameters": [limit], "responses": response}}},
            "definitions": {"Node": node},
        }

    assert ("break", "response schema Node.leaf", "type string -> boolean") in changes(
        tmp_path, swagger("string"), swagger("boolean")
    )


def test_the_exit_code_is_one_only_for_breaks(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(describe(operationId="a")))
    new.write_text(json.dumps(describe(operationId="b")))
    done = run_script(*SCRIPT, old, new)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "0 break, 1 risk")
    new.write_text(json.dumps({"openapi": "3.1.0", "paths": {}}))
    assert run_script(*SCRIPT, old, new).returncode == 1


def test_what_is_no_description_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for content, words in (
        ('{"a": 1}', "neither 'openapi'"),
        ("{", "a.json"),
        ('{"openapi": "3", "paths": 1}', "paths"),
    ):
        path.write_text(content)
        assert_refused(run_script(*SCRIPT, path, path), words)
    assert_refused(run_script(*SCRIPT, path, tmp_path / "none"), "'paths'")


def test_properties_of_one_direction_count_only_there(tmp_path: Path) -> None:
    made = with_property("made", {"type": "string", "readOnly": True}, "made")
    assert changes(tmp_path, describe(), describe(made)) == []
    secret = with_property("pin", {"type": "string", "writeOnly": True})
    assert [level for level, *_ in changes(tmp_path, describe(secret), describe())] == ["risk"]


def test_another_scope_a_lost_header_and_exclusive_limits_are_found(tmp_path: Path) -> None:
    before, after = describe(security=[{"oauth": ["read"]}]), describe(security=[{"oauth": ["read", "write"]}])
    ((level, _, what),) = changes(tmp_path, before, after)
    assert (level, what) == ("break", "security no longer accepts oauth+oauth:read, only oauth+oauth:read+oauth:write")
    assert changes(tmp_path, after, before) == []
    described = describe(responses={"200": {"headers": {"X-Total": {}}}})
    found = changes(tmp_path, described, describe(responses={"200": {}}))
    assert found == [("risk", "POST /orders/{id} 200", "header x-total removed")]
    old, new = (with_property("n", {"type": "integer", "exclusiveMaximum": limit}) for limit in (9, 5))
    assert ("break", "request schema Order.n", "exclusiveMaximum 9 -> 5") in changes(
        tmp_path, describe(old), describe(new)
    )


def test_a_long_chain_of_schemas_is_followed_to_its_end(tmp_path: Path) -> None:
    chain = {
        f"S{n}": {
            "properties": {
                "next": {"$ref": f"#/components/schemas/S{n + 1}"},
                "back": {"$ref": "#/components/schemas/S0"},
            }
        }
        for n in range(1500)
    }
    ends: list[dict[str, Any]] = [{"properties": {"x": {}, "y": {}}}, {"properties": {"x": {}}}]
    old, new = (describe({"$ref": "#/components/schemas/S0"}) for _ in ends)
    for document, end in zip((old, new), ends, strict=True):
        document["components"]["schemas"].update(chain | {"S1500": end})
    assert ("break", "response schema S1500.y", "property removed") in changes(tmp_path, old, new)


def test_a_reference_to_nothing_is_refused_and_not_compared_as_anything(tmp_path: Path) -> None:
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Gone"}}}}
    operation = {"post": {"requestBody": body, "responses": {"200": {"description": "ok"}}}}
    path = tmp_path / "a.json"
    path.write_text(
        json.dumps({"openapi": "3.1.0", "info": {"title": "a", "version": "1"}, "paths": {"/a": operation}})
    )
    assert_refused(run_script(*SCRIPT, path, path), "#/components/schemas/Gone points to nothing")


def test_a_request_that_names_less_than_before_is_a_risk(tmp_path: Path) -> None:
    closed = {**ORDER, "additionalProperties": False}
    assert changes(tmp_path, describe(), describe(closed)) == [
        ("risk", "request schema Order", "properties that it does not name are refused now")
    ]
    old, new = (with_property("lot", schema) for schema in ({"type": "integer"}, {"type": "integer", "multipleOf": 6}))
    assert changes(tmp_path, describe(old), describe(new)) == [
        ("risk", "request schema Order.lot", "multipleOf None -> 6")
    ]


def test_another_constant_and_another_address_are_found(tmp_path: Path) -> None:
    old, new = (with_property("kind", {"const": value}) for value in ("order", "sale"))
    assert changes(tmp_path, describe(old), describe(new)) == [
        ("break", "request schema Order.kind", "values no longer accepted: order"),
        ("risk", "response schema Order.kind", "new values may arrive: sale"),
    ]
    before, after = ({**describe(), "servers": [{"url": f"https://a.example/v{n}"}]} for n in (1, 2))
    assert changes(tmp_path, before, after) == [("risk", "servers", "no longer listed: https://a.example/v1")]
    assert changes(tmp_path, describe(), {**describe(), "servers": []}) == []


NAMED = "#/components/schemas/"
OPTIONAL = {"anyOf": [{"$ref": f"{NAMED}Note"}, {"type": "null"}]}


def noted(holder: dict[str, Any], note: dict[str, Any], **more: dict[str, Any]) -> dict[str, Any]:
    """Return a description whose order has a property of the schema *holder*, which may speak of *note*."""
    document = describe(with_property("note", holder))
    document["components"]["schemas"] |= {"Note": note, **more}
    return document


@pytest.mark.parametrize(
    "holder",
    [
        OPTIONAL,
        {"oneOf": [{"type": "null"}, {"$ref": f"{NAMED}Note"}], "title": "Note"},
        {"allOf": [{"$ref": f"{NAMED}Note"}], "nullable": True},
        {"oneOf": [{"$ref": f"{NAMED}Note"}, {"$ref": f"{NAMED}Order"}]},
    ],
    ids=["anyOf", "oneOf", "allOf", "alternatives"],
)
def test_what_a_union_stands_for_is_compared_inside(tmp_path: Path, holder: dict[str, Any]) -> None:
    old, new = ({"properties": {"text": {"type": kind}, "next": holder}} for kind in ("string", "integer"))
    assert changes(tmp_path, noted(holder, old), noted(holder, new)) == [
        ("break", "request schema Note.text", "type string -> integer"),
        ("break", "response schema Note.text", "type string -> integer"),
    ]


def test_null_as_another_alternative_is_a_break_for_readers_and_its_loss_for_writers(tmp_path: Path) -> None:
    plain, note = {"$ref": f"{NAMED}Note"}, {"properties": {"text": {"type": "string"}}}
    assert changes(tmp_path, noted(plain, note), noted(OPTIONAL, note)) == [
        ("break", "response schema Order.note", "may be null now")
    ]
    assert changes(tmp_path, noted(OPTIONAL, note), noted(plain, note)) == [
        ("break", "request schema Order.note", "null is no longer accepted")
    ]
    text, maybe = {"type": "string"}, {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert changes(tmp_path, noted(text, note), noted(maybe, note)) == [
        ("break", "response schema Order.note", "type string -> null|string")
    ]


def test_another_alternative_in_place_of_one_is_found(tmp_path: Path) -> None:
    one, two = ({"oneOf": [{"$ref": f"{NAMED}Order"}, {"$ref": f"{NAMED}{name}"}]} for name in ("Note", "Memo"))
    assert changes(tmp_path, noted(one, {}, Memo={}), noted(two, {}, Memo={})) == [
        ("break", "request schema Order.note", "oneOf: Note replaced"),
        ("risk", "response schema Order.note", "oneOf: Note replaced"),
    ]


def swagger(*parameters: dict[str, Any], **more: object) -> dict[str, Any]:
    responses = {"200": {"schema": {"type": "string"}}}
    return {
        "swagger": "2.0",
        "paths": {"/a": {"post": {"parameters": list(parameters), "responses": responses}}},
        **more,
    }


def test_forms_and_media_types_of_swagger_are_compared(tmp_path: Path) -> None:
    old = swagger({"in": "formData", "name": "f", "type": "string"})
    new = swagger({"in": "formData", "name": "f", "type": "integer", "required": True})
    assert [what for _, _, what in changes(tmp_path, old, new)] == [
        "body became required",
        "became required",
        "type string -> integer",
    ]
    body: dict[str, Any] = {"in": "body", "schema": {}}
    both, one = ["application/json", "text/xml"], ["application/json"]
    assert changes(
        tmp_path, swagger(body, consumes=both, produces=both), swagger(body, consumes=one, produces=one)
    ) == [
        ("break", "POST /a 200", "text/xml is no longer sent"),
        ("break", "POST /a request", "text/xml is no longer accepted"),
    ]


def parametrised(*parameters: dict[str, Any], **operation: object) -> dict[str, Any]:
    item = {"parameters": list(parameters), "get": {"responses": {}, **operation}}
    return {"openapi": "3.0.0", "paths": {"/a/{x}/{y}": item}}


def test_parameters_are_compared_by_their_place_in_the_path_and_below_their_media_type(tmp_path: Path) -> None:
    x, y = (
        {"in": "path", "name": n, "required": True, "schema": {"type": t}}
        for n, t in (("x", "string"), ("y", "integer"))
    )
    assert changes(tmp_path, parametrised(x, y), parametrised(y, x, parameters=[x])) == []
    q: list[dict[str, Any]] = [
        {"in": "query", "name": "q", "content": {"application/json": {"schema": {"type": kind}}}}
        for kind in ("string", "integer")
    ]
    assert changes(tmp_path, parametrised(q[0]), parametrised(q[1])) == [
        ("break", "GET /a/{x}/{y} query parameter q", "type string -> integer")
    ]
    many: dict[str, Any] = {"in": "query", "name": "many", "schema": {"type": "array"}}
    assert changes(tmp_path, parametrised(many), parametrised({**many, "style": "form", "explode": True})) == []


def test_what_other_files_hold_is_told_and_paths_that_are_all_there_are_refused(tmp_path: Path) -> None:
    document = noted({"$ref": "./note.yaml#/Note"}, {})
    assert changes(tmp_path, document, document) == [
        ("risk", "description", "not compared: what is in other files (./note.yaml); bundle both first")
    ]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"openapi": "3.0.0", "paths": {"/a": {"$ref": "./a.yaml"}}}))
    assert_refused(run_script(*SCRIPT, path, path), "no operations", "bundle")


def test_words_that_only_yaml_1_1_reads_as_booleans_or_dates_are_text(tmp_path: Path) -> None:
    text = "openapi: 3.0.0\npaths:\n  /a:\n    get:\n      parameters:\n      - {name: on, in: query, required: %s,"
    text += " schema: {enum: [%s]}}\n      responses: {}\n"
    (tmp_path / "old.yaml").write_text(text % ("false", "NO, yes, 2026-01-01"))
    (tmp_path / "new.yaml").write_text(text.replace("on,", "'on',") % ("false", "'NO', 'yes', '2026-01-01'"))
    assert run_json(*SCRIPT, tmp_path / "old.yaml", tmp_path / "new.yaml")["changes"] == []
    (tmp_path / "new.yaml").write_text(text % ("True", "NO, 2026-01-01"))
    found = run_json(*SCRIPT, tmp_path / "old.yaml", tmp_path / "new.yaml")["changes"]
    assert [change["what"] for change in found] == ["became required", "values no longer accepted: yes"]


def test_a_status_that_yaml_reads_as_a_number_has_headers_too(tmp_path: Path) -> None:
    text = "openapi: 3.0.0\npaths:\n  /a:\n    get:\n      responses:\n        200:\n          description: a\n"
    (tmp_path / "old.yaml").write_text(f"{text}          headers:\n            X-A: {{schema: {{type: string}}}}\n")
    (tmp_path / "new.yaml").write_text(text)
    (change,) = run_json(*SCRIPT, tmp_path / "old.yaml", tmp_path / "new.yaml")["changes"]
    assert change["what"] == "header x-a removed"


def test_an_exclusive_limit_of_openapi_3_0_and_a_property_of_one_direction_inside_all_of_are_seen(
    tmp_path: Path,
) -> None:
    old, new = (
        with_property("n", {"type": "integer", "minimum": 0, **more}) for more in ({}, {"exclusiveMinimum": True})
    )
    assert changes(tmp_path, describe(old), describe(new)) == [
        ("break", "request schema Order.n", "exclusiveMinimum None -> 0")
    ]
    made = {"allOf": [{"$ref": f"{NAMED}Note"}], "readOnly": True}
    assert [place for _, place, _ in changes(tmp_path, noted(made, {}), describe())] == ["response schema Order.note"]


def test_schemas_without_a_name_that_contain_themselves_are_compared(tmp_path: Path) -> None:
    documents = []
    for kind in ("string", "integer"):
        endless = {"allOf": [{"$ref": f"{NAMED}Note"}, {"properties": {"a": {"type": kind}}}]}
        documents.append(noted(endless, {"properties": {"next": endless}}))
    found = changes(tmp_path, documents[0], documents[1])
    assert ("break", "response schema Order.note.a", "type string -> integer") in found


def test_a_description_that_powershell_wrote_is_read(tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(describe()), encoding="utf-16")
    new.write_text(json.dumps(describe({})))
    assert "property removed" in run_script(*SCRIPT, old, new).stdout


def test_a_security_scheme_that_is_sent_otherwise_is_a_break(tmp_path: Path) -> None:
    old, new = describe(security=[{"key": []}]), describe(security=[{"key": []}])
    for document, header in ((old, "X-Key"), (new, "X-Token")):
        document["components"]["securitySchemes"] = {"key": {"type": "apiKey", "in": "header", "name": header}}
    assert changes(tmp_path, old, new) == [
        ("break", "security scheme key", "apiKey header X-Key -> apiKey header X-Token")
    ]


def test_items_that_may_be_anything_now_and_places_of_a_tuple_are_seen(tmp_path: Path) -> None:
    texts, any_ = {"type": "array", "items": {"type": "string"}}, {"type": "array"}
    assert changes(tmp_path, describe(with_property("l", texts)), describe(with_property("l", any_))) == [
        ("risk", "response schema Order.l[]", "type string -> any")
    ]
    assert changes(tmp_path, describe(with_property("l", any_)), describe(with_property("l", texts))) == [
        ("risk", "request schema Order.l[]", "type any -> string")
    ]
    old, new = (
        with_property("l", {"type": "array", "prefixItems": [{"type": kind}]}) for kind in ("string", "integer")
    )
    found = changes(tmp_path, describe(old), describe(new))
    assert ("break", "response schema Order.l[0]", "type string -> integer") in found


def test_alternatives_that_move_from_one_of_to_any_of_are_compared(tmp_path: Path) -> None:
    def union(word: str, note: str) -> dict[str, Any]:
        parts = [{"$ref": f"#/components/schemas/{name}"} for name in ("Note", "Other")]
        document = describe(with_property("n", {word: parts}))
        document["components"]["schemas"]["Note"] = {"type": "object", "properties": {"text": {"type": note}}}
        document["components"]["schemas"]["Other"] = {"type": "object", "properties": {"id": {"type": "integer"}}}
        return document

    assert changes(tmp_path, union("oneOf", "string"), union("anyOf", "string")) == [
        ("risk", "response schema Order.n", "oneOf became anyOf")
    ]
    assert changes(tmp_path, union("anyOf", "string"), union("oneOf", "string")) == [
        ("risk", "request schema Order.n", "anyOf became oneOf")
    ]
    found = changes(tmp_path, union("oneOf", "string"), union("anyOf", "integer"))
    assert ("break", "response schema Note.text", "type string -> integer") in found


def test_types_of_a_union_without_names_are_compared(tmp_path: Path) -> None:
    one = describe(with_property("n", {"type": "integer"}))
    two = describe(with_property("n", {"anyOf": [{"type": "integer"}, {"type": "string"}]}))
    breaks = [
        [row for row in changes(tmp_path, *pair) if row[0] == "break" and " -> " in row[2]]
        for pair in ((one, two), (two, one))
    ]
    assert breaks[0] == [("break", "response schema Order.n", "type integer -> integer|string")]
    assert ("break", "request schema Order.n", "type integer|string -> integer") in breaks[1]


def test_a_required_name_without_a_schema_and_a_closed_map_break_who_sends(tmp_path: Path) -> None:
    assert changes(tmp_path, describe(), describe({**ORDER, "required": ["id", "extra"]})) == [
        ("break", "request schema Order.extra", "required and new")
    ]
    free, closed = (
        describe(with_property("m", {"type": "object", "additionalProperties": more}))
        for more in ({"type": "string"}, False)
    )
    assert changes(tmp_path, free, closed)[0] == (
        "break", "request schema Order.m", "properties that it does not name are refused now"
    )  # fmt: skip
    mixed, closed = (describe({**ORDER, "additionalProperties": more}) for more in ({"type": "string"}, False))
    assert changes(tmp_path, mixed, closed) == [
        ("break", "request schema Order", "properties that it does not name are refused now")
    ]


@pytest.mark.parametrize("word", ["additionalProperties", "unevaluatedProperties"])
def test_a_request_that_refuses_what_it_does_not_name_is_a_risk(tmp_path: Path, word: str) -> None:
    told = "properties that it does not name are refused now"
    assert changes(tmp_path, describe(), describe({**ORDER, word: False})) == [("risk", "request schema Order", told)]


def test_a_limit_of_zero_breaks_who_sends_beyond_it_and_a_length_of_zero_nobody(tmp_path: Path) -> None:
    for limit in ({"minimum": 0}, {"maximum": 0}, {"maxLength": 0}):
        (name,) = limit
        assert changes(tmp_path, describe(with_property("n", {})), describe(with_property("n", limit))) == [
            ("break", "request schema Order.n", f"{name} None -> 0")
        ]
    assert changes(tmp_path, describe(with_property("n", {})), describe(with_property("n", {"minLength": 0}))) == []


def test_an_exclusive_limit_written_as_in_openapi_3_1_is_the_same_limit(tmp_path: Path) -> None:
    old = describe(with_property("n", {"minimum": 1, "exclusiveMinimum": True}))
    assert changes(tmp_path, old, describe(with_property("n", {"exclusiveMinimum": 1}))) == []
    assert changes(tmp_path, old, describe(with_property("n", {"minimum": 1}))) == []
    assert changes(tmp_path, old, describe(with_property("n", {"minimum": 2}))) == [
        ("break", "request schema Order.n", "minimum None -> 2")
    ]


def test_ranges_of_media_types_and_statuses_are_matched(tmp_path: Path) -> None:
    schema = {"schema": {"type": "string"}}
    any_type, text = ({"responses": {"200": {"content": {media: schema}}}} for media in ("*/*", "Text/Plain"))
    assert changes(tmp_path, describe(**any_type), describe(**text)) == []
    assert [what for _, _, what in changes(tmp_path, describe(**text), describe(**any_type))] == ["text/plain -> */*"]
    wide = {"requestBody": {"content": {"*/*": schema}}}
    narrow = {"requestBody": {"content": {"text/plain": schema}}}
    assert changes(tmp_path, describe(**narrow), describe(**wide)) == []
    assert [level for level, _, _ in changes(tmp_path, describe(**wide), describe(**narrow))] == ["risk"]
    ranged = {"responses": {"2XX": {"content": {"text/plain": schema}}}}
    assert changes(tmp_path, describe(**ranged), describe(**text)) == []
    assert changes(tmp_path, describe(**text), describe(**ranged)) == [
        ("risk", "POST /orders/{id} 2XX", "status added")
    ]


def test_a_reference_into_a_path_may_be_percent_encoded(tmp_path: Path) -> None:
    order = with_property("n", {"$ref": "#/paths/~1orders~1%7Bid%7D/post/x-note/0"})
    old, new = (describe(order, **{"x-note": [{"type": kind}]}) for kind in ("string", "integer"))
    assert changes(tmp_path, old, old) == []
    assert ("break", "request schema 0", "type string -> integer") in changes(tmp_path, old, new)


def test_how_lists_are_written_and_parameters_of_media_types_do_not_matter_to_others(tmp_path: Path) -> None:
    def listed(kind: str, **more: object) -> dict[str, Any]:
        return describe(parameters=[{"in": "query", "name": "q", "schema": {"type": kind}, **more}])

    assert changes(tmp_path, listed("string"), listed("string", explode=False)) == []
    assert [level for level, _, _ in changes(tmp_path, listed("array"), listed("array", explode=False))] == ["break"]
    old, new = (
        {
            "swagger": "2.0",
            "consumes": [media],
            "paths": {"/a": {"post": {"parameters": [{"in": "body", "name": "a", "schema": {}}], "responses": {}}}},
        }
        for media in ("application/json", "application/json; charset=utf-8")
    )
    assert changes(tmp_path, old, new) == []


def test_other_methods_and_streams_of_openapi_3_2_are_compared(tmp_path: Path) -> None:
    def stream(kind: str, more: dict[str, Any]) -> dict[str, Any]:
        events = {"text/event-stream": {"itemSchema": {"type": "object", "properties": {"n": {"type": kind}}}}}
        found = describe(responses={"200": {"content": events}})
        found["paths"]["/orders/{id}"]["additionalOperations"] = more
        return {**found, "openapi": "3.2.0"}

    assert changes(tmp_path, stream("integer", {"COPY": {"responses": {}}}), stream("string", {})) == [
        ("break", "COPY /orders/{id}", "operation removed"),
        ("break", "POST /orders/{id} 200[].n", "type integer -> string"),
    ]


def test_media_types_behind_references_of_openapi_3_2_are_compared(tmp_path: Path) -> None:
    content = {"application/json": {"$ref": "#/components/mediaTypes/One"}}

    def shared(kind: str, operation: dict[str, Any]) -> dict[str, Any]:
        found = describe(**operation)
        found["components"]["mediaTypes"] = {"One": {"schema": {"type": kind}}}
        return {**found, "openapi": "3.2.0"}

    answer: dict[str, Any] = {"responses": {"200": {"content": content}}}
    found = changes(tmp_path, shared("integer", answer), shared("string", answer))
    assert found == [("break", "POST /orders/{id} 200", "type integer -> string")]
    asked: dict[str, Any] = {"parameters": [{"name": "q", "in": "query", "content": content}]}
    found = changes(tmp_path, shared("string", asked), shared("integer", asked))
    assert [level for level, _, _ in found] == ["break"]
