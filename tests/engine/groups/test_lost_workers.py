from flo.engine.groups.events import ConsumerLeft, RecordsReturned
from flo.engine.workers.events import WorkerLost
from flo.engine.workers.presence import Disconnect, LoseWorker
from flo.model.groups import DeleteGroup, JoinGroup, ReadGroup
from flo.model.streams import Append, NewRecord
from flo.model.workers import RegisterWorker, WorkerType
from flo.testing.clock import NOON_MS
from given import ANNA, BORIS, DEFAULT, Later, given

GROUP = {"stream": "orders", "group": "billing"}
REGISTER = RegisterWorker(
    worker_id=ANNA,
    processes=["orders/billing"],
    worker_type=WorkerType.STREAM,
    incarnation="first",
    connection_bound=True,
    consumer="reader",
)
APPEND = Append(stream="orders", records=[NewRecord(payload=b"%d" % one) for one in range(3)])
BREAK = Disconnect(worker_id=ANNA, namespace=DEFAULT, incarnation="first", since_ms=NOON_MS)
LOSE = LoseWorker(worker_id=ANNA, namespace=DEFAULT, incarnation="first", since_ms=NOON_MS)


def read(consumer):
    return ReadGroup(**GROUP, consumer=consumer, limit=10)


def lost(*before):
    engine = given(JoinGroup(**GROUP, consumer="reader"), REGISTER, APPEND, *before)
    return engine, engine.execute(BREAK, Later(3_000), LOSE)


def test_what_a_lost_stream_worker_had_is_handed_out_again_at_once():
    engine, decision = lost(read("reader"))

    kinds = [type(event) for event in decision.events]
    assert kinds == [WorkerLost, RecordsReturned, ConsumerLeft]
    again = engine.execute(JoinGroup(**GROUP, consumer=BORIS), read(BORIS)).reply
    assert [record.sequence for record in again.items] == [1, 2, 3]
    assert again.deliveries == [2, 2, 2]


def test_a_lost_stream_worker_that_had_nothing_leaves_its_group_all_the_same():
    _, decision = lost()

    assert [type(event) for event in decision.events] == [WorkerLost, ConsumerLeft]


def test_a_group_that_is_gone_is_no_trouble():
    _, decision = lost(DeleteGroup(**GROUP))

    assert [type(event) for event in decision.events] == [WorkerLost]
