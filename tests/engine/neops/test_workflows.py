"""Definitions of neops, executed: conditions, retries, repeats, and what they compute."""

import json

import msgspec
import pytest

from flo.model.blocks.blocks import BlockDeclaration, RegisterBlocks, RunOn
from flo.model.blocks.jobs import JobInput, JobResult
from flo.model.blocks.ledger import GetLedger
from flo.model.blocks.names import JobType, job_action
from flo.model.kv import PutKey
from flo.model.runs import Claim, Complete
from flows import WorkflowHarness
from given import ANNA

NAMES = ("one", "two", "three")
ACTIONS = [job_action(f"lab/{name}:1.0.0", job) for name in NAMES for job in JobType]


def step(label, block="one", **fields):
    return {
        "type": "functionBlock",
        "label": label,
        "functionBlock": f"lab/{block}:1",
        **fields,
    }


def jmes(expression, **fields):
    return {"type": "jmes", "jmes": expression, **fields}


def workflow(*steps, name="flow", seed="global", version=(1, 0, 0), **fields):
    major, minor, patch = version
    root = {
        "label": name,
        "name": name,
        "package": "lab",
        "majorVersion": major,
        "minorVersion": minor,
        "patchVersion": patch,
        "seedEntity": seed,
        "type": "workflow",
        "steps": list(steps),
        **fields,
    }
    return json.dumps(root)


class NeopsHarness(WorkflowHarness):
    """An engine with three blocks, and a worker that does their jobs."""

    def __init__(self, *texts):
        super().__init__()
        blocks = [
            BlockDeclaration(package="lab", name=name, run_on=RunOn(run_on), reversible=True)
            for name, run_on in zip(NAMES, ("global", "device", "global"), strict=True)
        ]
        self.execute(RegisterBlocks(blocks=blocks))
        self.deploy(*texts)

    def run(self, name="flow", value=None, **parameters):
        return self.start(f"lab@{name}", {"parameters": parameters, **(value or {})})

    def next_job(self):
        tasks = self.execute(Claim(worker_id=ANNA, actions=ACTIONS)).reply.tasks
        self.task = tasks[0] if tasks else None
        return msgspec.json.decode(self.task.payload, type=JobInput) if tasks else None

    def report(self, **result):
        output = msgspec.json.encode(JobResult(**result))
        self.execute(Complete(run_id=self.task.task_id, worker_id=ANNA, output=output))

    def do(self, **answers):
        """Every job is done, as its step is answered here; what was executed, in order."""
        done = []
        while (job := self.next_job()) is not None:
            if job.job is JobType.EXECUTE:
                done.append((job.step, job.parameters))
                answer = answers.get(job.step, {})
                self.report(**(answer(job) if callable(answer) else answer))
            else:
                if job.job is JobType.ROLLBACK:
                    done.append((f"undo {job.step}", job.parameters))
                self.report()
        return done

    def done_steps(self, **answers):
        return [name for name, _ in self.do(**answers)]


def data(**values):
    return {"data": values}


FAILED = {"success": False, "message": "boom", "code": "busy"}


def test_steps_follow_each_other_and_hand_on_what_they_found():
    engine = NeopsHarness(
        workflow(
            step("first", parameters={"site": "{{ parameters.site }}"}),
            step("second", parameters={"text": "v{{ first.result.data.version }}"}),
        )
    )
    engine.run(site="zrh")
    assert engine.do(first=data(version=2)) == [
        ("first", {"site": "zrh"}),
        ("second", {"text": "v2"}),
    ]
    assert engine.status() == "completed"


def test_parameters_of_the_definition_are_defaults():
    engine = NeopsHarness(
        workflow(
            step("first", parameters={"x": "{{ [parameters.site, parameters.mtu] }}"}),
            parameters={"site": "bern", "mtu": 1_500},
        )
    )
    engine.run(site="zrh")
    assert engine.do() == [("first", {"x": ["zrh", 1_500]})]


@pytest.mark.parametrize(("version", "steps"), [("2", ["a", "c"]), ("1", ["a", "b", "c"])])
def test_a_step_whose_condition_does_not_hold_is_skipped(version, steps):
    engine = NeopsHarness(
        workflow(
            step("a"),
            step("b", condition=jmes("a.result.data.version != '2'")),
            step("c"),
        )
    )
    engine.run()
    assert engine.done_steps(a=data(version=version)) == steps
    assert engine.status() == "completed"


