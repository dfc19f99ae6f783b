from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.calls import jsontext
from proxy.calls.call import Call, Parameter
from proxy.calls.coercion import MAX_DIGITS, write_arguments
from proxy.calls.schemas import MAX_SCHEMAS, Schema

STRING = {"type": "string"}
DEFS = {
    "n": {"type": "integer"},
    "maybe": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]},
    "loop": {"$ref": "#/$defs/loop"},
    "tree": {"type": "object", "properties": {"v": {"$ref": "#/$defs/n"}, "sub": {"$ref": "#/$defs/tree"}}},
    "a/b~c d": {"type": "boolean"},
}


def typed(text: str, schema: Any, *, is_string: bool | None = None) -> Any:
    parameters = {"type": "object", "properties": {"x": schema}, "$defs": DEFS}
    made = json.loads(write_arguments(Call("f", (Parameter("x", text, is_string),)), parameters))
    assert list(made) == ["x"]
    return made["x"]


def types(*names: str) -> dict[str, Any]:
    return {"type": list(names)}


TEXTS: list[tuple[str, str, Any, Any]] = [
    ("a string", "abc", STRING, "abc"),
    ("null as a string", "null", STRING, "null"),
    ("a number as a string", "123", STRING, "123"),
    ("a boolean as a string", "true", STRING, "true"),
    ("an object as a string", '{"a": 1}', STRING, '{"a": 1}'),
    ("white space of a string", " a\n", STRING, " a\n"),
    ("quotes of a string", '"a"', STRING, '"a"'),
    ("not ASCII", "北京 \U0001f600", STRING, "北京 \U0001f600"),
    ("nothing", "", STRING, ""),
    ("null", "null", types("string", "null"), None),
    ("null, before others", "null", types("null", "string"), None),
    ("null, with white space", "\nnull\n", types("object", "null"), None),
    ("None is no null", "None", types("string", "null"), "None"),
    ("null where only a number is allowed", "null", {"type": "integer"}, "null"),
    ("null without a schema", "null", {}, "null"),
    ("an integer", "83", {"type": "integer"}, 83),
    ("an integer, on a line", "\n83\n", {"type": "integer"}, 83),
    ("a negative integer", "-7", {"type": "integer"}, -7),
    (
        "a large integer",
        "123456789012345678901234567890",
        {"type": "integer"},
        123456789012345678901234567890,
    ),
    ("leading zeros", "007", {"type": "integer"}, "007"),
    ("a plus", "+7", {"type": "integer"}, "+7"),
    ("an underscore", "1_000", {"type": "integer"}, "1_000"),
    ("other digits", "٣", {"type": "integer"}, "٣"),
    ("a fraction for an integer", "1.5", {"type": "integer"}, "1.5"),
    ("too many digits", "9" * (MAX_DIGITS + 1), {"type": "integer"}, "9" * (MAX_DIGITS + 1)),
    ("a number", "1.5", {"type": "number"}, 1.5),
    ("a number, with an exponent", "-1e3", {"type": "number"}, -1000.0),
    ("an integer for a number", "5", {"type": "number"}, 5),
    ("a number that overflows", "1e999", {"type": "number"}, "1e999"),
    ("NaN", "NaN", {"type": "number"}, "NaN"),
    ("Infinity", "-Infinity", {"type": "number"}, "-Infinity"),
    ("integer before number", "5", types("number", "integer"), 5),
    ("integer before string", "5", types("string", "integer"), 5),
    ("number after integer", "5.5", types("integer", "number"), 5.5),
    ("true", "true", {"type": "boolean"}, True),
    ("False, as Python writes it", "False", {"type": "boolean"}, False),
    ("yes is no boolean", "yes", {"type": "boolean"}, "yes"),
    ("one is no boolean", "1", {"type": "boolean"}, "1"),
    ("integer before boolean", "1", types("boolean", "integer"), 1),
    ("boolean before string", "true", types("string", "boolean"), True),
    ("an object", '{"a": [1, null]}', {"type": "object"}, {"a": [1, None]}),
    ("an object, on lines", '\n{\n "a": 1\n}\n', {"type": "object"}, {"a": 1}),
    ("an array", '["a", 1]', {"type": "array"}, ["a", 1]),
    ("an object for an array", '{"a": 1}', {"type": "array"}, '{"a": 1}'),
    ("a Python literal", "{'a': 1}", {"type": "object"}, "{'a': 1}"),
    ("code", "__import__('os').getcwd()", {"type": "object"}, "__import__('os').getcwd()"),
    ("a tuple", "(1, 2)", {"type": "array"}, "(1, 2)"),
    ("object before string", "{}", types("string", "object"), {}),
    ("broken JSON", '{"a": ', types("object", "string"), '{"a": '),
    ("nested too deeply", "[" * 65 + "]" * 65, {"type": "array"}, "[" * 65 + "]" * 65),
    ("nested just so", "[" * 64 + "]" * 64, {"type": "array"}, json.loads("[" * 64 + "]" * 64)),
    ("an unknown type", "5", {"type": "float"}, "5"),
    ("no schema", "5", {}, "5"),
    ("a schema that is none", "5", True, "5"),
    ("enum", "2", {"enum": [1, 2, "auto"]}, 2),
    ("enum, the string", "auto", {"enum": [1, 2, "auto"]}, "auto"),
    ("enum of strings", "1", {"enum": ["1", "2"]}, "1"),
    ("enum with null", "null", {"enum": ["a", None]}, None),
    ("enum with booleans", "true", {"enum": [True, False]}, True),
    ("type and enum", "1", {"type": "string", "enum": ["1"]}, "1"),
    ("const", "3", {"const": 3}, 3),
    ("anyOf", "5", {"anyOf": [{"type": "string"}, {"type": "integer"}]}, 5),
    ("oneOf", "null", {"oneOf": [{"type": "string"}, {"type": "null"}]}, None),
    ("allOf", "5", {"allOf": [{"type": "integer"}, {"minimum": 1}]}, 5),
    ("alternatives in alternatives", "5", {"anyOf": [{"oneOf": [{"allOf": [{"type": "integer"}]}]}]}, 5),
    ("a reference", "5", {"$ref": "#/$defs/n"}, 5),
    ("a reference to alternatives", "null", {"$ref": "#/$defs/maybe"}, None),
    ("a reference with escapes", "true", {"$ref": "#/$defs/a~1b~0c%20d"}, True),
    ("a reference into a list", "5", {"$ref": "#/$defs/maybe/anyOf/0"}, 5),
    ("a reference to itself", "5", {"$ref": "#/$defs/loop"}, "5"),
    ("a reference that leads nowhere", "5", {"$ref": "#/$defs/none/at/all"}, "5"),
    ("a reference elsewhere", "5", {"$ref": "https://example.com/n.json"}, "5"),
    ("properties without a type", '{"a": 1}', {"properties": {"a": {"type": "integer"}}}, {"a": 1}),
    ("items without a type", "[1]", {"items": {"type": "integer"}}, [1]),
    ("a nested string", '{"v": "5"}', {"$ref": "#/$defs/tree"}, {"v": 5}),
    (
        "a nested string, deeper",
        '{"sub": {"sub": {"v": "5"}}}',
        {"$ref": "#/$defs/tree"},
        {"sub": {"sub": {"v": 5}}},
    ),
    ("a nested number for a string", '{"a": 5}', {"type": "object", "properties": {"a": STRING}}, {"a": "5"}),
    (
        "a nested null for a string",
        '{"a": null}',
        {"type": "object", "properties": {"a": STRING}},
        {"a": None},
    ),
    ("a nested text null", '{"a": "null"}', {"type": "object", "properties": {"a": STRING}}, {"a": "null"}),
    ("items", '["1", 2, "x"]', {"type": "array", "items": {"type": "integer"}}, [1, 2, "x"]),
    (
        "prefixItems",
        '["1", "2"]',
        {"type": "array", "prefixItems": [{"type": "integer"}], "items": STRING},
        [1, "2"],
    ),
    (
        "other properties",
        '{"k": "1"}',
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"k": 1},
    ),
    ("JSON in a string", '{"sub": "{\\"v\\": \\"5\\"}"}', {"$ref": "#/$defs/tree"}, {"sub": {"v": 5}}),
]


