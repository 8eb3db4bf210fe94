"""How a handler is called: which of its parameters gets what.

    def handler(ctx)                          the context
    def handler(ctx: ActionContext)           the context
    def handler(order: Order)                 the input, decoded to Order
    def handler(ctx, order: Order)            both, in any order
    def handler()                             nothing

An input parameter with a default keeps it when the input is empty. For the handler of a stream, the
context is a StreamContext, and the input is the payload of its record.
"""

import functools
import inspect
import typing
from collections.abc import Callable, Iterable
from inspect import Parameter
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

from flo.worker.actions.context import ActionContext
from flo.worker.context import BaseContext

Handler: TypeAlias = Callable[..., Any]
Supply: TypeAlias = Callable[[Any], Any]
"""Context to what a parameter gets."""


class BoundHandler(NamedTuple):
    """A handler to be called with a context and nothing else."""

    call: Supply
    is_async: bool


def bind(handler: Handler, context: type[BaseContext] = ActionContext) -> BoundHandler:
    """Read the signature, once; a TypeError says what cannot be supplied."""
    name = getattr(handler, "__name__", repr(handler))
    function = _function_of(handler)
    parameters = list(inspect.signature(handler).parameters.values())
    supplies = _supplies(name, _resolved(name, function, parameters), context)
    call = _caller(handler, parameters, supplies)
    return BoundHandler(call, inspect.iscoroutinefunction(function))


def _function_of(handler: Handler) -> Handler:
    while isinstance(handler, functools.partial):
        handler = handler.func
    if inspect.isroutine(handler):
        return handler
    return type(handler).__call__


def _resolved(name: str, function: Handler, parameters: Iterable[Parameter]) -> list[Parameter]:
    """The parameters that can be supplied, with annotations that are types and not text."""
    named = [
        parameter
        for parameter in parameters
        if parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    ]
    annotations = {
        parameter.name: parameter.annotation
        for parameter in named
        if parameter.annotation is not Parameter.empty
    }
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        hints = typing.get_type_hints(
            SimpleNamespace(__annotations__=annotations), scope, include_extras=True
        )
    except NameError as error:
        raise TypeError(f"handler {name!r}: an annotation cannot be resolved: {error}") from error
    return [
        parameter.replace(annotation=hints.get(parameter.name, Parameter.empty))
        for parameter in named
    ]


def _supplies(
    name: str, parameters: list[Parameter], context: type[BaseContext]
) -> dict[str, Supply]:
    """Parameter to what it gets."""
    contexts, inputs = [], []
    for parameter in parameters:
        is_required = parameter.default is Parameter.empty
        if parameter.annotation is context:
            contexts.append(parameter)
        elif parameter.annotation is not Parameter.empty:
            inputs.append(parameter)
        elif is_required:
            contexts.append(parameter)
    inputs.sort(key=lambda parameter: parameter.default is not Parameter.empty)
    _check_one(name, "the context", contexts)
    _check_one(name, "the input", [one for one in inputs if one.default is Parameter.empty])
    supplies: dict[str, Supply] = {parameter.name: _give_context for parameter in contexts}
    for parameter in inputs[:1]:
        supplies[parameter.name] = functools.partial(
            _give_input, parameter.annotation, parameter.default
        )
    return supplies


def _check_one(name: str, what: str, parameters: list[Parameter]) -> None:
    if len(parameters) > 1:
        names = ", ".join(repr(parameter.name) for parameter in parameters)
        raise TypeError(f"handler {name!r}: expected one parameter for {what}, got {names}")


def _caller(handler: Handler, parameters: list[Parameter], supplies: dict[str, Supply]) -> Supply:
    if _takes_the_context_alone(parameters, supplies):
        return handler
    positional = [
        supplies[parameter.name]
        for parameter in parameters
        if parameter.kind is Parameter.POSITIONAL_ONLY and parameter.name in supplies
    ]
    named = {
        parameter.name: supplies[parameter.name]
        for parameter in parameters
        if parameter.kind is not Parameter.POSITIONAL_ONLY and parameter.name in supplies
    }

    def call(context: BaseContext) -> Any:
        return handler(
            *(supply(context) for supply in positional),
            **{name: supply(context) for name, supply in named.items()},
        )

    return call


def _takes_the_context_alone(parameters: list[Parameter], supplies: dict[str, Supply]) -> bool:
    """Whether the handler can be called as it is: handler(context)."""
    if not supplies:  # a wrapper that passes on whatever it gets
        return any(parameter.kind is Parameter.VAR_POSITIONAL for parameter in parameters)
    first = parameters[0]
    return (
        list(supplies) == [first.name]
        and supplies[first.name] is _give_context
        and first.kind is not Parameter.KEYWORD_ONLY
    )


def _give_context(context: BaseContext) -> BaseContext:
    return context


def _give_input(type: Any, default: Any, context: BaseContext) -> Any:
    if not context.payload and default is not Parameter.empty:
        return default
    return context.into(type)
