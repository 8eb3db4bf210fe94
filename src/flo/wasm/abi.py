"""The ABI of guests: signatures, the packed result, and the range of pointers.

    handle(ptr, len) ──▸ i64      63          32 31           0
                          ≥ 0     │   pointer   │   length    │   the output
                          < 0     a code: −1 invalid input, −2 allocation failed, …

A pointer never reaches the sign bit, because no guest has more than 2 GiB of memory; so a negative
result is always a code.
"""

from typing import NamedTuple

from flo.wasm.outcome import TrapKind

ENTRYPOINT_DEFAULT = "handle"
ENTRYPOINT_LENGTH_MAX = 256
MEMORY_EXPORT = "memory"
PAGE_LENGTH = 65_536
MEMORY_PAGES_DEFAULT = 256
MEMORY_PAGES_MAX = 16_384

ENTRYPOINT_SIGNATURE = "(i32, i32) -> i64"
REQUIRED_SIGNATURES = {"alloc": "(i32) -> i32", "dealloc": "(i32, i32) -> ()"}
OPTIONAL_SIGNATURES = {"init": "() -> i32", "describe": "() -> i64", "_initialize": "() -> ()"}

_CODES = {
    -1: (TrapKind.INVALID_INPUT, "invalid input"),
    -2: (TrapKind.ALLOCATION_FAILED, "allocation failed"),
    -3: (TrapKind.EXECUTION_ERROR, "execution error"),
}


class Fault(Exception):
    """The guest has broken the agreement, or a limit: its run ends with this."""

    def __init__(self, kind: TrapKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class Span(NamedTuple):
    """A piece of the guest's memory; not yet held against its bounds."""

    pointer: int
    length: int


def unpack(packed: int) -> Span:
    """Where the output is, if the result is no code."""
    assert packed >= 0
    return Span(packed >> 32, unsigned(packed))


def pack(span: Span) -> int:
    """What a guest returns for an output."""
    return span.pointer << 32 | span.length


def unsigned(value: int) -> int:
    """An i32 as the pointer or length it stands for."""
    return value & 0xFFFF_FFFF


def check_span(span: Span, memory_length: int, what: str) -> None:
    if span.pointer + span.length > memory_length:
        raise Fault(
            TrapKind.OUT_OF_BOUNDS,
            f"expected {what} within the {memory_length} bytes of memory, "
            f"got {span.length} bytes at {span.pointer}",
        )


def fault_of_code(code: int, function: str) -> Fault:
    """What a negative result means."""
    kind, meaning = _CODES.get(code, (TrapKind.GUEST_ERROR, "a code of the guest's own"))
    return Fault(kind, f"{function} returned {code}: {meaning}")
