"""Books payments from a stream, and survives being killed: none is lost, none is booked twice.

    flo server start                         in one terminal
    python event_processor.py                in two others
    python event_processor.py append 1000    a thousand payments of one franc
    kill -9 …                                a processor, or the server, whenever you like
    python event_processor.py balances       a thousand francs, once all of it is booked

What a dead processor had in hand goes to the others when its ack timeout is over. So an event may
come twice; as the booking, and that it is done, are one transaction, it counts once.
"""

import sys
from contextlib import suppress

import msgspec

from flo import BlockingFlo, Conflict, Flo, NewRecord, StreamContext, StreamWorker

STREAM, GROUP = "payments", "ledger"
ACCOUNTS = ("alice", "bob", "carol")

flo = Flo()
worker = StreamWorker(flo, stream=STREAM, group=GROUP)


class Payment(msgspec.Struct):
    account: str
    francs: int


@worker.handler
async def book(ctx: StreamContext, payment: Payment) -> None:
    done = f"booked:{ctx.stream_id}"
    async with flo.kv.transaction() as txn:
        if (await txn.get(done)).value is None:
            txn.put(done, "yes", ttl=24 * 3_600)
            txn.increment(f"balance:{payment.account}", payment.francs)


def process() -> None:
    with BlockingFlo() as client, suppress(Conflict):  # the group is there already
        client.streams.group(STREAM, GROUP).create(mode="key_shared", ack_timeout=5)
    worker.run()


def append(count: int) -> None:
    payments = [Payment(ACCOUNTS[n % len(ACCOUNTS)], 1) for n in range(count)]
    with BlockingFlo() as client:
        client.streams.append_many(
            STREAM,
            [NewRecord(payload=msgspec.json.encode(one), key=one.account) for one in payments],
        )


def show_balances() -> None:
    with BlockingFlo() as client:
        balances = [int(client.kv.get(f"balance:{name}").value or 0) for name in ACCOUNTS]
    print(dict(zip(ACCOUNTS, balances, strict=True)), "make", sum(balances))


match sys.argv[1:]:
    case ["append", count]:
        append(int(count))
    case ["balances"]:
        show_balances()
    case _ if __name__ == "__main__":
        process()
