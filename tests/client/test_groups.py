import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from client.fake import FakeServer
from client.virtual import run_virtual, turns
from flo import Conflict, ConsumerGroup, Flo, GroupMode, GroupRecords, NotFound
from flo.model.groups import IDS_PER_COMMAND_MAX
from flo.server.server import Server
from flo.testing.clock import ManualClock
from flo.testing.local import local_server


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def flo(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Flo]:
    """A client of a server whose time the test holds."""
    async with local_server(tmp_path, clock) as server, Flo(server.address) as flo:
        yield flo


@pytest.fixture
async def group(flo: Flo) -> ConsumerGroup:
    """A group of a stream with the records 0 to 4."""
    await flo.streams.append_many("orders", range(5))
    return flo.streams.group("orders", "billing")


def numbers(records: GroupRecords) -> list[int]:
    return [int(record.payload) for record in records.items]


async def test_a_consumer_reads_and_settles(group: ConsumerGroup) -> None:
    records = await group.read("anna", limit=2)
    assert (numbers(records), records.deliveries) == ([0, 1], [1, 1])

    assert await group.ack(records.items) == 2
    assert await group.ack(records.items) == 0  # they are settled already
    assert numbers(await group.read("anna")) == [2, 3, 4]


async def test_who_reads_without_having_joined_joins(flo: Flo) -> None:
    group = flo.streams.group("not-there-yet", "billing")
    assert numbers(await group.read("anna")) == []

    assert [one.name for one in (await group.info()).consumers] == ["anna"]
    assert (await group.info()).settings.mode is GroupMode.SHARED


async def test_who_was_removed_meanwhile_joins_again(group: ConsumerGroup) -> None:
    await group.join("anna")
    await group.leave("anna")

    assert numbers(await group.read("anna", limit=1)) == [0]


async def test_a_group_is_made_with_its_settings(group: ConsumerGroup) -> None:
    await group.create(
        mode="key_shared",
        ack_timeout=2.5,
        max_deliveries=3,
        redelivery_delay=0.5,
        slots=16,
        max_standbys=2,
        start="$",
    )
    settings = await group.join("anna")

    assert settings.mode is GroupMode.KEY_SHARED
    assert (settings.ack_timeout_ms, settings.redelivery_delay_ms) == (2_500, 500)
    assert (settings.max_deliveries, settings.slots, settings.max_standbys) == (3, 16, 2)
    assert numbers(await group.read("anna")) == []  # it begins at the end
    with pytest.raises(Conflict) as raised:
        await group.create()
    assert raised.value.code == "group_exists"


async def test_a_group_that_wants_no_acks_has_nothing_under_way(group: ConsumerGroup) -> None:
    await group.create(no_ack=True)
    assert numbers(await group.read("anna")) == [0, 1, 2, 3, 4]

    assert (await group.pending()).items == []


async def test_a_nacked_record_comes_again_after_its_delay(
    group: ConsumerGroup, clock: ManualClock
) -> None:
    records = await group.read("anna", limit=1)
    assert await group.nack(records.items, consumer="boris") == 0  # he does not hold it
    assert await group.nack(records.items, consumer="anna", delay=10) == 1
    assert numbers(await group.read("anna", limit=9)) == [1, 2, 3, 4]

    reading = asyncio.create_task(group.read("anna", block=60))
    await group.info()
    clock.advance(10_000)
    again = await reading
    assert (numbers(again), again.deliveries) == ([0], [2])


async def test_a_record_that_nobody_settles_comes_again_unless_it_is_touched(
    group: ConsumerGroup, clock: ManualClock
) -> None:
    first, second = (await group.read("anna", limit=2)).items
    assert await group.touch([first.stream_id], "anna", extend=600) == 1
    assert await group.touch(second.stream_id, "boris") == 0
    reading = asyncio.create_task(group.read("boris", limit=1, block=0))
    assert numbers(await reading) == [2]
    clock.advance(60_000)

    assert numbers(await group.read("boris")) == [1, 2, 3, 4]
    assert [one.stream_id for one in (await group.pending(consumer="anna")).items] == [
        first.stream_id
    ]


async def test_a_consumer_that_leaves_gives_its_records_back(group: ConsumerGroup) -> None:
    await group.read("anna", limit=3)
    await group.leave("anna")
    await group.leave("anna")

    assert numbers(await group.read("boris")) == [0, 1, 2, 3, 4]


async def test_idle_records_are_claimed_page_by_page(
    group: ConsumerGroup, clock: ManualClock
) -> None:
    await group.read("anna")
    clock.advance(30_000)
    assert (await group.claim("boris", min_idle=31)).items == []

    page = await group.claim("boris", min_idle=30, limit=3)
    assert [int(record.payload) for record in page.items] == [0, 1, 2]
    assert page.deliveries == [2, 2, 2]
    assert page.next is not None
    rest = await group.claim("boris", min_idle=30, after=page.next)
    assert ([int(record.payload) for record in rest.items], rest.next) == ([3, 4], None)
    own = await group.claim("boris")
    assert own.deliveries == [3, 3, 3, 3, 3]


