import functools
from dataclasses import dataclass
from typing import Any

import pytest

from flo.model.errors import Invalid
from flo.model.workers import HANDLERS_LENGTH_MAX, Effect, HandlerInfo
from flo.worker.actions.context import ActionContext
from flo.worker.actions.worker import ActionWorker
from flo.worker.described import info_of, within_length
from flo.worker.outcome import ActionResult
from flo.worker.streams.context import StreamContext


@dataclass
class Order:
    item: str


async def bake(ctx: ActionContext, order: Order) -> dict[str, int]:
    return {order.item: 1}


def described(handler: Any) -> HandlerInfo:
    return info_of("bake", handler, Effect.NONE)


def test_the_schemas_are_those_of_the_annotations() -> None:
    info = described(bake)
    assert (info.action, info.effect) == ("bake", Effect.NONE)
    assert info.input_schema is not None
    assert info.input_schema["$defs"]["Order"]["required"] == ["item"]
    assert info.output_schema == {"type": "object", "additionalProperties": {"type": "integer"}}


def test_the_input_of_a_stream_handler_is_its_record() -> None:
    async def charge(ctx: StreamContext, order: Order) -> None: ...

    schema = described(charge).input_schema

    assert schema is not None
    assert schema["$defs"]["Order"]["required"] == ["item"]


def test_what_is_not_annotated_or_has_no_schema_is_left_out() -> None:
    def bare(ctx, order=None):  # type: ignore[no-untyped-def]
        pass

    def odd(order: ActionContext, lock: Any) -> ActionResult:
        raise NotImplementedError

    for handler in (bare, odd):
        info = described(handler)
        assert (info.input_schema, info.output_schema) == (None, None)


def test_the_digest_is_that_of_the_code_and_changes_with_it() -> None:
    def one() -> int:
        return 1

    def other() -> int:
        return 2

    assert described(one).code_digest == described(functools.partial(one)).code_digest
    assert described(one).code_digest != described(other).code_digest


def test_code_without_a_source_has_a_digest_of_its_bytecode() -> None:
    made: dict[str, Any] = {}
    exec("def one(): return 1\ndef same(): return 1\ndef other(): return 2", made)
    one, same, other = (described(made[name]).code_digest for name in ("one", "same", "other"))
    assert one == same != other


def test_a_builtin_has_no_digest() -> None:
    assert described(print).code_digest is None


def test_schemas_that_are_too_long_are_left_out() -> None:
    long = HandlerInfo(action="bake", input_schema={"title": "x" * HANDLERS_LENGTH_MAX})
    short = HandlerInfo(action="eat", code_digest="d", input_schema={"title": "x"})
    assert within_length([short]) == [short]
    assert [one.input_schema for one in within_length([short, long])] == [None, None]
    assert within_length([short, long])[0].code_digest == "d"


def test_an_effect_that_there_is_not_is_refused() -> None:
    with pytest.raises(Invalid, match="'none', 'idempotent', 'keyed', 'unsafe'"):
        ActionWorker().register_action("bake", bake, effect="harmless")
