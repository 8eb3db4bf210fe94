"""What the log spends on saying who caused what, on a real server."""

from pathlib import Path

from flo import Flo
from flo.engine.callers import CallerNoted
from flo.engine.codec import EVENT_CODEC
from flo.log.sqlite.entries import read_log
from flo.model.storage.caller import Caller, Source
from flo.shard.snapshotter import LOG_FILE
from flo.testing.process import ServerProcess

NOTE_LENGTH_MAX = 25
"""Bytes of a note, on average; with the whole caller in it, one has about 45."""


async def run_one_by_one(flo: Flo, count: int) -> None:
    for number in range(count):
        run_id = (await flo.actions.invoke("charge", {"number": number})).run_id
        (task,) = (await flo.workers.claim("anna", ["charge"])).tasks
        await flo.workers.complete(run_id, "anna", {"ok": True}, attempt=task.attempt)


async def test_who_asks_again_and_again_is_written_once_also_after_a_kill(
    server: ServerProcess, flo: Flo, tmp_path: Path
) -> None:
    await flo.actions.register("charge")
    await flo.workers.register("anna", ["charge"])
    await run_one_by_one(flo, 20)
    server.kill()
    server.start()
    await run_one_by_one(flo, 20)
    server.stop()

    entries = read_log(tmp_path / "data" / LOG_FILE, EVENT_CODEC, 0)
    events = [event for entry in entries for event in entry.events]
    notes = [event for event in events if isinstance(event, CallerNoted)]

    written_out = [note.caller for note in notes if isinstance(note.caller, Caller)]
    assert len(notes) >= 120
    assert len(set(written_out)) == len(written_out)
    assert [one.address for one in written_out if one.source is Source.RPC] == ["127.0.0.1"]
    length = sum(len(EVENT_CODEC.encode([note])) for note in notes)
    assert length / len(notes) <= NOTE_LENGTH_MAX