async def test_what_is_under_way_is_listed(group: ConsumerGroup) -> None:
    await group.read("anna", limit=3)
    await group.read("boris", limit=1)

    page = await group.pending(limit=2)
    rest = await group.pending(cursor=page.cursor)
    assert [one.consumer for one in (*page.items, *rest.items)] == ["anna"] * 3 + ["boris"]
    assert [one.consumer for one in (await group.pending(consumer="boris")).items] == ["boris"]
    view = await group.info()
    assert (view.pending, view.lag, view.waiting, view.dead) == (4, 1, 0, 0)


async def test_dead_letters_are_listed_requeued_and_purged(group: ConsumerGroup) -> None:
    await group.create(max_deliveries=1)
    records = (await group.read("anna")).items
    await group.nack(records)
    assert numbers(await group.read("anna")) == []

    page = await group.dead(limit=2)
    assert [int(one.record.payload) for one in page.items] == [4, 3]
    assert len((await group.dead(cursor=page.cursor)).items) == 3
    assert await group.purge([records[4]]) == [records[4].stream_id]
    assert await group.requeue(records[0].stream_id) == [records[0].stream_id]
    assert numbers(await group.read("anna")) == [0]
    assert await group.requeue([records[3]]) == [records[3].stream_id]
    assert await group.purge() == [records[2].stream_id, records[1].stream_id]
    with pytest.raises(NotFound) as raised:
        await group.requeue([records[4]])
    assert raised.value.code == "dead_letter_not_found"


async def test_groups_are_listed_and_deleted(flo: Flo, group: ConsumerGroup) -> None:
    await group.read("anna")
    await flo.streams.group("orders", "audit").create()
    assert [one.name for one in (await flo.streams.groups("orders")).items] == ["audit", "billing"]
    page = await flo.streams.groups("orders", limit=1)
    assert len((await flo.streams.groups("orders", cursor=page.cursor)).items) == 1

    await group.delete()
    with pytest.raises(NotFound) as raised:
        await group.info()
    assert raised.value.code == "group_not_found"
    assert repr(group) == "ConsumerGroup('orders', 'billing')"


async def test_more_ids_than_one_command_may_name_are_settled_too(flo: Flo) -> None:
    group = flo.streams.group("orders", "billing")
    await flo.streams.append_many("orders", range(IDS_PER_COMMAND_MAX + 500))
    first = (await group.read("anna", limit=1_000)).items
    rest = (await group.read("anna", limit=1_000)).items

    assert await group.ack([*first, *rest]) == IDS_PER_COMMAND_MAX + 500
    assert await group.ack([]) == 0


async def test_a_drain_of_its_worker_ends_a_read(flo: Flo) -> None:
    group = flo.streams.group("orders", "billing")
    await flo.workers.register("anna", ["orders"], worker_type="stream")
    reading = asyncio.create_task(group.read("anna", block=60, worker_id="anna"))
    while not (await flo.streams.list()).items:  # it has joined
        pass
    await flo.workers.drain("anna")

    assert (await reading).draining


def test_what_counts_twice_if_it_is_heard_twice_is_repeated_with_a_number() -> None:
    async def main() -> FakeServer:
        server = FakeServer()
        async with Flo("flo:9000", connect=server.connect) as flo:
            group = flo.streams.group("orders", "billing")
            ack = asyncio.ensure_future(group.ack("1-1"))
            requeue = asyncio.ensure_future(group.requeue())
            steal = asyncio.ensure_future(group.claim("anna", min_idle=1))
            await turns()
            server.hang_up()
            await asyncio.wait({ack}, timeout=1.0)
            for call in (ack, requeue, steal):
                call.cancel()
        return server

    server = run_virtual(main())
    assert server.names == ["ack", "requeue_dead_records", "claim_records"] * 2
    assert server.keys[:3] == server.keys[3:]
    assert [keys and keys.keys for keys in server.keys[:3]] == [None, 0, 1]


async def test_what_a_group_has_done_outlives_the_server(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data") as server, Flo(server.address) as flo:
        await flo.streams.append_many("orders", range(5))
        group = flo.streams.group("orders", "billing")
        records = await group.read("anna", limit=3)
        await group.ack(records.items[:2])

    async with local_server(tmp_path / "data") as server, Flo(server.address) as flo:
        group = flo.streams.group("orders", "billing")
        assert [one.stream_id for one in (await group.pending()).items] == [
            records.items[2].stream_id
        ]
        assert numbers(await group.read("boris")) == [3, 4]


async def test_a_read_is_woken_by_another_client(server: Server) -> None:
    async with Flo(server.address) as flo, Flo(server.address) as other:
        group = flo.streams.group("orders", "billing")
        await group.join("anna")
        reading = asyncio.create_task(group.read("anna", block=60))
        await group.info()
        assert not reading.done()
        await other.streams.append("orders", 7)

        assert numbers(await reading) == [7]