def test_a_workflow_whose_condition_does_not_hold_has_completed_at_once():
    engine = NeopsHarness(workflow(step("a"), condition=jmes("parameters.go")))
    engine.run()
    assert engine.done_steps() == []
    assert engine.status() == "completed"


def test_an_assertion_that_does_not_hold_fails_the_run_and_what_was_done_is_undone():
    told = "only in Zurich"
    engine = NeopsHarness(
        workflow(
            step("a"),
            step("b", **{"assert": [jmes("parameters.site == 'zrh'", description=told)]}),
        )
    )
    engine.run(site="bern")
    assert engine.done_steps() == ["a", "undo a"]
    view = engine.view("wfrun-1")
    assert (str(view.status), view.error, view.error_code) == ("failed", told, "assertion_failed")
    assert str(engine.query(GetLedger(run_id="wfrun-1")).state) == "failed_safe"


def test_a_step_that_fails_is_tried_again_after_its_delay():
    engine = NeopsHarness(workflow(step("a", retryConfig={"maxRetries": 2, "delay": 5})))
    engine.run()
    assert engine.done_steps(a=FAILED) == ["a"]
    engine.later(4_999)
    assert engine.done_steps(a=FAILED) == []
    engine.later(1)
    assert engine.done_steps() == ["a"]
    assert engine.status() == "completed"


def test_retries_come_to_an_end():
    engine = NeopsHarness(workflow(step("a", retryConfig={"maxRetries": 2})))
    engine.run()
    engine.done_steps(a=FAILED)
    for _ in range(2):
        engine.later(1)
        engine.done_steps(a=FAILED)
    assert engine.status() == "failed"


def test_a_retry_with_a_condition_looks_at_the_failure():
    retry = {"maxRetries": 2, "condition": jmes("a.errorCode == 'busy'")}
    engine = NeopsHarness(workflow(step("a", retryConfig=retry), step("b")))
    engine.run()
    assert engine.done_steps(a=FAILED) == ["a"]
    engine.later(1)
    assert engine.done_steps() == ["a", "b"]


@pytest.mark.parametrize(("code", "times"), [("busy", 3), ("broken", 1)])
def test_a_retry_with_a_condition_ends_when_it_does_not_hold_or_none_is_left(code, times):
    retry = {"maxRetries": 2, "condition": jmes("a.errorCode == 'busy'")}
    engine = NeopsHarness(workflow(step("a", retryConfig=retry)))
    engine.run()
    answer = {"success": False, "message": "boom", "code": code}
    done = []
    for _ in range(5):
        done += [name for name in engine.done_steps(a=answer) if name == "a"]
        engine.later(1)
    assert len(done) == times
    view = engine.view("wfrun-1")
    assert (str(view.status), view.error_code) == ("failed", code)
    assert "boom" in view.error


def test_a_step_is_repeated_so_often_besides_its_first_time():
    engine = NeopsHarness(workflow(step("a", repeatConfig={"repeats": 2}), step("b")))
    engine.run()
    done = []
    for _ in range(4):
        done += engine.done_steps()
        engine.later(1)
    assert done == ["a", "a", "a", "b"]


def test_a_step_is_repeated_while_its_condition_holds():
    repeat = {"repeats": 100, "condition": jmes("a.result.data.left > `0`")}
    engine = NeopsHarness(workflow(step("a", repeatConfig=repeat), step("b")))
    engine.run()
    left = [2, 1, 0]
    done = []
    for _ in range(4):
        done += engine.done_steps(a=lambda job: data(left=left.pop(0)))
        engine.later(1)
    assert done == ["a", "a", "a", "b"]


def test_a_step_that_may_fail_is_passed_over():
    engine = NeopsHarness(workflow(step("a", continueOnError=True), step("b")))
    engine.run()
    assert engine.done_steps(a=FAILED) == ["a", "b"]
    assert engine.status() == "completed"


def test_a_step_is_delayed():
    engine = NeopsHarness(workflow(step("a"), step("b", delay=1.5)))
    engine.run()
    assert engine.done_steps() == ["a"]
    engine.later(1_499)
    assert engine.done_steps() == []
    engine.later(1)
    assert engine.done_steps() == ["b"]


