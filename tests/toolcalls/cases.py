"""Blocks of every dialect, as the models write them, and what is not quite one."""

# ruff: noqa: RUF001 - the fullwidth bar is what the markers are written with

from __future__ import annotations

from typing import Any, NamedTuple

OBJECT: dict[str, Any] = {"type": "object"}
STRING = {"type": "string"}

TOOLS: dict[str, Any] = {
    "read": {
        "type": "object",
        "properties": {"path": STRING, "limit": {"type": "integer"}},
        "required": ["path"],
    },
    "get_time": OBJECT,
    "mcp__files.search": {"type": "object", "properties": {"query": STRING, "flags": {"type": "array"}}},
}


class Case(NamedTuple):
    name: str
    text: str
    calls: list[tuple[str, dict[str, Any]]]
    ids: tuple[str, ...] = ()
    blocks: int = 1


QWEN = """<tool_call>
<function=read>
<parameter=path>
/etc/hosts
</parameter>
<parameter=limit>
83
</parameter>
</function>
</tool_call>"""

HERMES = '<tool_call>\n{"name": "read", "arguments": {"path": "/etc/hosts", "limit": 83}}\n</tool_call>'

READ = ("read", {"path": "/etc/hosts", "limit": 83})
TIME: tuple[str, dict[str, Any]] = ("get_time", {})
SEARCH = ("mcp__files.search", {"query": "北京 \U0001f600", "flags": ["i", 2]})

SEARCHED = (
    "<function=mcp__files.search><parameter=query>北京 \U0001f600</parameter>\n"
    '<parameter=flags>["i", 2]</parameter></function>'
)

DSML_READ = """<｜DSML｜invoke name="read">
<｜DSML｜parameter name="path" string="true">/etc/hosts</｜DSML｜parameter>
<｜DSML｜parameter name="limit" string="false">83</｜DSML｜parameter>
</｜DSML｜invoke>"""