@pytest.mark.parametrize(
    ("text", "schema", "expected"), [case[1:] for case in TEXTS], ids=[case[0] for case in TEXTS]
)
def test_text_is_typed(text: str, schema: Any, expected: Any) -> None:
    value = typed(text, schema)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("text", "schema", "is_string", "expected"),
    [
        ("5", {}, True, "5"),
        ("5", {}, False, 5),
        ("null", {}, False, None),
        ("[1, 2]", {}, False, [1, 2]),
        ("x", {}, False, "x"),
        ("5", types("string", "integer"), True, "5"),
        ("5", types("string", "integer"), False, 5),
        ("5", {"type": "integer"}, True, 5),
        ("5", STRING, False, "5"),
        ('{"a": 1}', STRING, False, '{"a": 1}'),
    ],
)
def test_what_the_dialect_says_counts_where_the_schema_leaves_it_open(
    text: str, schema: Any, is_string: bool, expected: Any
) -> None:
    value = typed(text, schema, is_string=is_string)
    assert value == expected
    assert type(value) is type(expected)


def test_arguments_that_were_json_are_typed_too() -> None:
    schema = {"properties": {"n": {"type": "integer"}, "s": STRING, "b": {"type": "boolean"}}}
    call = Call("f", {"n": "5", "s": 5, "b": True, "other": "5"})
    assert json.loads(write_arguments(call, schema)) == {"n": 5, "s": "5", "b": True, "other": "5"}


