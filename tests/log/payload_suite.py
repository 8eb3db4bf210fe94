"""What every Log backend must do with large payloads."""

from flo.log.base import Log
from flo.model.storage.archive import ArchiveAddress, address_of
from flo.model.storage.payloads import LargePayload
from log.examples import MEBIBYTE, NOON_MS, finished, released


def payload_of(number: int, body: bytes = b"large") -> LargePayload:
    """That of the run with this number."""
    return LargePayload(address_of(finished(number)), body)


class PayloadSuite:
    async def test_a_payload_comes_back_byte_for_byte(self, log: Log) -> None:
        payloads = [payload_of(1, bytes(range(256)) * 8192), payload_of(2, b"x" * MEBIBYTE)]

        await log.append([released(1)], [], NOON_MS, payloads=payloads)

        assert [await log.payloads.find(one.address) for one in payloads] == [
            one.body for one in payloads
        ]
        assert await log.payloads.count() == 2

    async def test_payloads_are_told_apart_by_all_of_the_address(self, log: Log) -> None:
        address = payload_of(1).address
        others = [
            address._replace(kind="other"),
            address._replace(namespace="other"),
            address._replace(name="other"),
            address._replace(number=2),
        ]
        payloads = [LargePayload(one, repr(one).encode()) for one in (address, *others)]
        await log.append([released(1)], [], NOON_MS, payloads=payloads[1:])

        assert await log.payloads.find(address) is None
        for one in payloads[1:]:
            assert await log.payloads.find(one.address) == one.body

    async def test_a_payload_is_removed_with_the_append_that_says_so(self, log: Log) -> None:
        one, other = payload_of(1), payload_of(2)
        nowhere = ArchiveAddress("run", "default", "send", 9)
        await log.append([released(1)], [], NOON_MS, payloads=[one, other])

        await log.append([released(1)], [], NOON_MS, payloads_removed=[one.address, nowhere])

        assert await log.payloads.find(one.address) is None
        assert await log.payloads.find(other.address) == other.body

    async def test_a_payload_may_come_and_go_in_one_append(self, log: Log) -> None:
        one = payload_of(1)

        await log.append([released(1)], [], NOON_MS, payloads=[one], payloads_removed=[one.address])

        assert await log.payloads.count() == 0

    async def test_a_payload_stays_when_its_run_leaves_the_archive_to_live_again(
        self, log: Log
    ) -> None:
        one = payload_of(1)
        await log.append([released(1)], [finished(1)], NOON_MS, payloads=[one])
        await log.append([released(1)], [finished(1)], NOON_MS)

        await log.append([released(1)], [], NOON_MS, removed=[one.address])

        assert await log.payloads.find(one.address) == one.body

    async def test_a_payload_goes_when_its_run_is_trimmed(self, log: Log) -> None:
        payloads = [payload_of(number) for number in range(1, 11)]
        rows = [finished(number) for number in range(1, 10)]
        await log.append([released(1)], rows, NOON_MS, payloads=payloads)

        while (await log.trim(archived_max=2)).archived:
            pass

        kept = [number for number in range(1, 11) if await _has(log, number)]
        assert kept == [8, 9, 10]  # the last one is still live
        assert await log.archive.count() == 2


async def _has(log: Log, number: int) -> bool:
    return await log.payloads.find(payload_of(number).address) is not None
