from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from flo.worker.actions.context import ActionContext
from flo.worker.handler import bind
from flo.worker.outcome import NonRetryableError
from worker.task_server import task

if TYPE_CHECKING:
    from decimal import Decimal


class Order(msgspec.Struct):
    id: int


@dataclass
class Parcel:
    id: int


def nothing() -> str:
    return "nothing"


def bare(ctx):
    return ctx


def annotated(context: ActionContext) -> object:
    return context


def struct_input(order: Order) -> Order:
    return order


def dataclass_input(parcel: Parcel) -> Parcel:
    return parcel


def dict_input(order: dict[str, int]) -> dict[str, int]:
    return order


def raw_input(payload: bytes) -> bytes:
    return payload


def both(order: Order, ctx: ActionContext) -> object:
    return order, ctx


def both_bare(ctx, order: Order) -> object:
    return order, ctx


def positional_only(ctx: ActionContext, order: Order, /) -> object:
    return order, ctx


def keyword_only(*, ctx: ActionContext, order: Order) -> object:
    return order, ctx


def with_options(order: Order, ctx, retries: int = 3, *, verbose=False) -> object:
    return order, ctx


def passed_on(*args: Any, **kwargs: Any) -> Any:
    return bare(*args, **kwargs)


def unresolvable_result(order: Order) -> Decimal:
    return order


class Methods:
    def method(self, order: Order) -> Order:
        return order

    def __call__(self, order: Order) -> Order:
        return order


@pytest.fixture
async def context() -> ActionContext:
    return ActionContext(task(payload=b'{"id":7}'), "default", "anna", None)


@pytest.mark.parametrize(
    "handler",
    [bare, annotated, passed_on, functools.partial(lambda prefix, ctx: ctx, "prefix")],
)
async def test_handlers_that_get_the_context(handler: Callable[..., Any], context: Any) -> None:
    assert bind(handler).call(context) is context


@pytest.mark.parametrize(
    ("handler", "value"),
    [
        (nothing, "nothing"),
        (struct_input, Order(7)),
        (dataclass_input, Parcel(7)),
        (dict_input, {"id": 7}),
        (raw_input, b'{"id":7}'),
        (unresolvable_result, Order(7)),
        (Methods().method, Order(7)),
        (Methods(), Order(7)),
    ],
)
async def test_handlers_that_get_the_input(
    handler: Callable[..., Any], value: Any, context: Any
) -> None:
    assert bind(handler).call(context) == value


@pytest.mark.parametrize("handler", [both, both_bare, positional_only, keyword_only, with_options])
async def test_handlers_that_get_both(handler: Callable[..., Any], context: Any) -> None:
    assert bind(handler).call(context) == (Order(7), context)


async def test_an_empty_input_leaves_a_default_in_place() -> None:
    def handler(order: Order | str = "none") -> object:
        return order

    empty = ActionContext(task(payload=b""), "default", "anna", None)
    full = ActionContext(task(payload=b'{"id":7}'), "default", "anna", None)

    assert bind(handler).call(empty) == "none"
    assert bind(handler).call(full) == Order(7)


async def test_an_input_that_cannot_be_read_is_not_worth_another_attempt() -> None:
    wrong = ActionContext(task(payload=b'{"id":"x"}'), "default", "anna", None)

    with pytest.raises(NonRetryableError, match="Order"):
        bind(struct_input).call(wrong)


def test_whether_a_handler_is_async() -> None:
    async def coroutine(order: Order) -> None:
        pass

    class Callable:
        async def __call__(self, ctx: ActionContext) -> None:
            pass

    assert bind(coroutine).is_async
    assert bind(functools.partial(coroutine)).is_async
    assert bind(Callable()).is_async
    assert not bind(nothing).is_async


def two_inputs(order: Order, parcel: Parcel) -> None:
    pass


def two_bare(ctx, order) -> None:
    pass


def unknown_type(order: Decimal) -> None:
    pass


@pytest.mark.parametrize(
    ("handler", "complaint"),
    [
        (two_inputs, "'two_inputs': expected one parameter for the input, got 'order', 'parcel'"),
        (two_bare, "'two_bare': expected one parameter for the context, got 'ctx', 'order'"),
        (unknown_type, "'unknown_type': an annotation cannot be resolved: .*Decimal"),
    ],
)
def test_a_signature_that_cannot_be_supplied_is_refused(
    handler: Callable[..., Any], complaint: str
) -> None:
    with pytest.raises(TypeError, match=complaint):
        bind(handler)
