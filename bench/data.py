"""A data folder with many pending runs in it, made by the rules themselves."""

import time
from pathlib import Path

from bench.system import ACTION, INPUT
from flo.engine.codec import EVENT_CODEC
from flo.engine.context import Context
from flo.engine.machine import execute
from flo.engine.state import State
from flo.engine.volatile import VolatileState
from flo.log.sqlite.log import SqliteLog
from flo.model.actions import RegisterAction
from flo.model.base import Event
from flo.model.runs import Invoke
from flo.shard.snapshotter import LOG_FILE

RUNS_PER_APPEND = 1_000


async def make_pending(folder: Path, count: int) -> None:
    log = SqliteLog(folder / LOG_FILE, EVENT_CODEC)
    state = State()
    now_ms = time.time_ns() // 1_000_000
    context = Context(now_ms, lambda: 0.5, VolatileState(now_ms))
    events: list[Event] = [*execute(state, RegisterAction(name=ACTION), context).events]
    for number in range(count):
        events += execute(state, Invoke(action=ACTION, input=INPUT), context).events
        if len(events) >= RUNS_PER_APPEND or number == count - 1:
            await log.append(events, [], now_ms)
            events = []
    await log.close()
