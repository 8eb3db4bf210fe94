from flo.engine.workers.presence import Disconnect, KnownWorker, LoseWorker
from flo.model.workers import Heartbeat, RegisterWorker, ResumeWorker
from flo.server.rpc.presence import WORKERS_AT_ONCE, WorkerConnections
from flo.shard.submission import Submission
from flo.testing.clock import NOON_MS, ManualClock

GRACE_MS = 3_000
REGISTER = RegisterWorker(
    worker_id="anna", processes=["send"], incarnation="first", connection_bound=True
)
RESUME = ResumeWorker(worker_id="anna", incarnation="first", held=[])
DISCONNECT = Disconnect(
    worker_id="anna", namespace="default", incarnation="first", since_ms=NOON_MS
)
LOSE = LoseWorker(worker_id="anna", namespace="default", incarnation="first", since_ms=NOON_MS)


class Heard:
    """What is submitted, message by message."""

    def __init__(self):
        self.batches = []

    @property
    def messages(self):
        return [message for batch in self.batches for message in batch]

    def submit(self, messages, done, caller=None, keys=None):
        self.batches.append(messages)
        return Submission(messages, done)


class Connection:
    def __init__(self):
        self.is_abandoned = False
        self.is_watched = False
        self.heard_count = 0

    def abandon(self):
        self.is_abandoned = True

    def heard(self):
        self.heard_count += 1

    def watch_silence(self):
        self.is_watched = True


def setup():
    heard, clock = Heard(), ManualClock()
    return heard, clock, WorkerConnections(heard, clock, GRACE_MS)


def test_a_worker_whose_connection_ends_is_given_up_after_the_grace_period():
    heard, clock, workers = setup()
    connection = Connection()
    workers.noticed(connection, REGISTER)

    workers.ended(connection)
    assert heard.messages == [DISCONNECT]
    clock.advance(GRACE_MS - 1)
    assert heard.messages == [DISCONNECT]
    clock.advance(1)
    assert heard.messages == [DISCONNECT, LOSE]


def test_a_worker_that_is_on_another_connection_is_not_given_up():
    heard, clock, workers = setup()
    first, second = Connection(), Connection()
    workers.noticed(first, REGISTER)
    workers.ended(first)
    clock.advance(1_000)

    workers.noticed(second, RESUME)
    clock.advance(GRACE_MS)

    assert heard.messages == [DISCONNECT]
    assert not first.is_abandoned


def test_a_connection_that_its_worker_has_left_is_abandoned_and_its_end_means_nothing():
    heard, clock, workers = setup()
    first, second = Connection(), Connection()
    workers.noticed(first, REGISTER)

    workers.noticed(second, RESUME)
    assert first.is_abandoned
    workers.ended(first)
    clock.advance(GRACE_MS)

    assert heard.messages == []
    assert not second.is_abandoned


def test_a_worker_may_register_again_on_its_connection():
    heard, _, workers = setup()
    connection = Connection()
    workers.noticed(connection, REGISTER)
    workers.noticed(connection, REGISTER)

    workers.ended(connection)

    assert not connection.is_abandoned
    assert heard.messages == [DISCONNECT]


def test_another_process_of_the_same_name_does_not_abandon_the_first():
    heard, _, workers = setup()
    first, second = Connection(), Connection()
    workers.noticed(first, REGISTER)
    other = RegisterWorker(
        worker_id="anna", processes=["send"], incarnation="second", connection_bound=True
    )

    workers.noticed(second, other)
    assert not first.is_abandoned
    workers.ended(first)

    assert heard.messages == [DISCONNECT]


def test_several_workers_share_a_connection():
    heard, _, workers = setup()
    connection = Connection()
    for name in ("anna", "boris"):
        workers.noticed(
            connection, RegisterWorker(worker_id=name, processes=["send"], connection_bound=True)
        )

    workers.ended(connection)

    assert [message.worker_id for message in heard.messages] == ["anna", "boris"]


def test_a_worker_that_lives_by_its_heartbeats_may_hang_up():
    heard, clock, workers = setup()
    connection = Connection()
    workers.noticed(connection, RegisterWorker(worker_id="anna", processes=["send"]))

    workers.ended(connection)
    clock.advance(GRACE_MS)

    assert heard.messages == []


def test_after_a_start_those_who_do_not_come_back_are_given_up():
    heard, clock, workers = setup()
    workers.expect(
        [KnownWorker("default", "anna", "first"), KnownWorker("default", "boris", "first")]
    )
    clock.advance(1_000)
    workers.noticed(Connection(), RESUME)

    clock.advance(GRACE_MS)

    assert [message.worker_id for message in heard.messages] == ["boris"]


def test_many_who_do_not_come_back_are_given_up_some_at_a_time():
    heard, clock, workers = setup()
    workers.expect(
        KnownWorker("default", f"w-{number}", "") for number in range(WORKERS_AT_ONCE + 1)
    )

    clock.advance(GRACE_MS)

    assert [len(batch) for batch in heard.batches] == [WORKERS_AT_ONCE, 1]


def test_a_server_that_stops_gives_up_nobody():
    heard, clock, workers = setup()
    workers.expect([KnownWorker("default", "anna", "first")])

    workers.stop()
    clock.advance(GRACE_MS)

    assert heard.messages == []


def test_a_connection_with_a_worker_must_be_heard_of_there_or_by_a_heartbeat_elsewhere():
    _, _, workers = setup()
    own, other = Connection(), Connection()
    workers.noticed(own, REGISTER)

    workers.noticed(other, Heartbeat(worker_id="anna"))
    workers.noticed(other, Heartbeat(worker_id="boris"))

    assert (own.is_watched, own.heard_count) == (True, 1)
    assert (other.is_watched, other.heard_count) == (False, 0)
