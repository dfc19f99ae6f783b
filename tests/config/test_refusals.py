"""Configurations that are refused, and the exact words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from proxy.config import ConfigError, load
from proxy.settings import Settings
from tests.examples import up_to

if TYPE_CHECKING:
    from pathlib import Path

TAGS = (
    "must be {open: [...], close: [...]}, or one of think, minimax-m3, seed-oss, kimi, kimi-k3, mistral, "
    "gemma4, cohere, plamo, k2-horizon, apertus, granite-3.2, hunyuan, ernie, hy3"
)
AMBIGUOUS = "can't be told apart however the text is cut: "

# (name, what stands behind `tags:`, problems behind `inlineThinkTagModels[0].tags`)
REFUSED_TAGS = [
    ("unknown name", "thunk", [": " + TAGS]),
    ("name in capitals", "Think", [": " + TAGS]),
    ("a number", "5", [": " + TAGS]),
    ("a list", "[<a>, </a>]", [": " + TAGS]),
    ("empty mapping", "{}", [".open: is required", ".close: is required"]),
    ("no close", "{open: [<a>]}", [".close: is required"]),
    ("close without a value", "{open: [<a>], close: }", [".close: is required"]),
    ("no opener", "{open: [], close: [b]}", [".open: must not be empty"]),
    ("text for a list", "{open: <a>, close: [b]}", [".open: must be a list"]),
    (
        "number for a marker",
        "{open: [<a>], close: [b, 5]}",
        [".close[1]: must be text; put numbers, true and false in quotes"],
    ),
    (
        "list for a marker",
        "{open: [<a>], close: [[b]]}",
        [".close[0]: must be text; put numbers, true and false in quotes"],
    ),
    ("unknown key", "{opne: [<a>], close: [b]}", [".opne: unknown key; did you mean open?"]),
    (
        "one key too many",
        "{open: [<a>], close: [b], wrappers: []}",
        [".wrappers: unknown key"],
    ),
    (
        "empty marker",
        "{open: [''], close: [b, '']}",
        [".open[0]: must not be empty", ".close[1]: must not be empty"],
    ),
    (
        "long marker",
        f"{{open: ['<{'a' * 127}>', '{'b' * 128}'], close: ['{'c' * 4000}']}}",
        [f".{place}: must not be longer than 128 characters" for place in ("open[0]", "close[0]")],
    ),
    (
        "prefix",
        "{open: [<a, <ab], close: [</a>]}",
        [f": {AMBIGUOUS}open[0] is the beginning or the inside of open[1]"],
    ),
    (
        "prefix in the other list",
        "{open: ['[T]', <a], close: ['[T] ']}",
        [f": {AMBIGUOUS}open[0] is the beginning or the inside of close[0]"],
    ),
    (
        "infix",
        "{open: [<a>], close: ['</a>', 'x</a>y']}",
        [f": {AMBIGUOUS}close[0] is the beginning or the inside of close[1]"],
    ),
    (
        "infix and suffix",
        "{open: [aa], close: [a]}",
        [f": {AMBIGUOUS}close[0] is the beginning or the inside of open[0]"],
    ),
    (
        "opener equal to a closer",
        "{open: [<a>, '|'], close: ['</a>', '|']}",
        [f": {AMBIGUOUS}open[1] and close[1] are the same"],
    ),
    *(
        (
            f"begins with {name}",
            f'{{open: ["{first}a"], close: [b]}}',
            [f": {AMBIGUOUS}open[0] begins with white space, a backtick or a tilde"],
        )
        for name, first in (
            ("a space", " "),
            ("a line break", r"\n"),
            ("a tab", r"\t"),
            ("a no-break space", r"\xa0"),
            ("a byte order mark", r"\ufeff"),
            ("a zero width space", r"\u200b"),
            ("a backtick", "`"),
            ("a tilde", "~"),
        )
    ),
    (
        "everything at once",
        "{open: [~a], close: [a, b, b c]}",
        [
            (
                f": {AMBIGUOUS}open[0] begins with white space, a backtick or a tilde; "
                "close[1] is the beginning or the inside of close[2]"
            )
        ],
    ),
]

# (name, YAML, problems without the file's name)
REFUSED = [
    (
        "a truth value that lies",
        "page: !!bool off\n",
        ["1: page: is not what its tag says, or has too many digits"],
    ),
    ("unknown key", "upstreem: http://h\n", ["1: upstreem: unknown key; did you mean upstream?"]),
    (
        "unknown, snake",
        "\nmax_body_byte: 1\n",
        ["2: max_body_byte: unknown key; did you mean max_body_bytes?"],
    ),
    (
        "unknown, a part of one",
        "models: [a]\n",
        ["1: models: unknown key; did you mean inlineThinkTagModels?"],
    ),
    ("unknown, nothing near", "zzz: 1\n", ["1: zzz: unknown key"]),
    ("unknown, known elsewhere", "port: 1\n", ["1: port: unknown key; did you mean listen.port?"]),
    (
        "unknown, nested",
        "listen:\n  host: h\n  prot: 1\n",
        ["3: listen.prot: unknown key; did you mean port?"],
    ),
    (
        "unknown, in an entry",
        "inlineThinkTagModels:\n- a\n- model: b\n  codeaware: true\n",
        ["4: inlineThinkTagModels[1].codeaware: unknown key; did you mean codeAware?"],
    ),
    (
        "misspelt, not missing as well",
        "inlineThinkTagModels:\n- modle: b\n",
        ["2: inlineThinkTagModels[0].modle: unknown key; did you mean model?"],
    ),
    (
        "set twice",
        "upstream: http://a\nupstream: http://b\n",
        ["2: upstream: this key is already set on line 1"],
    ),
    (
        "set twice, nested",
        "listen:\n  port: 1\n  host: h\n  port: 2\n",
        ["4: listen.port: this key is already set on line 2"],
    ),
    (
        "two spellings",
        "maxBodyBytes: 1\nmax_body_bytes: 1\n",
        ["2: max_body_bytes: is the same key as maxBodyBytes; keep one of them"],
    ),
    (
        "two spellings, one blank",
        "maxBodyBytes:\nmax_body_bytes: 1\n",
        ["2: max_body_bytes: is the same key as maxBodyBytes; keep one of them"],
    ),
    ("port too high", "listen: {port: 65536}\n", ["1: listen.port: must be at most 65535"]),
    ("port negative", "listen: {port: -1}\n", ["1: listen.port: must be at least 0"]),
    ("port no number", "listen:\n  port: http\n", ["2: listen.port: must be a whole number"]),
    ("port a fraction", "listen: {port: 1.5}\n", ["1: listen.port: must be a whole number"]),
    ("port true", "listen: {port: true}\n", ["1: listen.port: must be a number"]),
    ("listen no mapping", "listen: 8080\n", ["1: listen: must be a mapping of keys to values"]),
    ("host empty", "listen: {host: ''}\n", ["1: listen.host: must not be empty"]),
    (
        "snake is shown as written",
        "timeouts:\n  idle_seconds: -1\n",
        ["2: timeouts.idle_seconds: must be at least 0"],
    ),
    (
        "seconds not finite",
        "timeouts: {idleSeconds: .inf, answerSeconds: .nan}\n",
        [
            "1: timeouts.idleSeconds: must be a finite number",
            "1: timeouts.answerSeconds: must be a finite number",
        ],
    ),
    ("seconds no number", "timeouts: {idleSeconds: 1:30}\n", ["1: timeouts.idleSeconds: must be a number"]),
    ("size zero", "maxBodyBytes: 0\n", ["1: maxBodyBytes: must be more than 0"]),
    ("list wanted", "inlineThinkTagModels: Qwen/x\n", ["1: inlineThinkTagModels: must be a list"]),
    (
        "number as a name",
        "inlineThinkTagModels:\n- 405\n",
        ["2: inlineThinkTagModels[0]: must be text; put numbers, true and false in quotes"],
    ),
    (
        "number as a model",
        "inlineThinkTagModels:\n- start: implicit\n  model: 1.5\n",
        ["3: inlineThinkTagModels[0].model: must be text; put numbers, true and false in quotes"],
    ),
    (
        "list as a name",
        "inlineThinkTagModels:\n- [a]\n",
        ["2: inlineThinkTagModels[0]: must be a mapping of keys to values"],
    ),
    (
        "blank item",
        "inlineThinkTagModels:\n-\n",
        ["2: inlineThinkTagModels[0]: must be text; put numbers, true and false in quotes"],
    ),
    ("empty name", "inlineThinkTagModels: ['']\n", ["1: inlineThinkTagModels[0]: must not be empty"]),
    (
        "space around a name",
        "inlineThinkTagModels: ['a ']\n",
        ["1: inlineThinkTagModels[0]: must not begin or end with white space"],
    ),
    (
        "no model",
        "inlineThinkTagModels:\n- start: implicit\n",
        ["2: inlineThinkTagModels[0].model: is required"],
    ),
    (
        "no model, twice",
        "inlineThinkTagModels:\n- start: implicit\n- tags: think\n",
        [
            "2: inlineThinkTagModels[0].model: is required",
            "3: inlineThinkTagModels[1].model: is required",
        ],
    ),
    (
        "listed twice",
        "inlineThinkTagModels:\n- a\n- model: a\n",
        ["3: inlineThinkTagModels[1]: this model is already listed at {file}:2"],
    ),
    (
        "bad words",
        (
            "inlineThinkTagModels:\n- model: a\n  start: impliccit\n  whitespace: none\n"
            "  interleaved: 2\n  unterminated: drop\n"
        ),
        [
            "3: inlineThinkTagModels[0].start: must be one of leading, implicit, auto, anywhere",
            "4: inlineThinkTagModels[0].whitespace: must be tidy or exact",
            "5: inlineThinkTagModels[0].interleaved: must be true or false",
            "6: inlineThinkTagModels[0].unterminated: must be reasoning or content",
        ],
    ),
    (
        "retries true",
        "inlineThinkTagModels: [{model: a, maxRetries: true}]\n",
        ["1: inlineThinkTagModels[0].maxRetries: must be a number"],
    ),
    ("a page that is no truth value", "page: {}\n", ["1: page: must be true or false"]),
    (
        "upstream and upstreams",
        "upstream: http://h\nupstreams: {a: http://h}\n",
        ["2: upstreams: cannot stand beside upstream, its short form, wherever that was set: keep one"],
    ),
    ("an upstream nowhere", "upstreams:\n  a: {models: [x]}\n", ["2: upstreams.a: needs a url, or a uds"]),
    ("an upstream of nothing", "upstreams:\n  a:\n", ["2: upstreams.a: needs a url, or a uds"]),
    ("a list of upstreams", "upstreams: [http://h]\n", ["1: upstreams: must be a mapping of keys to values"]),
    (
        "an upstream as a list",
        "upstreams:\n  a: [http://h]\n",
        ["2: upstreams.a: must be a mapping of keys to values"],
    ),
    (
        "an upstream's address",
        "upstreams:\n  a: {url: h:1}\n",
        ["2: upstreams.a.url: must be an address such as http://127.0.0.1:8000"],
    ),
    (
        "an upstream's key",
        "upstreams:\n  a:\n    url: http://h\n    apiKeys: [x]\n",
        ["4: upstreams.a.apiKeys: unknown key; did you mean apiKey?"],
    ),
    (
        "no models",
        "upstreams:\n  a: {url: http://h, models: []}\n",
        ["2: upstreams.a.models: must not be empty"],
    ),
    (
        "an upstream's name",
        "upstreams:\n  a b: http://h\n",
        ["1: upstreams: names are of letters, digits, dots, - and _, at most 64 of them"],
    ),
    (
        "an upstream's requestSeconds",
        "upstreams:\n  a: {url: http://h, timeouts: {requestSeconds: 1}}\n",
        ["2: upstreams.a.timeouts.requestSeconds: unknown key; did you mean firstByteSeconds?"],
    ),
    (
        "two sockets",
        "upstreams:\n  a: {url: http+unix:///x, uds: /y}\n",
        ["2: upstreams.a: names a socket twice: in its url, and as uds"],
    ),
    (
        "a socket's path is short",
        f"listen: {{uds: /{'x' * 103}}}\n",
        ["1: listen.uds: must be a path of at most 103 bytes"],
    ),
    (
        "certificates that are not there",
        "upstreams:\n  a: {url: https://h, caFile: /nowhere/ca.pem}\n",
        ["2: upstreams.a.caFile: must be a file that can be read, with certificates in PEM form"],
    ),
    (
        "certificates that are none",
        f"upstreams:\n  a: {{url: https://h, caFile: {__file__}}}\n",
        ["2: upstreams.a.caFile: must be a file that can be read, with certificates in PEM form"],
    ),
    (
        "a key with a space",
        "apiKeys: [a, b c]\n",
        ["1: apiKeys[1]: must be printable ASCII without spaces"],
    ),
    ("an empty key", "apiKeys: ['']\n", ["1: apiKeys[0]: must not be empty"]),
    ("one key", "apiKeys: sk-1\n", ["1: apiKeys: must be a list"]),
    (
        "no file of keys",
        "apiKeysFile: /nowhere/keys\n",
        ["1: apiKeysFile: the file cannot be read: No such file or directory"],
    ),
    ("negative", "maxConcurrentRequests: -1\n", ["1: maxConcurrentRequests: must be at least 0"]),
    ("no header", "maxHeaderBytes: 0\n", ["1: maxHeaderBytes: must be more than 0"]),
    (
        "upstream no address",
        "upstream: localhost:8000\n",
        ["1: upstream: must be an address such as http://127.0.0.1:8000"],
    ),
    (
        "upstream scheme",
        "upstream: ftp://h\n",
        ["1: upstream: must be an address such as http://127.0.0.1:8000"],
    ),
    (
        "upstream no host",
        "upstream: http:///v1\n",
        ["1: upstream: must be an address such as http://127.0.0.1:8000"],
    ),
    (
        "upstream bad port",
        "upstream: http://h:99999\n",
        ["1: upstream: must be an address such as http://127.0.0.1:8000"],
    ),
    (
        "upstream bad brackets",
        "upstream: 'http://[::1'\n",
        ["1: upstream: must be an address such as http://127.0.0.1:8000"],
    ),
    (
        "upstream space",
        "upstream: 'http://h/a b'\n",
        ["1: upstream: must be an address such as http://127.0.0.1:8000"],
    ),
    ("upstream query", "upstream: http://h/?a=b\n", ["1: upstream: must not contain a query or a fragment"]),
    (
        "upstream fragment",
        "upstream: 'http://h/#'\n",
        ["1: upstream: must not contain a query or a fragment"],
    ),
    (
        "upstream password",
        "upstream: http://u:pw@h\n",
        ["1: upstream: must not contain a user name or password"],
    ),
    (
        "upstream a number",
        "upstream: 8000\n",
        ["1: upstream: must be text; put numbers, true and false in quotes"],
    ),
    (
        "path without slash",
        "passthroughPaths: [/a, v1/x]\n",
        ["1: passthroughPaths[1]: must be a path or a glob of paths that begins with /"],
    ),
    (
        "path empty",
        "passthroughPaths: ['']\n",
        ["1: passthroughPaths[0]: must be a path or a glob of paths that begins with /"],
    ),
    ("cors without origins", "cors: {allowCredentials: true}\n", ["1: cors.allowOrigins: is required"]),
    ("cors no origins", "cors: {allowOrigins: []}\n", ["1: cors.allowOrigins: must not be empty"]),
    ("cors true", "cors: true\n", ["1: cors: must be a mapping of keys to values"]),
    (
        "cors origin with a path",
        "cors: {allowOrigins: ['https://a/']}\n",
        ['1: cors.allowOrigins: must be origins such as https://chat.example, without a path, or "*"'],
    ),
    (
        "cors glob",
        "cors: {allowOrigins: ['https://*.a']}\n",
        ['1: cors.allowOrigins: must be origins such as https://chat.example, without a path, or "*"'],
    ),
    (
        "cors origin that is no address",
        "cors: {allowOrigins: ['https://[a']}\n",
        ['1: cors.allowOrigins: must be origins such as https://chat.example, without a path, or "*"'],
    ),
    (
        "cors star and more",
        "cors: {allowOrigins: ['*', 'https://a']}\n",
        ['1: cors.allowOrigins: "*" allows every origin and stands alone'],
    ),
    (
        "cors star with credentials",
        "cors:\n  allowOrigins: ['*']\n  allowCredentials: true\n",
        ['1: cors: allowCredentials needs origins by name, not "*"'],
    ),
    (
        "cors header",
        "cors: {allowOrigins: ['*'], allowHeaders: ['a b']}\n",
        ["1: cors.allowHeaders[0]: must be the name of a header"],
    ),
    ("log level", "log: {level: loud}\n", ["1: log.level: must be one of debug, info, warning, error"]),
    ("log format", "log: {format: xml}\n", ["1: log.format: must be json or text"]),
    (
        "variable not set",
        "listen: {port: 1}\nupstream: http://${NOT_SET}/\n",
        ["2: upstream: the environment variable NOT_SET is not set"],
    ),
    (
        "variable in a list",
        "passthroughPaths:\n- /a\n- /${NOT_SET}\n",
        ["3: passthroughPaths[1]: the environment variable NOT_SET is not set"],
    ),
    (
        "variable as a model",
        "inlineThinkTagModels:\n- ${NOT_SET}\n",
        ["2: inlineThinkTagModels[0]: the environment variable NOT_SET is not set"],
    ),
    (
        "variable malformed",
        "upstream: http://${a-b}/\n",
        ["1: upstream: ${ begins a variable, written ${NAME}"],
    ),
    (
        "variable not closed",
        "upstream: http://${HOME\n",
        ["1: upstream: ${ begins a variable, written ${NAME}"],
    ),
    (
        "two documents",
        "listen: {port: 1}\n---\nlisten: {port: 2}\n",
        ["3: a second YAML document begins here; only one is read"],
    ),
    ("no mapping", "- a\n- b\n", ["1: the configuration must be a mapping of keys to values"]),
    ("only a word", "hello\n", ["1: the configuration must be a mapping of keys to values"]),
    ("broken", "listen: {port: 1\nupstream: x\n", ["2: not valid YAML: expected ',' or '}', but got ':'"]),
    ("tab", "listen:\n\tport: 1\n", ["2: not valid YAML: found character '\\t' that cannot start any token"]),
    (
        "star without quotes",
        "inlineThinkTagModels:\n- *Qwen\n",
        ["2: not valid YAML: found undefined alias 'Qwen' (a name that begins with * needs quotes)"],
    ),
    ("a key that is a list", "? [a]\n: 1\n", ["1: a key must be plain text"]),
    (
        "a tag",
        "upstream: !!python/name:os.system\n",
        ["1: upstream: has a YAML tag that is not understood here"],
    ),
    (
        "a tag that lies",
        "maxBodyBytes: !!int x\n",
        ["1: maxBodyBytes: is not what its tag says, or has too many digits"],
    ),
    ("merge of a word", "<<: a\n", ["1: << takes a mapping or a list of mappings"]),
    ("control character", "a: 1\nb: \x01\n", ["2: not valid YAML: special characters are not allowed"]),
    ("escape past Unicode", 'a: "\\U00110000"\n', ["not valid YAML: an escape names no character"]),
    (
        "endless",
        "a: &a\n  b: *a\n",
        ["1: too many values or nested too deeply (an alias that repeats itself?)"],
    ),
    (
        "endless merge",
        "a: &a\n  <<: *a\n",
        ["1: too many values or nested too deeply (an alias that repeats itself?)"],
    ),
    ("deep", "[" * 1000, ["nested too deeply"]),
]


def refuse(file: Path, environ: dict[str, str] | None = None, **overrides: object) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(file, environ=environ or {}, overrides=overrides)
    lines = [str(problem) for problem in caught.value.problems]
    assert str(caught.value) == "\n".join(lines)
    return lines


@pytest.mark.parametrize(("text", "problems"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused(tmp_path: Path, text: str, problems: list[str]) -> None:
    file = tmp_path / "proxy.yaml"
    file.write_text(text, encoding="utf-8")
    expected = [
        f"{file}:{' ' if not row[0].isdigit() else ''}{row}".replace("{file}", str(file)) for row in problems
    ]
    assert refuse(file) == expected


@pytest.mark.parametrize(
    ("written", "problems"), [row[1:] for row in REFUSED_TAGS], ids=[row[0] for row in REFUSED_TAGS]
)
def test_refused_tags(tmp_path: Path, written: str, problems: list[str]) -> None:
    file = tmp_path / "proxy.yaml"
    file.write_text(f"inlineThinkTagModels:\n- model: a\n  tags: {written}\n", encoding="utf-8")
    assert refuse(file) == [f"{file}:3: inlineThinkTagModels[0].tags{problem}" for problem in problems]


def test_a_key_inside_tags_is_named_with_its_own_line(tmp_path: Path) -> None:
    file = tmp_path / "proxy.yaml"
    file.write_text("inlineThinkTagModels:\n- model: a\n  tags:\n    open: [a]\n    clsoe: [b]\n    x: 1\n")
    assert refuse(file) == [
        f"{file}:5: inlineThinkTagModels[0].tags.clsoe: unknown key; did you mean close?",
        f"{file}:6: inlineThinkTagModels[0].tags.x: unknown key",
    ]


def test_a_problem_is_data(tmp_path: Path) -> None:
    file = tmp_path / "proxy.yaml"
    file.write_text("listen:\n  prot: 1\n")
    with pytest.raises(ConfigError) as caught:
        load(file, environ={})
    (problem,) = caught.value.problems
    assert (problem.path, problem.place.source, problem.place.line) == ("listen.prot", str(file), 2)
    assert (problem.message, problem.nearest) == ("unknown key", "port")


def refuse_without_file(tmp_path: Path, overrides: dict[str, object]) -> list[str]:
    empty = tmp_path / "empty.yaml"
    empty.write_text("")
    return refuse(empty, {}, **overrides)


@pytest.mark.parametrize(
    "text", ["watchConfig: false", "page: true", "apiKeys: []", "upstreams: {}", "keepAliveSeconds: 0"]
)
def test_a_key_may_say_that_nothing_is_wanted(tmp_path: Path, text: str) -> None:
    file = tmp_path / "proxy.yaml"
    file.write_text(text)
    assert load(file, environ={}) == Settings()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "the file holds no key"),
        (b"\n \n# sk-1\n", "the file holds no key"),
        (b"sk-1\nsk 2\n", "the file holds what is no key"),
        (b"sk-\xff\n", "the file is not text"),
    ],
)
def test_a_file_of_keys_that_would_leave_the_proxy_open_or_hold_keys_that_no_client_can_send(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    keys = tmp_path / "keys"
    keys.write_bytes(content)
    file = tmp_path / "proxy.yaml"
    file.write_text(f"upstream: http://h\napiKeysFile: {keys}\n")
    assert refuse(file) == [f"{file}:2: apiKeysFile: {problem}"]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    missing = tmp_path / "none.yaml"
    expected = [f"{missing}: cannot be read: No such file or directory"]
    assert refuse(missing) == expected
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read"):
        load(environ={"THINK_PROXY_CONFIG": str(missing)})


def test_a_directory(tmp_path: Path) -> None:
    assert refuse(tmp_path) == [f"{tmp_path}: cannot be read: Is a directory"]


def test_not_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "proxy.yaml"
    file.write_bytes(b"listen:\n  host: \xff\n")
    assert refuse(file) == [f"{file}:2: not UTF-8 text"]


# Secrets must not reach a terminal or a log by way of a message.
SECRET = "sk-5ec4e7"


@pytest.mark.parametrize(
    "text",
    [
        "upstream: http://user:${KEY}@h/",
        "upstream: ${KEY}",
        "upstream: http://h/?key=${KEY}",
        "listen: {port: '${KEY}'}",
        "inlineThinkTagModels: [{model: a, start: '${KEY}'}]",
        "inlineThinkTagModels: [{model: a, tags: '${KEY}'}]",
        "inlineThinkTagModels: [{model: a, tags: {open: ['${KEY}'], close: ['${KEY}']}}]",
        "inlineThinkTagModels: [{model: a, tags: {open: ['~${KEY}'], close: ['${KEY}', '${KEY}.']}}]",
        "inlineThinkTagModels: [{model: a, tags: {open: '${KEY}', close: ['']}}]",
        "inlineThinkTagModels: [{model: a, interleaved: '${KEY}'}]",
        "inlineThinkTagModels: ['${KEY}', '${KEY}']",
        "passthroughPaths: ['${KEY}']",
        "cors: {allowOrigins: ['${KEY}'], allowHeaders: ['${KEY} x']}",
        "timeouts: '${KEY}'",
        "apiKeys: ['${KEY} x']",
        f"apiKeys: [{SECRET} x]",
        "apiKeysFile: '${KEY}'",
        "upstreams: {a: {url: '${KEY}', apiKey: '${KEY} x', caFile: '${KEY}', uds: '${KEY}'}}",
        "upstreams: {a: '${KEY}'}",
        f"page: {SECRET}",
        f"upstream: {SECRET}",
        f"maxBodyBytes: {SECRET}",
    ],
)
def test_a_message_never_shows_a_value(tmp_path: Path, text: str) -> None:
    file = tmp_path / "proxy.yaml"
    file.write_text(text)
    lines = refuse(file, {"KEY": SECRET})
    assert lines
    assert SECRET not in "".join(lines)


@hypothesis_settings(
    max_examples=up_to(300), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    st.one_of(
        st.text(),
        st.text("[]{}:,-?&*!|>'\"%@`#<$ \t\n\\abUx01.~"),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inner: (
                st.lists(inner, max_size=4)
                | st.dictionaries(
                    st.sampled_from(
                        [
                            "listen",
                            "upstream",
                            "inlineThinkTagModels",
                            "model",
                            "tags",
                            "open",
                            "close",
                            "cors",
                            "log",
                            "apiKeys",
                        ]
                    ),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=12,
        ).map(repr),
    )
)
@example("%YAML 1.1 1\n---\na: 1")
@example("a: 1" + "0" * 5000)
@example("a: 1\ufeff")
def test_any_text_loads_or_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "proxy.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        load(file, environ={})
    except ConfigError as error:
        assert error.problems  # noqa: PT017
