"""What the phases of a block are given and may return.

acquire   gets   Partial[MyParams]            returns   AcquireResult, a list of keys, or nothing
run       gets   MyParams, BlockContext       returns   MyResult, BlockResult, or nothing
rollback  gets   the same and MyResult|None   returns   RollbackResult or nothing

A plain return is a success; `raise BlockFailed(…)` is a failure that says what it is.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from flo.model.blocks.jobs import LockWanted
from flo.model.blocks.names import LockMode

P = TypeVar("P")
R = TypeVar("R")


class Params(msgspec.Struct, kw_only=True):
    """The parameters of a block; dataclasses and pydantic models serve as well."""


class Result(msgspec.Struct, kw_only=True):
    """The data of a block's result; dataclasses and pydantic models serve as well."""


class BlockFailed(Exception):
    """Raised by a phase: it has failed. `data` is kept with the failure, `code` names its kind."""

    def __init__(self, message: str, *, data: Any = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.data = data
        self.code = code


class Partial(Generic[P]):
    """The parameters as far as they are known before any step has run.

    A field that depends on other steps is its default, or None, and named in `unresolved`; `raw` is
    what has come.
    """

    __slots__ = ("_values", "raw", "unresolved")

    def __init__(
        self, values: Mapping[str, Any], unresolved: frozenset[str], raw: Mapping[str, Any]
    ) -> None:
        self._values = values
        self.unresolved = unresolved
        self.raw = raw

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"there is no parameter {name!r}") from None

    def __repr__(self) -> str:
        return f"Partial({dict(self._values)!r}, unresolved={sorted(self.unresolved)})"


class AcquireResult:
    """What a step needs: `locks` are keys such as "device:7", in `mode` "exclusive" or "shared"
    unless they say otherwise; `acquires` are queries for entities, as neops has them.
    """

    def __init__(
        self,
        locks: Sequence[str | LockWanted] = (),
        *,
        mode: LockMode | str = LockMode.EXCLUSIVE,
        acquires: Sequence[Mapping[str, Any]] = (),
        message: str = "",
    ) -> None:
        mode = LockMode(mode)
        self.locks = [
            LockWanted(key=lock, mode=mode) if isinstance(lock, str) else lock for lock in locks
        ]
        self.acquires = [dict(one) for one in acquires]
        self.message = message


class BlockResult(Generic[R]):
    """A result with a message, or one that says that the block has failed."""

    def __init__(self, data: R | None = None, *, message: str = "", success: bool = True) -> None:
        self.data = data
        self.message = message
        self.success = success


class RollbackResult:
    def __init__(self, message: str = "", *, success: bool = True) -> None:
        self.message = message
        self.success = success
