"""What a worker says of a handler: its effect, the digest of its code, the schemas of its types."""

import functools
import hashlib
import inspect
import typing
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import msgspec
from msgspec.structs import replace

from flo.client.payloads.schema import schema_of
from flo.model.errors import Invalid
from flo.model.ids import ActionName
from flo.model.workers import HANDLERS_LENGTH_MAX, Effect, HandlerInfo
from flo.worker.context import BaseContext
from flo.worker.outcome import ActionResult

WITHOUT_SCHEMA = (inspect.Parameter.empty, Any, ActionResult)


def info_of(name: ActionName, handler: Callable[..., Any], effect: Effect) -> HandlerInfo:
    function = inspect.unwrap(_function_of(handler))
    input_type, output_type = _types_of(function)
    return HandlerInfo(
        action=name,
        effect=effect,
        code_digest=_digest_of(function),
        input_schema=_schema_of(input_type),
        output_schema=_schema_of(output_type),
    )


def within_length(infos: list[HandlerInfo]) -> list[HandlerInfo]:
    """As they are, or without their schemas if those are too long to be sent."""
    if len(msgspec.json.encode(infos)) <= HANDLERS_LENGTH_MAX:
        return infos
    return [replace(info, input_schema=None, output_schema=None) for info in infos]


def _function_of(handler: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(handler, functools.partial):
        handler = handler.func
    return handler if inspect.isroutine(handler) else type(handler).__call__


def _digest_of(function: Callable[..., Any]) -> str | None:
    """SHA-256 of the source; of the bytecode where there is none."""
    digest = hashlib.sha256()
    try:
        digest.update(inspect.getsource(function).encode())
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        if code is None:
            return None
        for part in _parts_of(code):
            digest.update(part)
    return digest.hexdigest()


def _parts_of(code: CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield repr((code.co_names, code.co_varnames)).encode()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _parts_of(constant)
        else:
            yield repr(constant).encode()


def _types_of(function: Callable[..., Any]) -> tuple[Any, Any]:
    """That of the input, and that of the result, where they are annotated."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError):
        return inspect.Parameter.empty, inspect.Parameter.empty
    output_type = hints.pop("return", inspect.Parameter.empty)
    inputs = (hint for hint in hints.values() if not _is_context(hint))
    return next(inputs, inspect.Parameter.empty), output_type


def _is_context(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, BaseContext)


def _schema_of(type: Any) -> dict[str, Any] | None:
    if type in WITHOUT_SCHEMA:
        return None
    try:
        return schema_of(type, "annotation")
    except (Invalid, RecursionError, ValueError):
        return None