CASES = [
    Case("qwen", QWEN, [READ]),
    Case(
        "qwen, several functions in one envelope",
        f"<tool_call>{SEARCHED}\n<function=get_time>\n</function></tool_call>",
        [SEARCH, TIME],
    ),
    Case("qwen, opener missing", QWEN.removeprefix("<tool_call>\n"), [READ]),
    Case("qwen, no envelope", "<function=get_time></function>", [TIME]),
    Case(
        "qwen, opener missing, two functions",
        f"<function=get_time>\n</function>\n{SEARCHED}\n</tool_call>",
        [TIME, SEARCH],
        blocks=2,
    ),
    Case(
        "qwen, a value that quotes markup",
        "<tool_call><function=read><parameter=path></function></tool_call><think>{</parameter>"
        "</function></tool_call>",
        [("read", {"path": "</function></tool_call><think>{"})],
    ),
    Case(
        "qwen, a value with line breaks of its own",
        "<tool_call><function=read><parameter=path>\n\n a\n\n</parameter></function></tool_call>",
        [("read", {"path": "\n a\n"})],
    ),
    Case("hermes", HERMES, [READ]),
    Case(
        "hermes, a list",
        '<tool_call>[{"name": "get_time"},\n {"name": "read", "arguments": {"path": "/etc/hosts", "limit": '
        "83}}]</tool_call>",
        [TIME, READ],
    ),
    Case(
        "hermes, a string that quotes markup and brackets",
        '<tool_call>{"name": "read", "arguments": {"path": "a\\"}]</tool_call>\\\\"}}</tool_call>',
        [("read", {"path": 'a"}]</tool_call>\\'})],
    ),
    Case(
        "hermes, arguments in a string",
        '<tool_call>{"name": "read", "arguments": "{\\"path\\": \\"x\\"}"}</tool_call>',
        [("read", {"path": "x"})],
    ),
    Case(
        "hermes, parameters",
        '<tool_call>{"parameters": {"path": "x"}, "name": "read"}</tool_call>',
        [("read", {"path": "x"})],
    ),
    Case(
        "glm",
        "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>/etc/hosts</arg_value>\n"
        "<arg_key>limit</arg_key>\n<arg_value>83</arg_value>\n</tool_call>",
        [READ],
    ),
    Case(
        "glm, on one line",
        "<tool_call>read<arg_key>path</arg_key><arg_value> x\n</arg_value></tool_call>",
        [("read", {"path": " x\n"})],
    ),
    Case("glm, no arguments", "<tool_call>get_time</tool_call>", [TIME]),
    Case("glm, no arguments, on lines", "<tool_call>get_time\n</tool_call>", [TIME]),
    *(
        Case(
            f"minimax, {name}",
            f"<minimax:tool_call>\n<invoke name={quote}read{quote}>\n"
            f"<parameter name={quote}path{quote}>/etc/hosts</parameter>\n"
            f"<parameter name={quote}limit{quote}>83</parameter>\n</invoke>\n</minimax:tool_call>",
            [READ],
        )
        for name, quote in (("double quotes", '"'), ("single quotes", "'"), ("no quotes", ""))
    ),
    Case(
        "minimax, two calls",
        '<minimax:tool_call><invoke name="get_time"></invoke>\n<invoke name="read">'
        '<parameter name="path">x</parameter></invoke></minimax:tool_call>',
        [TIME, ("read", {"path": "x"})],
    ),
    Case("minimax, opener missing", "<invoke name=get_time></invoke></minimax:tool_call>", [TIME]),
    Case(
        "deepseek v3",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read\n```json\n"
        '{"path": "/etc/hosts",\n "limit": 83}\n```<｜tool▁call▁end｜>\n'
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_time\n```json\n{}\n```<｜tool▁call▁end｜>"
        "<｜tool▁calls▁end｜>",
        [READ, TIME],
    ),
    Case(
        "deepseek v3.1",
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read<｜tool▁sep｜>{"path": "/etc/hosts", "limit": 83}'
        "<｜tool▁call▁end｜><｜tool▁call▁begin｜>get_time<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        [READ, TIME],
    ),
    *(
        Case(f"deepseek dsml, {name}", f"<｜DSML｜{name}>\n{DSML_READ}\n</｜DSML｜{name}>", [READ])
        for name in ("function_calls", "tool_calls", "toolcalls", "tool")
    ),
    Case(
        "deepseek dsml v4.1",
        f"<｜DSML｜ calls>\n{DSML_READ.replace('DSML｜', 'DSML｜ ')}\n</｜DSML｜ calls>",
        [READ],
    ),
    Case(
        "deepseek dsml, other closer",
        "<｜DSML｜toolcalls>" + DSML_READ + "</｜DSML｜tool_calls>",
        [READ],
    ),
    Case(
        "deepseek dsml, no arguments and JSON",
        '<｜DSML｜tool_calls><｜DSML｜invoke name="get_time"/>\n<｜DSML｜invoke name="read">\n'
        '{"path": "/etc/hosts", "limit": 83}\n</｜DSML｜invoke></｜DSML｜tool_calls>',
        [TIME, READ],
    ),
    Case(
        "deepseek dsml, string missing",
        '<｜DSML｜tool_calls><｜DSML｜invoke name="read"><｜DSML｜parameter name="limit">83'
        "</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>",
        [("read", {"limit": 83})],
    ),
    Case("deepseek dsml, opener missing", f"{DSML_READ}\n</｜DSML｜tool_calls>", [READ]),
    Case(
        "kimi",
        "<|tool_calls_section_begin|>\n<|tool_call_begin|>functions.read:0 <|tool_call_argument_begin|>"
        '{"path": "/etc/hosts", "limit": 83}<|tool_call_end|><|tool_call_begin|>get_time:1'
        "<|tool_call_argument_begin|> {}<|tool_call_end|>\n<|tool_calls_section_end|>",
        [READ, TIME],
        ("functions.read:0", "get_time:1"),
    ),
    Case(
        "seed-oss",
        QWEN.replace("tool_call>", "seed:tool_call>"),
        [READ],
    ),
    Case(
        "seed-oss, opener missing",
        "<function=get_time>\n</function>\n</seed:tool_call>",
        [TIME],
    ),
    Case(
        "mistral, a list",
        '[TOOL_CALLS] [{"name": "read", "arguments": {"path": "/etc/hosts", "limit": 83}}, '
        '{"name": "get_time"}]',
        [READ, TIME],
    ),
    Case("mistral, one object", '[TOOL_CALLS]{"name": "get_time", "arguments": {}}', [TIME]),
    Case(
        "mistral, names",
        '[TOOL_CALLS]read[ARGS]{"path": "/etc/hosts", "limit": 83}[TOOL_CALLS]get_time{}',
        [READ, TIME],
        blocks=2,
    ),
]

