"""What tests of workflows are given: a document in few lines, and an engine that performs actions.

harness = workflow_harness(SMALL, "check", "ship")
harness.start("order", {"id": 7})
harness.perform("check")
assert harness.status("wfrun-1") == "waiting"
"""

import json

import msgspec

from flo.engine.ticks import Tick
from flo.engine.workflows.events import WorkflowCreated
from flo.engine.workflows.folds import CALLS_KIND, HISTORY_KIND, RUN_KIND
from flo.engine.workflows.records import CallParts, HistoryEntry, WorkflowRecord
from flo.engine.workflows.replay.recording import recording_of
from flo.model.actions import RegisterAction
from flo.model.executions.history import GetHistory
from flo.model.runs import Claim, Complete, Fail
from flo.model.workflows import (
    CancelWorkflow,
    CreateWorkflow,
    ExplainWorkflow,
    GetWorkflowRun,
    PauseWorkflow,
    RerunWorkflow,
    ResumeWorkflow,
    SignalWorkflow,
    StartWorkflow,
)
from flo.shard.snapshot import dump, fingerprint, load
from flo.workflow.definition import Definition
from given import ANNA, DEFAULT, EngineHarness, replayed

TICKS_MAX = 2_000


def document(body, name="order", version="1", more=""):
    """A workflow, from its start step on."""
    return f'kind: Workflow\nname: {name}\nversion: "{version}"\n{more}{body}'


def one_step(step, name="order", more="", version="1"):
    """A workflow of a single step, which is written in one line."""
    return document(f"start: {step}\n", name, version, more)


