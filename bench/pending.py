"""A data folder with many pending runs in it, made by the rules themselves."""

import time
from pathlib import Path

from bench.system import ACTION, INPUT
from flo.core.live import Live
from flo.core.machine import settle
from flo.core.moment import Moment
from flo.core.state import State
from flo.log.sqlite import SqliteLog
from flo.model.actions import RegisterAction
from flo.model.base import Fact
from flo.model.runs import Invoke
from flo.shard.snapshotter import LOG_FILE

RUNS_PER_APPEND = 1_000


async def make_pending(folder: Path, count: int) -> None:
    log = SqliteLog(folder / LOG_FILE)
    state = State()
    now_ms = time.time_ns() // 1_000_000
    moment = Moment(now_ms, lambda: 0.5, Live(now_ms))
    events: list[Fact] = [*settle(state, RegisterAction(name=ACTION), moment).events]
    for number in range(count):
        events += settle(state, Invoke(action=ACTION, input=INPUT), moment).events
        if len(events) >= RUNS_PER_APPEND or number == count - 1:
            await log.append(events, [], now_ms)
            events = []
    await log.close()
