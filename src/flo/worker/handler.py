"""How a handler is called: which of its parameters gets what.

    def handler(ctx)                          the context
    def handler(ctx: ActionContext)           the context
    def handler(order: Order)                 the input, decoded to Order
    def handler(ctx, order: Order)            both, in any order
    def handler()                             nothing
"""

import functools
import inspect
import typing
from collections.abc import Callable
from inspect import Parameter
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

from flo.worker.context import ActionContext

Handler: TypeAlias = Callable[..., Any]
Supply: TypeAlias = Callable[[ActionContext], Any]


class BoundHandler(NamedTuple):
    """A handler that is called with a context and nothing else."""

    call: Callable[[ActionContext], Any]
    is_async: bool


def bind(handler: Handler) -> BoundHandler:
    """Look at the signature once; a TypeError says what is wrong with it."""
    function = _function_of(handler)
    is_async = inspect.iscoroutinefunction(function)
    supplies = _supplies(handler, function)
    match supplies:
        case {}:
            return BoundHandler(handler, is_async)
    return BoundHandler(handler, is_async)