@pytest.mark.parametrize("schema", [None, [], "object", 1, {}, {"properties": []}, {"properties": {"x": 1}}])
def test_a_schema_that_says_nothing(schema: Any) -> None:
    call = Call("f", (Parameter("x", "1", None),))
    assert write_arguments(call, schema) == '{"x": "1"}'


def test_the_last_of_equal_names_counts() -> None:
    call = Call("f", (Parameter("x", "1", None), Parameter("y", "2", None), Parameter("x", "3", None)))
    assert write_arguments(call, None) == '{"x": "3", "y": "2"}'


def test_arguments_are_json_with_characters_as_they_are() -> None:
    call = Call("f", (Parameter("ß", '北京\n"', None), Parameter("x", "\ud800", None)))
    written = write_arguments(call, None)
    assert written == '{"ß": "北京\\n\\"", "x": "\\ud800"}'
    written.encode()


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e999", "", "[1", "[1]]", "[" * 65 + "]" * 65])
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any of its kinds
        jsontext.read(text)


def test_no_arguments() -> None:
    assert write_arguments(Call("f", ()), None) == write_arguments(Call("f", {}), None) == "{}"


def test_json_in_strings_in_strings_is_read_to_a_depth_only() -> None:
    schema: dict[str, Any] = {"type": "array"}
    schema["items"] = schema
    text = "[1]"
    for _ in range(12):
        text = "[" * 60 + json.dumps(text) + "]" * 60
    value = json.loads(
        write_arguments(Call("f", (Parameter("x", text, None),)), {"properties": {"x": schema}})
    )["x"]
    depth = 0
    while isinstance(value, list):
        value, depth = value[0], depth + 1
    assert 60 <= depth <= 2 * jsontext.MAX_DEPTH
    assert isinstance(value, str)


def test_a_schema_of_many_alternatives_is_looked_at_to_a_limit() -> None:
    wide = {"anyOf": [{"anyOf": [{"type": "integer"}] * 10} for _ in range(10 * MAX_SCHEMAS)]}
    known = Schema({"properties": {"x": wide}})
    schemas = known.of_property(known.top, "x")
    assert known.allowed(schemas) == {"integer"}
    twisted: dict[str, Any] = {"type": "integer"}
    twisted["anyOf"] = [twisted] * 50
    twisted["allOf"] = [{"$ref": "#/properties/x"}] * 50
    assert typed("5", twisted) == 5