def test_an_embedded_workflow_has_parameters_and_labels_of_its_own():
    inner = {
        "type": "workflow",
        "label": "inner",
        "name": "inner",
        "parameters": {"site": "{{ a.result.data.site }}"},
        "steps": [
            step("a", parameters={"x": "{{ parameters.site }}"}),
            step("b", parameters={"x": "{{ a.result.data.site }}"}),
        ],
    }
    engine = NeopsHarness(workflow(step("a"), inner, step("c", parameters={"x": "{{ a }}"})))
    engine.run(site="given")
    answers = {"a": data(site="outer"), "inner-a": data(site="inner")}
    done = engine.do(**answers)
    assert done[:3] == [("a", {}), ("inner-a", {"x": "outer"}), ("inner-b", {"x": "inner"})]
    assert done[3][1]["x"]["result"]["data"] == {"site": "outer"}


def test_the_steps_of_an_embedded_workflow_are_tried_again_together():
    inner = {
        "type": "workflow",
        "label": "inner",
        "name": "inner",
        "retryConfig": {"maxRetries": 1},
        "steps": [step("a"), step("b")],
    }
    engine = NeopsHarness(workflow(inner))
    engine.run()
    assert engine.done_steps(**{"inner-b": FAILED}) == ["inner-a", "inner-b"]
    engine.later(1)
    assert engine.done_steps() == ["inner-a", "inner-b"]
    assert engine.status() == "completed"


def test_a_reference_runs_the_highest_version_that_it_names():
    reference = {
        "type": "workflowReference",
        "label": "call",
        "workflow": "lab/other:1",
        "strategy": "dispatch",
        "parameters": {"site": "{{ parameters.site }}"},
    }
    others = [
        workflow(
            step(f"s{minor}", parameters={"x": "{{ parameters.site }}"}),
            name="other",
            version=(major, minor, 0),
        )
        for major, minor in ((1, 10), (1, 9), (2, 0))
    ]
    engine = NeopsHarness(*others, workflow(reference, step("after")))
    engine.run(site="zrh")
    assert engine.do() == []
    engine.later()
    assert engine.do() == [("s10", {"x": "zrh"}), ("after", {})]
    assert engine.view("wfrun-2").version == "1.10.0"


def test_a_run_for_a_device_knows_it_and_keeps_it_locked():
    engine = NeopsHarness(
        workflow(
            step("a", "two", parameters={"host": "{{ context.device.hostname }}"}),
            seed="device",
        )
    )
    engine.execute(PutKey(key="entities/device/7", value=b'{"hostname": "r1"}'))
    engine.run(value={"entity": {"type": "device", "id": 7}})
    (acquire, _), job = (engine.next_job(), engine.report()), engine.next_job()
    assert acquire.unresolved == ["host"]
    assert (job.parameters, job.entity_id) == ({"host": "r1"}, 7)
    assert [lock.key for lock in job.locks] == ["device:7"]


def test_a_run_for_several_entities_is_one_child_for_each():
    engine = NeopsHarness(workflow(step("a", "two"), seed="device"))
    for number in (7, 8):
        key = f"entities/device/{number}"
        engine.execute(PutKey(key=key, value=b'{"hostname": "r"}'))
    engine.run(value={"executeOn": {"ids": [7, 8]}})
    entities = []
    for _ in range(3):
        engine.later()
        while (job := engine.next_job()) is not None:
            if job.job is JobType.EXECUTE:
                entities.append(job.entity_id)
            engine.report()
    assert entities == [7, 8]
    assert engine.status() == "completed"


def test_an_expression_without_a_value_fails_its_step():
    engine = NeopsHarness(workflow(step("a", parameters={"x": "{{ abs(parameters.site) }}"})))
    engine.run(site="zrh")
    assert engine.done_steps() == []
    view = engine.view("wfrun-1")
    assert (str(view.status), view.error_code) == ("failed", "interpolation_failed")


def test_a_run_is_the_same_after_a_restart_in_the_middle():
    engine = NeopsHarness(
        workflow(step("a"), step("b", delay=1, condition=jmes("a.result.data.ok")))
    )
    engine.run()
    engine.done_steps(a=data(ok=True))
    engine.restart().later(1_000)
    assert engine.done_steps() == ["b"]
    assert engine.status() == "completed"


def test_a_first_step_called_start_is_a_step_like_others():
    engine = NeopsHarness(
        workflow(step("start"), step("b", parameters={"x": "{{ start.result.data.y }}"}))
    )
    engine.run()
    assert engine.do(**{"start-step": data(y=1)})[-1] == ("b", {"x": 1})