MALFORMED = {
    "prose that names the tag": "I use <tool_call> tags, then </tool_call>.",
    "an empty envelope": "<tool_call>\n</tool_call>",
    "prose in an envelope": "<tool_call>read the file</tool_call>",
    "an ellipsis": '<tool_call>{"name": ..., "arguments": {...}}</tool_call>',
    "JSON of another kind": '<tool_call>{"tool": "read"}</tool_call>',
    "a name that is no string": '<tool_call>{"name": 1, "arguments": {}}</tool_call>',
    "arguments that are no object": '<tool_call>{"name": "read", "arguments": [1]}</tool_call>',
    "arguments in a string that is no JSON": '<tool_call>{"name": "read", "arguments": "x"}</tool_call>',
    "an empty list": "<tool_call>[]</tool_call>",
    "a list with something else": '<tool_call>[{"name": "read"}, 1]</tool_call>',
    "a number that overflows": '<tool_call>{"name": "read", "arguments": {"limit": 1e999}}</tool_call>',
    "NaN": '<tool_call>{"name": "read", "arguments": {"limit": NaN}}</tool_call>',
    "JSON nested too deeply": '<tool_call>{"name": "read", "arguments": {"a": '
    + "[" * 64
    + "]" * 64
    + "}}</tool_call>",
    "two values": '<tool_call>{"name": "read"} {"name": "read"}</tool_call>',
    "text behind the JSON": '<tool_call>{"name": "read"} please</tool_call>',
    "a key that begins in a value": "<function=read><parameter=path>x<parameter=limit>1</parameter>"
    "</function>",
    "a key that is begun in a value": "<function=read><parameter=path>x<parameter=</function>",
    "text between parameters": "<function=read>then <parameter=path>x</parameter></function>",
    "a function without a name": "<function=><parameter=path>x</parameter></function>",
    "a parameter without a name": "<function=read><parameter=>x</parameter></function>",
    "a name of two words": "<function=read it></function>",
    "a name that is too long": f"<function={'x' * 257}></function>",
    "a parameter's name that is too long": f"<function=read><parameter={'x' * 257}>1</parameter></function>",
    "quotes that do not match": "<invoke name=\"read'></invoke>",
    "a quote in a name": '<invoke name=re"ad></invoke>',
    "an attribute that is not one": '<｜DSML｜invoke name="read"><｜DSML｜parameter name=path>x'
    "</｜DSML｜parameter></｜DSML｜invoke>",
    "a key without a value": "<tool_call>read<arg_key>path</arg_key></tool_call>",
    "a counter for an id": "<|tool_calls_section_begin|><|tool_call_begin|>3<|tool_call_argument_begin|>{}"
    "<|tool_call_end|><|tool_calls_section_end|>",
    "a section without a call": "<|tool_calls_section_begin|><|tool_calls_section_end|>",
    "arguments that are a list": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read<｜tool▁sep｜>[1]"
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "a fence that does not close": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read\n"
    "```json\n{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "mistral prose": "[TOOL_CALLS] is the token",
    "mistral without JSON": "[TOOL_CALLS]read[ARGS]now",
}
