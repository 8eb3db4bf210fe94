"""The host functions that a guest may call during one run.

log(level, message)
kv_get(key, buffer) -> i32     the length of the value; it is in the buffer if it fits, and nothing
                               is written if it does not: ask again with a buffer of that length
                               −1 no such key   −2 no valid key
kv_set(key, value) -> i32      0 written        −2 no valid key   −3 the value is too large
kv_delete(key) -> i32          0 deleted, whether or not the key was there    −2 no valid key

Every text and every buffer is a pointer and a length. A key is UTF-8 of 1 to 4,096 bytes.

Reads see the run's own writes first, then the world outside. A key is read there only once, so a
run sees one value of it; the version is kept, for the commit to check. Writes stay here until the
run has ended well. A pointer out of range, or one write, read, byte or call too many, ends the run.
"""

from typing import Protocol

from flo.model.base import Message
from flo.model.ids import KEY_LENGTH_MAX
from flo.model.kv import OPERATIONS_PER_TRANSACTION_MAX, TRANSACTION_LENGTH_MAX, VALUE_LENGTH_MAX
from flo.model.runs import CHECKS_PER_RESULT_MAX
from flo.wasm.abi import Fault, Span, check_span
from flo.wasm.outcome import Effect, GuestDelete, GuestPut, LogLine, TrapKind

WRITES_MAX = OPERATIONS_PER_TRANSACTION_MAX
WRITES_LENGTH_MAX = TRANSACTION_LENGTH_MAX
READS_MAX = CHECKS_PER_RESULT_MAX
READS_LENGTH_MAX = 16 * 1024 * 1024
LOGS_MAX = 100
LOG_LENGTH_MAX = 1_024

OK = 0
NOT_FOUND = -1
INVALID_KEY = -2
VALUE_TOO_LARGE = -3

SIGNATURES = {
    "log": "(i32, i32, i32) -> ()",
    "kv_get": "(i32, i32, i32, i32) -> i32",
    "kv_set": "(i32, i32, i32, i32) -> i32",
    "kv_delete": "(i32, i32) -> i32",
}


class Stored(Message):
    """A value as it is kept outside; versions begin at 1."""

    value: bytes
    version: int


class Reader(Protocol):
    """What a guest may read from outside: the keys of its namespace."""

    def read(self, key: str) -> Stored | None:
        """What is stored under a key now.

        Called in the guest's thread. It may block, but only briefly: no deadline reaches it, and an
        engine that stops waits for it.
        """
        ...


class Memory(Protocol):
    """The guest's memory, as it is during one call."""

    def length(self) -> int: ...

    def read(self, span: Span) -> bytes:
        """A copy of what is there; the span must be in range."""
        ...

    def write(self, pointer: int, data: bytes) -> None:
        """Put data there; it must fit."""
        ...


class Host:
    """What one run has read, written and logged so far."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._read: dict[str, Stored | None] = {}
        self._read_length = 0
        self._written: dict[str, bytes | None] = {}
        self._written_length = 0
        self.logs: list[LogLine] = []
        self.logs_dropped = 0

    @property
    def effects(self) -> tuple[Effect, ...]:
        return tuple(
            GuestDelete(key=key) if value is None else GuestPut(key=key, value=value)
            for key, value in self._written.items()
        )

    @property
    def reads(self) -> dict[str, int]:
        return {key: stored.version if stored else 0 for key, stored in self._read.items()}

    def log(self, memory: Memory, level: int, message: Span) -> None:
        check_span(message, memory.length(), "a message")
        if len(self.logs) == LOGS_MAX:
            self.logs_dropped += 1
            return
        data = memory.read(Span(message.pointer, min(message.length, LOG_LENGTH_MAX)))
        self.logs.append(
            LogLine(level=min(max(level, 0), 3), message=data.decode(errors="replace"))
        )

    def kv_get(self, memory: Memory, key: Span, buffer: Span) -> int:
        check_span(buffer, memory.length(), "a buffer")
        name = _key(memory, key)
        if name is None:
            return INVALID_KEY
        value = self._value(name)
        if value is None:
            return NOT_FOUND
        if len(value) <= buffer.length:
            memory.write(buffer.pointer, value)
        return len(value)

    def kv_set(self, memory: Memory, key: Span, value: Span) -> int:
        check_span(value, memory.length(), "a value")
        name = _key(memory, key)
        if name is None:
            return INVALID_KEY
        if value.length > VALUE_LENGTH_MAX:
            return VALUE_TOO_LARGE
        self._write(name, memory.read(value))
        return OK

    def kv_delete(self, memory: Memory, key: Span) -> int:
        name = _key(memory, key)
        if name is None:
            return INVALID_KEY
        self._write(name, None)
        return OK

    def _value(self, key: str) -> bytes | None:
        if key in self._written:
            return self._written[key]
        if key not in self._read:
            self._read_outside(key)
        stored = self._read[key]
        return stored.value if stored else None

    def _read_outside(self, key: str) -> None:
        if len(self._read) == READS_MAX:
            raise Fault(TrapKind.LIMIT_EXCEEDED, f"expected at most {READS_MAX} keys read in a run")
        stored = self._reader.read(key)
        self._read_length += len(stored.value) if stored else 0
        if self._read_length > READS_LENGTH_MAX:
            raise Fault(
                TrapKind.LIMIT_EXCEEDED, f"expected at most {READS_LENGTH_MAX} bytes read in a run"
            )
        self._read[key] = stored

    def _write(self, key: str, value: bytes | None) -> None:
        """Keep the last change to each key: all of them take effect at once, or none."""
        if key in self._written:
            self._written_length -= _length(key, self._written.pop(key))
        self._written[key] = value
        self._written_length += _length(key, value)
        if len(self._written) > WRITES_MAX:
            raise Fault(
                TrapKind.LIMIT_EXCEEDED, f"expected at most {WRITES_MAX} keys written in a run"
            )
        if self._written_length > WRITES_LENGTH_MAX:
            raise Fault(
                TrapKind.LIMIT_EXCEEDED,
                f"expected at most {WRITES_LENGTH_MAX} bytes written in a run",
            )


def _key(memory: Memory, span: Span) -> str | None:
    """The key, or None if it cannot be one."""
    check_span(span, memory.length(), "a key")
    if not 1 <= span.length <= KEY_LENGTH_MAX:
        return None
    try:
        return memory.read(span).decode()
    except UnicodeDecodeError:
        return None


def _length(key: str, value: bytes | None) -> int:
    return len(key.encode()) + len(value or b"")
