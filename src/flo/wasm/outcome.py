"""How a guest's run ends: with an output and its effects, or with the reason why there are none.

Finished   the output, what was written (to be committed with the output: both or neither), and
           what was read (to be checked in the same commit: it must still hold)
Trapped    the kind, a message for people, and whether another attempt may end otherwise; whatever
           the guest had written is gone
"""

from enum import StrEnum
from typing import TypeAlias

import msgspec

from flo.model.base import Message


class TrapKind(StrEnum):
    """Why a run has no output. The values never change once released."""

    INVALID_INPUT = "invalid_input"
    ALLOCATION_FAILED = "allocation_failed"
    EXECUTION_ERROR = "execution_error"
    GUEST_ERROR = "guest_error"
    INIT_FAILED = "init_failed"
    UNREACHABLE = "unreachable"
    TRAP = "trap"
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"
    HOST_FAILED = "host_failed"
    OUT_OF_FUEL = "out_of_fuel"
    STACK_OVERFLOW = "stack_overflow"
    OUT_OF_BOUNDS = "out_of_bounds"
    OUTPUT_TOO_LARGE = "output_too_large"
    LIMIT_EXCEEDED = "limit_exceeded"
    EXITED = "exited"


RETRIED = frozenset(
    {
        TrapKind.EXECUTION_ERROR,
        TrapKind.GUEST_ERROR,
        TrapKind.INIT_FAILED,
        TrapKind.UNREACHABLE,
        TrapKind.TRAP,
        TrapKind.TIMED_OUT,
        TrapKind.INTERRUPTED,
        TrapKind.HOST_FAILED,
    }
)
"""What a fresh instance would only repeat is not retried: a bound stays a bound. A panic is retried
like an exception in a worker, for it may depend on time, randomness or stored values."""


class GuestPut(Message):
    key: str
    value: bytes


class GuestDelete(Message):
    key: str


Effect: TypeAlias = GuestPut | GuestDelete


class LogLine(Message):
    """`level` is 0 debug, 1 info, 2 warn, 3 error."""

    level: int
    message: str


class Finished(Message):
    output: bytes
    effects: tuple[Effect, ...] = ()
    """One for each key, in the order of the last change to each."""
    reads: dict[str, int] = msgspec.field(default_factory=dict)
    """The version of every key that was read from outside; 0 where there was none."""
    logs: tuple[LogLine, ...] = ()
    logs_dropped: int = 0
    fuel_used: int = 0


class Trapped(Message):
    kind: TrapKind
    message: str
    retry: bool
    logs: tuple[LogLine, ...] = ()
    logs_dropped: int = 0


Outcome: TypeAlias = Finished | Trapped