class WorkflowHarness(EngineHarness):
    """An engine with workflows in it."""

    def deploy(self, *texts):
        for text in texts:
            self.execute(CreateWorkflow(text=text))
        return self

    def register(self, *names, **settings):
        for name in names:
            self.execute(RegisterAction(name=name, **{"max_retries": 0, **settings}))
        return self

    def start(self, name="order", value=None, **fields):
        payload = json.dumps({} if value is None else value).encode()
        return self.execute(StartWorkflow(name=name, input=payload, **fields)).reply.run_id

    def claim(self, action, worker_id=ANNA):
        """The next task of this action."""
        tasks = self.execute(Claim(worker_id=worker_id, actions=[action])).reply.tasks
        assert tasks, f"nothing waits for {action!r}"
        return tasks[0]

    def perform(self, action, value=None, outcome="success"):
        """The next task of this action is taken, and done; what its input was."""
        task = self.claim(action)
        self.complete(task.task_id, value, outcome)
        return json.loads(task.payload) if task.payload else None

    def complete(self, run_id, value=None, outcome="success"):
        output = json.dumps(value).encode()
        return self.execute(Complete(run_id=run_id, worker_id=ANNA, output=output, outcome=outcome))

    def fail(self, action, error="boom", **fields):
        task = self.claim(action)
        return self.execute(Fail(run_id=task.task_id, worker_id=ANNA, error=error, **fields))

    def refuse(self, action, error="boom", code=None):
        """Fail as NonRetryableError does."""
        return self.fail(action, error, code=code, dead_letter=False)

    def later(self, ms=0):
        """Time passes, and whatever falls due by then does so."""
        self.now_ms += ms
        for _ in range(TICKS_MAX):
            if not self.execute(Tick()).events:
                return self
        raise AssertionError("it never comes to rest")

    def signal(self, run_id, kind, value=None):
        payload = json.dumps(value).encode()
        return self.execute(SignalWorkflow(run_id=run_id, type=kind, payload=payload))

    def cancel(self, run_id, reason=""):
        return self.execute(CancelWorkflow(run_id=run_id, reason=reason))

    def pause(self, run_id):
        return self.execute(PauseWorkflow(run_id=run_id))

    def resume(self, run_id):
        return self.execute(ResumeWorkflow(run_id=run_id))

    def rerun(self, run_id, **fields):
        return self.execute(RerunWorkflow(run_id=run_id, **fields)).reply.run_id

    def view(self, run_id):
        return self.query(GetWorkflowRun(run_id=run_id))

    def status(self, run_id="wfrun-1"):
        return str(self.view(run_id).status)

    def ending(self, run_id="wfrun-1"):
        view = self.view(run_id)
        return str(view.status), view.terminal, view.error

    def output(self, run_id="wfrun-1"):
        output = self.view(run_id).output
        return json.loads(output) if output else None

    def step_output(self, step, run_id="wfrun-1"):
        (found,) = [one for one in self.view(run_id).steps if one.step == step]
        return json.loads(found.output) if found.output else None

    def outcomes(self, run_id="wfrun-1"):
        """Each step that has ended, with its outcome, in the order in which they did."""
        return {one.step: one.outcome for one in self.view(run_id).steps}

    def history(self, run_id="wfrun-1"):
        items, cursor = [], None
        while True:
            page = self.query(GetHistory(run_id=run_id, cursor=cursor, limit=1_000))
            items, cursor = items + page.items, page.cursor
            if cursor is None:
                return items

    def history_pairs(self, run_id="wfrun-1"):
        """The history as pairs."""
        return [(one.type, one.detail) for one in self.history(run_id)]

    def kinds(self, run_id="wfrun-1"):
        return [one.type for one in self.history(run_id)]

    def steps(self, run_id="wfrun-1"):
        """The steps in the order in which they began."""
        return [one.detail for one in self.history(run_id) if one.type == "step_started"]

    def record(self, run_id="wfrun-1"):
        """A run that has ended, as the archive keeps it."""
        records = [
            msgspec.msgpack.decode(row.body, type=WorkflowRecord)
            for row in self.archive._rows.values()
            if row.kind == RUN_KIND
        ]
        (found,) = [record for record in records if record.run.run_id == run_id]
        return found

    def filed_calls(self, run_id="wfrun-1"):
        """The parts of its calls that have gone to the archive before its end."""
        return [
            msgspec.msgpack.decode(row.body, type=CallParts)
            for row in self.archive._rows.values()
            if (row.kind, row.name) == (CALLS_KIND, run_id)
        ]

    def recording(self, run_id="wfrun-1", record=None):
        """All that the archive has of a run that has ended; `record` takes the place of its own."""
        record = record or self.record(run_id)
        definition = self.definitions[record.run.workflow, record.run.version]
        parts = [
            msgspec.msgpack.decode(row.body, type=tuple[HistoryEntry, ...])
            for row in self.archive._rows.values()
            if (row.kind, row.name) == (HISTORY_KIND, run_id)
        ]
        return recording_of(definition, record, self.filed_calls(run_id), parts)

    @property
    def definitions(self):
        """Every definition there has been."""
        created = [event for event in self.events if isinstance(event, WorkflowCreated)]
        return {
            (event.name, event.version): msgspec.msgpack.decode(event.definition, type=Definition)
            for event in created
        }

    @property
    def ended_ids(self):
        """The runs that have ended, the first one first."""
        rows = [row for row in self.archive._rows.values() if row.kind == RUN_KIND]
        return [msgspec.msgpack.decode(row.body, type=WorkflowRecord).run.run_id for row in rows]

    def explain(self, run_id="wfrun-1"):
        return self.query(ExplainWorkflow(run_id=run_id))

    def pending(self, action):
        """How many runs of this action are live."""
        tally = self.space.tallies.get(action)
        return tally.live if tally is not None else 0

    @property
    def space(self):
        return self.state.space(DEFAULT)

    def restart(self):
        """From a snapshot and from the log alone: both are the same; the rest is forgotten."""
        loaded, again = load(dump(self.state)), replayed(self.log)
        assert fingerprint(loaded) == fingerprint(again) == fingerprint(self.state)
        self.state = loaded
        self.volatile = type(self.volatile)(self.now_ms)
        return self

    def leftovers(self):
        """What should not be there when every workflow run has ended."""
        space = self.space
        live = {name: dict(one.live) for name, one in space.workflows.items() if one.live}
        gone = [name for name, one in space.workflows.items() if one.gone]
        return [
            found
            for found in (
                space.executions,
                space.awaited,
                space.workflow_permits,
                space.runs,
                live,
                gone,
                len(self.state.due) - sum(one.next_at_ms is not None for one in self.schedules()),
            )
            if found
        ]

    def schedules(self):
        return self.space.schedules.values()


def workflow_harness(text, *actions):
    """An engine in which this is deployed and these are registered."""
    return WorkflowHarness().deploy(text).register(*actions)


def events_of(harness, *kinds):
    """The events of these kinds, in order."""
    return [event for event in harness.events if isinstance(event, kinds)]
