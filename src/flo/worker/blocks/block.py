"""A function block: how it is declared, and what a worker knows of it.

    @block(package="network", version="1.2.0", pure=True)
    async def ping(params: PingParams, ctx: BlockContext) -> PingResult: ...

    @block(package="network", version="1.2.0")
    class SetVlan(Block[VlanParams, VlanResult]):
        async def acquire(self, params: Partial[VlanParams]) -> AcquireResult: ...
        async def run(self, params: VlanParams, ctx: BlockContext) -> VlanResult: ...
        async def rollback(self, params, ctx, result) -> None: ...

A function is a block that can only run. There is a new instance of a class for each job. What is
not `async` runs in a thread.
"""

import inspect
import logging
import re
import types
import typing
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from flo.client.arguments.choices import one_of
from flo.client.arguments.durations import ms_of
from flo.client.arguments.refusals import check_arguments
from flo.model.blocks.blocks import (
    ATTEMPTS_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    BlockDeclaration,
    BlockType,
    OnWorkerLost,
    RunOn,
)
from flo.model.blocks.names import JobType, job_action
from flo.model.errors import Invalid
from flo.model.ids import ActionName
from flo.worker.blocks.context import BlockContext
from flo.worker.blocks.helpers import call
from flo.worker.blocks.models import ValueType
from flo.worker.blocks.values import (
    AcquireResult,
    BlockFailed,
    BlockResult,
    P,
    Partial,
    R,
    RollbackResult,
)

ATTRIBUTE = "__flo_block__"
"""Where a declared class or function has its declaration."""
T = TypeVar("T", bound=Callable[..., Any])

_NO_DATA = (None, type(None), BlockResult)


class Block(Generic[P, R]):
    """What a class that is a block inherits from; `run` must be written, the rest may be."""

    def __init__(self) -> None:
        self.log = logging.getLogger("flo.blocks")

    async def acquire(self, params: Partial[P]) -> AcquireResult | Sequence[str] | None:
        """What must be locked before any step runs."""
        return None

    async def run(self, params: P, ctx: BlockContext) -> R | BlockResult[R] | None:
        raise NotImplementedError

    async def rollback(
        self, params: P, ctx: BlockContext, result: R | None
    ) -> RollbackResult | None:
        """Undo what `run` has done; `result` is what it returned, None if that is not known."""
        raise BlockFailed("Rollback not implemented", code="not_reversible")


