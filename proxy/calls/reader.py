"""Read one block of tool calls, from behind its opener to its end.

House rules: text in pieces, cut anywhere; no input makes it raise; nothing but a name, of bounded length, is
looked at twice. What is not exactly of the dialect's form fails at the first character that shows it: a
call that is half understood must not be executed.

Theory of operation. `BlockReader.read` consumes text from an index on and says how far it came; what
remains is the beginning of a marker or of a name.

    state       what is read                           ends with
    OPENED      white space behind the opener          a character that settles the dialect
    BETWEEN     white space                            a call -> NAME, the closer -> DONE
    NAME        a name                                 what ends it -> BODY, JSON or FENCE
    FENCE       white space                            JSON, or a second name that is the real one
    BODY        white space                            a key -> KEY, the end of the call
    KEY         a name                                 -> VALUE, or KEYED where a marker begins the value
    KEYED       white space                            that marker -> VALUE
    VALUE       text                                   its end -> BODY; another key is a failure
    JSON        one object or list                     its end -> JSON_END
    JSON_END    white space                            the end of the call, or the closer -> DONE
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from proxy.calls import jsontext
from proxy.calls.call import Call, CallBlock, Parameter, may_be_name, read_calls, read_key, read_name
from proxy.calls.cursor import Cursor
from proxy.calls.dialects import OPENERS, Body

if TYPE_CHECKING:
    from collections.abc import Callable

NAME_LIMIT = 256
"""Characters of a name with its layout. OpenAI's interface allows a function's name 64."""


class _State(Enum):
    OPENED = auto()
    BETWEEN = auto()
    NAME = auto()
    FENCE = auto()
    BODY = auto()
    KEY = auto()
    KEYED = auto()
    VALUE = auto()
    JSON = auto()
    JSON_END = auto()
    DONE = auto()
    FAILED = auto()


class BlockReader:
    """The reader of one block."""

    def __init__(self, opener: str) -> None:
        """Begin behind an opener, one of `OPENERS`."""
        self._opener = opener
        self._rows = OPENERS[opener]
        self._row = self._rows[0]
        self._bare = opener == self._row.call
        self._state = _State.NAME if self._bare else _State.OPENED
        self._cursor = Cursor(opener)
        self._calls: list[Call] = []
        self._name = self._id = ""  # of the call being read
        self._fenced = False  # its JSON stands in a fence
        self._parameters: list[Parameter] = []
        self._key: tuple[str, bool | None] = "", None
        self._pieces: list[str] = []  # of a value, or of JSON
        self._json = jsontext.JsonEnd()

    @property
    def done(self) -> bool:
        """The block is complete."""
        return self._state is _State.DONE

    @property
    def failed(self) -> bool:
        """It was no block of calls, or a malformed one."""
        return self._state is _State.FAILED

    @property
    def size(self) -> int:
        """Code points consumed, the opener included."""
        return self._cursor.size

    @property
    def raw(self) -> str:
        """All text consumed, from the opener on."""
        return self._cursor.raw

    @property
    def block(self) -> CallBlock:
        """The block, once it is complete."""
        return CallBlock(self.raw, self._opener, tuple(self._calls))

    def read(self, text: str, at: int) -> int:
        """Read on from this index; return the index up to which text was consumed."""
        cursor = self._cursor
        cursor.text, cursor.at = text, at
        while self._state in _READERS and _READERS[self._state](self):
            pass
        cursor.text = ""
        return cursor.at

    # One reader for each state: True when reading goes on, False when more text has to come first.

    def _read_opened(self) -> bool:
        if not self._cursor.skip_space():
            return False
        for row in self._rows:
            if not row.begins or self._cursor.char in row.begins:
                self._row = row
                if row.body is Body.CALLS:
                    return self._enter(_State.JSON)
                return self._enter(_State.BETWEEN if row.call else _State.NAME)
        return self._fail()

    def _read_between(self) -> bool:
        found = self._expect(self._row.call, *(self._row.closers if self._calls else ()))
        if not found:
            return False
        return self._enter(_State.NAME if found == self._row.call else _State.DONE)

    def _read_name(self) -> bool:
        row = self._row
        ends = (f"{row.fence}json",) if self._fenced else row.name_ends or (row.key, *row.closers)
        header, found = self._cursor.look_before(ends, NAME_LIMIT)
        if len(header) > NAME_LIMIT or not may_be_name(header):
            return self._fail()
        if not found:
            return False
        # The brace that ends a name belongs to the arguments.
        self._cursor.take(self._cursor.at + len(header) + (0 if found == "{" else len(found)))
        header = header.strip()
        alone = row.attributes and header.endswith("/")
        self._name, self._id = read_name(header.removesuffix("/") if alone else header, row)
        if not self._name:
            return self._fail()
        if alone:
            return self._end_call()
        if row.body is Body.OBJECT:
            return self._enter(_State.FENCE if row.fence and not self._fenced else _State.JSON)
        return self._go_to(found)

    def _read_fence(self) -> bool:
        if not self._cursor.skip_space():
            return False
        self._fenced = self._name == "function" and self._cursor.char != "{"
        return self._enter(_State.NAME if self._fenced else _State.JSON)

    def _read_body(self) -> bool:
        row = self._row
        if row.attributes and not self._parameters:
            if not self._cursor.skip_space():
                return False
            if self._cursor.char == "{":
                return self._enter(_State.JSON)
        ends = (row.call_end,) if row.call_end else row.closers
        found = self._expect(row.key, *ends)
        return self._go_to(found) if found else False

    def _go_to(self, found: str) -> bool:
        """Go on behind a marker that ends a name, or stands where a key can begin."""
        if found == self._row.key:
            return self._enter(_State.KEY)
        if found in (self._row.call_end, *self._row.closers):
            return self._end_call()
        return self._enter(_State.BODY)

    def _read_key(self) -> bool:
        header, found = self._cursor.look_before((self._row.key_end,), NAME_LIMIT)
        if len(header) > NAME_LIMIT or "<" in header:
            return self._fail()
        if not found:
            return False
        self._cursor.take(self._cursor.at + len(header) + len(found))
        self._key = read_key(header, self._row)
        if not self._key[0]:
            return self._fail()
        return self._enter(_State.KEYED if self._row.value else _State.VALUE)

    def _read_keyed(self) -> bool:
        return bool(self._expect(self._row.value)) and self._enter(_State.VALUE)

    def _read_value(self) -> bool:
        row = self._row
        piece, found = self._cursor.take_before((row.value_end, row.key))
        self._pieces.append(piece)
        if not found:
            return False
        if found == row.key:
            return self._fail()
        text = "".join(self._pieces)
        if row.trims:
            text = text.removeprefix("\n").removesuffix("\n")
        self._parameters.append(Parameter(self._key[0], text, self._key[1]))
        self._pieces = []
        return self._enter(_State.BODY)

    def _read_json(self) -> bool:
        cursor = self._cursor
        if not self._pieces:
            if not cursor.skip_space():
                return False
            if cursor.char not in ("{[" if self._row.body is Body.CALLS else "{"):
                return self._fail()
        end = self._json.feed(cursor.text, cursor.at)
        self._pieces.append(cursor.take(len(cursor.text) if end is None else end))
        return end is not None and self._end_json()

    def _end_json(self) -> bool:
        try:
            value = None if self._json.failed else jsontext.read("".join(self._pieces))
        except ValueError:
            value = None
        self._pieces, self._json = [], jsontext.JsonEnd()
        if self._row.body is Body.CALLS:
            calls = read_calls(value)
        else:
            calls = [Call(self._name, value, self._id)] if isinstance(value, dict) else []
        if not calls:
            return self._fail()
        self._calls += calls
        return self._enter(_State.JSON_END if self._row.closers else _State.DONE)

    def _read_json_end(self) -> bool:
        row = self._row
        if self._fenced:
            self._fenced = not self._expect(row.fence)
            return not self._fenced
        if row.call:
            return bool(self._expect(row.call_end)) and self._leave_call()
        return bool(self._expect(*row.closers)) and self._enter(_State.DONE)

    # Common to them

    def _enter(self, state: _State) -> bool:
        self._state = state
        return True

    def _fail(self) -> bool:
        self._state = _State.FAILED
        return False

    def _end_call(self) -> bool:
        self._calls.append(Call(self._name, tuple(self._parameters), self._id))
        self._parameters = []
        return self._leave_call()

    def _leave_call(self) -> bool:
        return self._enter(_State.BETWEEN if self._row.call and not self._bare else _State.DONE)

    def _expect(self, *literals: str) -> str:
        """Consume one of these; "" while it is not there, and when it can't be, which is a failure."""
        found = self._cursor.expect(literals)
        if found is None:
            self._fail()
        return found or ""


_READERS: dict[_State, Callable[[BlockReader], bool]] = {
    _State.OPENED: BlockReader._read_opened,  # noqa: SLF001 - the table belongs to the class
    _State.BETWEEN: BlockReader._read_between,  # noqa: SLF001
    _State.NAME: BlockReader._read_name,  # noqa: SLF001
    _State.FENCE: BlockReader._read_fence,  # noqa: SLF001
    _State.BODY: BlockReader._read_body,  # noqa: SLF001
    _State.KEY: BlockReader._read_key,  # noqa: SLF001
    _State.KEYED: BlockReader._read_keyed,  # noqa: SLF001
    _State.VALUE: BlockReader._read_value,  # noqa: SLF001
    _State.JSON: BlockReader._read_json,  # noqa: SLF001
    _State.JSON_END: BlockReader._read_json_end,  # noqa: SLF001
}
