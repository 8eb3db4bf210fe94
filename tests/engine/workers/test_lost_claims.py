"""A worker that lives by its heartbeats holds nothing any more."""

from flo.engine.runs.events import RunRequeued, RunTimedOut
from flo.engine.workers.events import WorkerBack, WorkerLost
from flo.engine.workers.presence import LoseClaims
from flo.model.actions import RegisterAction
from flo.model.runs import Claim, Complete, GetRun, Invoke
from flo.model.views.attempts import AttemptEnd
from flo.model.workers import GetWorker, RegisterWorker
from given import ANNA, BORIS, DEFAULT, given

SEND = RegisterAction(name="send", max_retries=1, retry_delay_ms=60_000)
REGISTER = RegisterWorker(worker_id=ANNA, processes=["send"])
CLAIM = Claim(worker_id=ANNA, actions=["send"], max_tasks=10)
LOSE = LoseClaims(worker_id=ANNA, namespace=DEFAULT)


def test_what_it_held_is_ready_at_once_as_another_attempt():
    engine = given(SEND, REGISTER, Invoke(action="send"), CLAIM)
    decision = engine.execute(LOSE)
    assert [type(event) for event in decision.events] == [WorkerLost, RunRequeued, WorkerBack]
    assert decision.events[1].end is AttemptEnd.WORKER_LOST
    (again,) = engine.execute(CLAIM).reply.tasks
    assert again.attempt == 2


def test_it_counts_as_an_attempt():
    engine = given(SEND, REGISTER, Invoke(action="send"), CLAIM, LOSE, CLAIM)
    assert RunTimedOut in [type(event) for event in engine.execute(LOSE).events]
    assert str(engine.query(GetRun(run_id="send-1")).status) == "timed_out"


def test_the_worker_lives_and_its_view_says_so():
    engine = given(SEND, REGISTER, Invoke(action="send"), CLAIM, LOSE)
    assert engine.query(GetWorker(worker_id=ANNA)).connection is None
    assert engine.execute(CLAIM).reply.tasks


def test_a_worker_that_holds_nothing_loses_nothing():
    engine = given(SEND, REGISTER, Invoke(action="send"), CLAIM)
    engine.execute(Complete(run_id="send-1", worker_id=ANNA))
    assert engine.execute(LOSE).events == ()


def test_nobody_else_loses_anything():
    other = Claim(worker_id=BORIS, actions=["send"])
    engine = given(SEND, REGISTER, Invoke(action="send"), other)
    assert engine.execute(LOSE).events == ()
    unknown = LoseClaims(worker_id="nobody", namespace=DEFAULT)
    assert engine.execute(unknown).events == ()