class FunctionBlock(Block[Any, Any]):
    """A function as a block: it can only run. It is called with the parameters and, if it takes
    more than that, with the context.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function
        self._arguments = len(inspect.signature(function).parameters)

    async def run(self, params: Any, ctx: BlockContext) -> Any:
        return await call(self._function, *(params, ctx)[: self._arguments])


class DeclaredBlock(NamedTuple):
    spec: BlockDeclaration
    make: Callable[[], Block[Any, Any]]
    params: ValueType
    result: ValueType
    place: tuple[str, str]
    """The file and the name of the class or function: the same again is no other block."""

    @property
    def id(self) -> str:
        return f"{self.spec.package}/{self.spec.name}:{self.spec.version}"

    @property
    def actions(self) -> list[ActionName]:
        """Those whose runs are its jobs."""
        return [job_action(self.id, job) for job in JobType]


def block(
    *,
    package: str,
    name: str | None = None,
    version: str = "1.0.0",
    description: str | None = None,
    run_on: RunOn | str = RunOn.GLOBAL,
    type: BlockType | str = BlockType.EXECUTE,
    pure: bool = False,
    idempotent: bool = False,
    reversible: bool | None = None,
    timeout: float = TIMEOUT_MS_DEFAULT / 1_000,
    on_worker_lost: OnWorkerLost | str = OnWorkerLost.REQUEUE,
    max_attempts: int = ATTEMPTS_DEFAULT,
    deprecated: bool = False,
) -> Callable[[T], T]:
    """Make the class or function below a block, `package/name:version`.

    Without a name it is called as the class or function is. `pure` says that it changes nothing,
    `idempotent` that to do it twice is as good as once; it is `reversible` if it has a `rollback`.
    `timeout` is how many seconds a job may take, 0 for any time. What becomes of a job whose worker
    is lost is said by `on_worker_lost`: "requeue" or "fail".
    """

    def declare(declared: T) -> T:
        make = _maker_of(declared)
        params, result = _types_of(declared)
        text = inspect.getdoc(declared) or ""
        spec = BlockDeclaration(
            package=package,
            name=name or _name_of(declared.__name__),
            version=version,
            description=description if description is not None else text.partition("\n")[0],
            help=text,
            run_on=one_of(RunOn, run_on, "run_on"),
            type=one_of(BlockType, type, "type"),
            deprecated=deprecated,
            parameter_schema=params.schema,
            result_schema=result.schema,
            pure=pure,
            idempotent=idempotent,
            reversible=_undoes(declared) if reversible is None else reversible,
            timeout_ms=ms_of(timeout, "timeout", BlockDeclaration),
            on_worker_lost=one_of(OnWorkerLost, on_worker_lost, "on_worker_lost"),
            max_attempts=max_attempts,
        )
        check_arguments(spec)
        place = (inspect.getfile(inspect.unwrap(declared)), declared.__qualname__)
        found = DeclaredBlock(spec, make, params, result, place)
        setattr(declared, ATTRIBUTE, found)
        REGISTRY.add(found)
        return declared

    return declare


class BlockRegistry:
    """The blocks that were declared, by id."""

    def __init__(self) -> None:
        self._blocks: dict[str, DeclaredBlock] = {}

    def add(self, declared: DeclaredBlock) -> None:
        known = self._blocks.get(declared.id)
        if known is not None and known.place != declared.place:
            raise Invalid(
                f"block {declared.id!r} is declared twice: {_at(known)} and {_at(declared)}",
                code="duplicate_block",
            )
        self._blocks[declared.id] = declared

    def all(self) -> list[DeclaredBlock]:
        return [self._blocks[block_id] for block_id in sorted(self._blocks)]


REGISTRY = BlockRegistry()


def declaration_of(declared: Any) -> DeclaredBlock:
    """The declaration of a class or function; Invalid if it is no block."""
    if isinstance(declared, DeclaredBlock):
        return declared
    found = vars(declared).get(ATTRIBUTE) if hasattr(declared, "__dict__") else None
    if not isinstance(found, DeclaredBlock):
        raise Invalid(f"expected a class or function with @block, got {declared!r}")
    return found


def _maker_of(declared: Any) -> Callable[[], Block[Any, Any]]:
    if isinstance(declared, type):
        if not issubclass(declared, Block):
            raise Invalid(f"expected {declared.__name__} to be a class that inherits from Block")
        if declared.run is Block.run:
            raise Invalid(f"expected {declared.__name__} to have a method `run`")
        return declared
    if not inspect.isfunction(declared):
        raise Invalid(f"expected a class or a function, got {declared!r}")
    return partial(FunctionBlock, declared)


def _types_of(declared: Any) -> tuple[ValueType, ValueType]:
    """Those of the parameters and of the result: as the class says, or as `run` does."""
    is_class = isinstance(declared, type)
    arguments = _arguments_of(declared) if is_class else None
    if arguments is None:
        function = inspect.unwrap(declared.run if is_class else declared)
        names = list(inspect.signature(function).parameters)[1 if is_class else 0 :]
        hints = typing.get_type_hints(function, include_extras=True)
        arguments = hints.get(names[0], Any) if names else Any, hints.get("return", Any)
    params, result = arguments
    result = next((one for one in _options(result) if one not in _NO_DATA), None)
    return ValueType(params, "parameters"), ValueType(result, "result")


def _arguments_of(kind: type) -> tuple[Any, Any] | None:
    for base in kind.__mro__:
        for origin in getattr(base, "__orig_bases__", ()):
            arguments = typing.get_args(origin)
            if typing.get_origin(origin) is Block and not any(
                isinstance(one, TypeVar) for one in arguments
            ):
                return arguments[0], arguments[1]
    return None


def _options(hint: Any) -> tuple[Any, ...]:
    """`MyResult` of MyResult | BlockResult[MyResult] | None."""
    members = typing.get_args(hint) if _is_union(hint) else (hint,)
    return tuple(
        (typing.get_args(one) or (None,))[0] if typing.get_origin(one) is BlockResult else one
        for one in members
    )


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def _undoes(declared: Any) -> bool:
    return isinstance(declared, type) and declared.rollback is not Block.rollback  # type: ignore[attr-defined]


def _name_of(name: str) -> str:
    """SetVlan → set_vlan."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _at(declared: DeclaredBlock) -> str:
    return f"{declared.place[1]} in {declared.place[0]}"
