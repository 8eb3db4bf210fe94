import gc
import importlib
import pkgutil

import msgspec
import pytest

from flo import engine, model
from flo.engine.machine import EVENTS
from flo.engine.runs.events import RunTouched
from flo.engine.runs.records import Attempt, Run
from flo.model.base import Event, Message, Observation, Record
from flo.model.runs import Invoke

MODULES = [
    importlib.import_module(module.name)
    for package in (model, engine)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]


def structs_of(base):
    return [
        struct
        for module in MODULES
        for struct in vars(module).values()
        if isinstance(struct, type) and issubclass(struct, base) and struct is not base
    ]


@pytest.mark.parametrize("struct", [*structs_of(Message), *structs_of(Event), *structs_of(Record)])
def test_nothing_that_was_said_can_be_changed(struct):
    assert struct.__struct_config__.frozen


def test_a_word_with_a_field_nobody_knows_is_refused():
    with pytest.raises(msgspec.ValidationError, match="unknown field `prioritty`"):
        msgspec.convert({"action": "send", "prioritty": 5}, Invoke)


def test_every_fact_can_be_read_back_from_the_log():
    assert set(EVENTS) == set(structs_of(Event))


def test_a_fact_of_a_later_release_with_one_field_more_can_still_be_read():
    body = msgspec.msgpack.encode(["RunTouched", "default", "send-1", 5, 4, "what came later"])

    touched = msgspec.msgpack.decode(body, type=RunTouched)

    assert touched == RunTouched(
        namespace="default", run_id="send-1", lease_expires_at_ms=5, at_ms=4
    )


def test_a_record_of_an_earlier_release_with_one_field_less_can_still_be_read():
    attempt = Attempt(number=1, worker_id="anna", started_at_ms=1, ended_at_ms=2, error="")
    fields = list(Run.__struct_fields__)
    run = Run(
        run_id="send-1",
        action="send",
        number=1,
        input=b"",
        priority=10,
        created_at_ms=0,
        ready_at_ms=0,
        attempts=(attempt,),
    )
    values = msgspec.msgpack.decode(msgspec.msgpack.encode(run))

    shorter = msgspec.msgpack.encode(values[: fields.index("output")])

    assert msgspec.msgpack.decode(shorter, type=Run) == run


@pytest.mark.parametrize("struct", [*structs_of(Event), *structs_of(Record)])
def test_what_is_kept_by_the_million_stays_out_of_the_garbage_collectors_sight(struct):
    assert not struct.__struct_config__.gc


def test_a_run_is_not_tracked_by_the_garbage_collector():
    run = Run(
        run_id="a-1", action="a", number=1, input=b"", priority=1, created_at_ms=0, ready_at_ms=0
    )

    assert not gc.is_tracked(run)


def test_a_sign_is_never_encoded():
    assert not {struct for struct in EVENTS if issubclass(struct, Observation)}


@pytest.mark.parametrize("base", [Message, Event, Record, Observation])
def test_structs_are_made_by_nobody_but_msgspec(base):
    """Python calls the makers of its own classes in a way that is twice as slow."""
    assert type(base) is msgspec.StructMeta
