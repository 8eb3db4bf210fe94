"""Rules of workflows: deploying, versions, starting, idempotency, repeating, permits."""

from hashlib import sha256

import pytest

from flo.engine.workflows.events import WorkflowAdmitted, WorkflowCreated, WorkflowStarted
from flo.engine.workflows.records import Origin
from flo.model.actions import RegisterAction
from flo.model.base import Nothing
from flo.model.errors import Conflict, Invalid, NotFound, TooLarge
from flo.model.workflows import (
    TEXT_LENGTH_MAX,
    CreateWorkflow,
    DeleteWorkflow,
    DisableWorkflow,
    EnableWorkflow,
    GetWorkflow,
    GetWorkflowRun,
    ListWorkflows,
    StartWorkflow,
    ValidateWorkflow,
    WorkflowBegun,
    WorkflowDeployed,
    WorkflowStatus,
)
from flo.testing.clock import NOON_MS
from flows import WorkflowHarness, document, events_of, one_step, workflow_harness

STEP = '{run: "@actions/check", transitions: {success: flo.Completed, failure: flo.Failed}}'


def text(version="1", action="check", more="", name="order"):
    return one_step(STEP.replace("check", action), name=name, version=version, more=more)


class TestDeploying:
    def test_a_definition_is_deployed_as_it_was_understood(self):
        harness = WorkflowHarness()
        harness.execute(RegisterAction(name="check"))
        decision = harness.execute(CreateWorkflow(text=text()))

        digest = sha256(text().encode()).hexdigest()
        assert decision.reply == WorkflowDeployed(
            name="order", version="1", created=True, definition=digest
        )
        (created,) = decision.events
        assert isinstance(created, WorkflowCreated)
        assert (created.name, created.version, created.text) == ("order", "1", text())

    def test_the_same_text_again_changes_nothing(self):
        harness = WorkflowHarness().deploy(text())

        decision = harness.execute(CreateWorkflow(text=text()))

        assert decision.reply.created is False
        assert decision.events == ()

    def test_another_text_under_the_same_version_is_refused(self):
        harness = WorkflowHarness().deploy(text())

        with pytest.raises(Conflict) as refusal:
            harness.deploy(text(action="other"))

        assert refusal.value.code == "version_exists"

    def test_the_newest_version_is_the_latest_whatever_it_is_called(self):
        harness = WorkflowHarness().deploy(text("9"), text("10"), text("1-beta"))

        view = harness.query(GetWorkflow(name="order"))

        assert (view.version, view.versions) == ("1-beta", ["9", "10", "1-beta"])

    def test_the_latest_is_still_the_latest_after_a_restart(self):
        harness = WorkflowHarness().deploy(text("9"), text("10"), text("1-beta")).restart()

        assert harness.query(GetWorkflow(name="order")).version == "1-beta"

    def test_a_definition_that_is_wrong_is_refused_with_all_its_problems(self):
        with pytest.raises(Invalid) as refusal:
            WorkflowHarness().deploy("kind: Workflow\nname: x\nstart: {run: nothing}\n")

        assert refusal.value.code == "invalid_workflow"
        assert len(refusal.value.details["problems"]) > 1
        assert {"code", "severity", "line"} <= set(refusal.value.details["problems"][0])

    def test_what_might_be_wrong_is_told_and_deployed(self):
        waits = one_step("{waitForSignal: {type: go}, transitions: {success: flo.Completed}}")

        reply = WorkflowHarness().execute(CreateWorkflow(text=waits)).reply

        assert reply.created
        assert [one["severity"] for one in reply.problems] == ["warning"]

    def test_a_text_that_is_too_long_is_refused(self):
        with pytest.raises(TooLarge):
            WorkflowHarness().execute(CreateWorkflow(text="#" * (TEXT_LENGTH_MAX + 1)))

    def test_a_namespace_with_an_odd_name_is_refused(self):
        with pytest.raises(Invalid):
            WorkflowHarness().execute(CreateWorkflow(text=text(), namespace="a/b"))

    def test_validation_says_the_same_and_changes_nothing(self):
        harness = WorkflowHarness()

        good = harness.query(ValidateWorkflow(text=text()))
        bad = harness.query(ValidateWorkflow(text="kind: Workflow"))

        assert (good.valid, good.name, good.version) == (True, "order", "1")
        assert (bad.valid, bad.name) == (False, None)
        assert harness.state.spaces == {}


class TestVersions:
    def test_a_run_is_of_the_latest_version_unless_another_is_asked_for(self):
        harness = workflow_harness(text("1"), "check").deploy(text("2"))

        first, second = harness.start(), harness.start(version="1")

        assert (harness.view(first).version, harness.view(second).version) == ("2", "1")

    def test_a_run_keeps_to_its_version_when_a_newer_one_is_deployed(self):
        old = document(
            """
start: {run: "@actions/check", transitions: {success: last}}
steps:
  last: {run: "@actions/old", transitions: {success: flo.Completed}}
"""
        )
        harness = workflow_harness(old, "check", "old", "new")
        harness.start()
        harness.deploy(text("2", action="new")).restart()

        harness.perform("check")

        assert harness.pending("old") == 1

    def test_a_version_that_is_not_deployed_is_refused(self):
        with pytest.raises(NotFound, match="has no version '7'") as refusal:
            workflow_harness(text()).start(version="7")

        assert refusal.value.code == "workflow_not_found"

    def test_a_workflow_that_is_not_deployed_is_refused(self):
        with pytest.raises(NotFound, match="workflow 'nothing' is not deployed"):
            WorkflowHarness().start("nothing")

    def test_a_version_is_deleted_and_the_one_before_it_is_the_latest_again(self):
        harness = WorkflowHarness().deploy(text("1"), text("2"))

        harness.execute(DeleteWorkflow(name="order", version="2"))

        assert harness.query(GetWorkflow(name="order")).versions == ["1"]

    def test_a_workflow_is_deleted_with_all_its_versions(self):
        harness = WorkflowHarness().deploy(text("1"), text("2"))

        assert harness.execute(DeleteWorkflow(name="order")).reply == Nothing()

        assert harness.query(ListWorkflows()).items == []
        with pytest.raises(NotFound):
            harness.execute(DeleteWorkflow(name="order"))

    def test_the_runs_of_a_deleted_workflow_go_on_to_their_end(self):
        harness = workflow_harness(text(), "check")
        harness.start()
        harness.execute(DeleteWorkflow(name="order"))
        assert harness.query(ListWorkflows()).items == []

        harness.restart()
        harness.perform("check")

        assert harness.status() == "completed"
        assert harness.space.workflows == {}
        assert harness.leftovers() == []

    def test_a_deleted_version_of_which_there_are_runs_cannot_get_another_meaning(self):
        harness = workflow_harness(text(), "check")
        harness.start()
        harness.execute(DeleteWorkflow(name="order"))

        with pytest.raises(Conflict, match="had another text as version '1', which was deleted"):
            harness.deploy(text(action="other"))
        harness.deploy(text()).restart()

        assert harness.query(GetWorkflow(name="order")).live_runs == 1
        harness.perform("check")
        assert harness.query(GetWorkflow(name="order")).live_runs == 0

    def test_a_version_that_was_deleted_does_not_come_back_with_another_text(self):
        harness = WorkflowHarness().deploy(text())
        harness.execute(DeleteWorkflow(name="order"))
        harness.restart()

        with pytest.raises(Conflict) as refusal:
            harness.deploy(text(action="other"))
        assert refusal.value.code == "version_exists"
        harness.deploy(text())
        harness.deploy(text(version="2", action="other"))

        assert harness.query(GetWorkflow(name="order", version="1")).text == text()

    @pytest.mark.parametrize("is_live", [True, False])
    def test_the_text_of_a_deleted_version_is_kept_for_its_runs(self, is_live):
        harness = workflow_harness(text(), "check")
        digest = harness.query(GetWorkflow(name="order")).definition
        harness.start()
        for delete_first in (True, False):
            if delete_first is is_live:
                harness.execute(DeleteWorkflow(name="order"))
            elif harness.status() != "completed":
                harness.perform("check")
        harness.restart()

        view = harness.query(GetWorkflow(name="order", version="1"))
        assert (view.text, view.definition) == (text(), digest)
        assert (view.deleted, view.enabled) == (True, False)
        assert harness.space.workflows == {}
        assert harness.query(GetWorkflowRun(run_id="wfrun-1")).definition == digest


class TestDisabling:
    def test_a_disabled_workflow_refuses_new_runs_and_lets_the_others_go_on(self):
        harness = workflow_harness(text(), "check")
        harness.start()

        harness.execute(DisableWorkflow(name="order"))

        with pytest.raises(Conflict) as refusal:
            harness.restart().start()
        assert refusal.value.code == "workflow_disabled"
        harness.perform("check")
        assert harness.status() == "completed"

    def test_an_enabled_workflow_takes_runs_again(self):
        harness = workflow_harness(text(), "check")
        harness.execute(DisableWorkflow(name="order"), EnableWorkflow(name="order"))

        assert harness.start() == "wfrun-1"

    def test_to_disable_or_enable_twice_changes_nothing(self):
        harness = WorkflowHarness().deploy(text())

        assert harness.execute(EnableWorkflow(name="order")).events == ()
        assert len(harness.execute(DisableWorkflow(name="order")).events) == 1
        assert harness.execute(DisableWorkflow(name="order")).events == ()

    @pytest.mark.parametrize("message", [DisableWorkflow, EnableWorkflow, DeleteWorkflow])
    def test_what_is_not_there_is_refused(self, message):
        with pytest.raises(NotFound):
            WorkflowHarness().execute(message(name="order"))

    def test_a_workflow_that_was_deleted_while_disabled_comes_back_enabled(self):
        harness = workflow_harness(text(), "check")
        harness.start()
        harness.execute(DisableWorkflow(name="order"), DeleteWorkflow(name="order"))

        harness.deploy(text("2"))

        assert harness.query(GetWorkflow(name="order")).enabled

    def test_a_disabled_workflow_repeats_no_runs(self):
        harness = workflow_harness(text(), "check")
        harness.start()
        harness.perform("check")
        harness.execute(DisableWorkflow(name="order"))

        with pytest.raises(Conflict) as refusal:
            harness.rerun("wfrun-1")

        assert refusal.value.code == "workflow_disabled"

    def test_a_disabled_version_refuses_new_runs_and_the_others_do_not(self):
        harness = workflow_harness(text(), "check").deploy(text("2"))
        harness.execute(DisableWorkflow(name="order", version="1"))
        harness = harness.restart()

        assert harness.start() == "wfrun-1"
        with pytest.raises(Conflict, match="version '1' of workflow 'order' is disabled"):
            harness.execute(StartWorkflow(name="order", version="1"))
        assert enabled(harness) == {"1": False, "2": True}

    def test_while_the_latest_version_is_disabled_a_start_has_to_name_another(self):
        harness = workflow_harness(text(), "check").deploy(text("2"))
        harness.execute(DisableWorkflow(name="order", version="latest"))

        with pytest.raises(Conflict, match="version '2'"):
            harness.start()
        harness.execute(StartWorkflow(name="order", version="1"))
        harness.deploy(text("3"))

        assert enabled(harness) == {"1": True, "2": False, "3": True}

    def test_a_version_is_enabled_alone_or_with_all_others(self):
        harness = workflow_harness(text(), "check").deploy(text("2"), text("3"))
        harness.execute(DisableWorkflow(name="order"), EnableWorkflow(name="order", version="2"))
        assert enabled(harness) == {"1": False, "2": True, "3": False}

        harness.execute(EnableWorkflow(name="order"))
        assert enabled(harness) == {"1": True, "2": True, "3": True}

    def test_to_disable_or_enable_a_version_twice_changes_nothing(self):
        harness = WorkflowHarness().deploy(text())
        only = {"name": "order", "version": "1"}

        assert harness.execute(EnableWorkflow(**only)).events == ()
        assert len(harness.execute(DisableWorkflow(**only)).events) == 1
        assert harness.execute(DisableWorkflow(**only)).events == ()
        with pytest.raises(NotFound):
            harness.execute(DisableWorkflow(name="order", version="9"))

    def test_a_version_that_was_deleted_while_disabled_comes_back_enabled(self):
        harness = WorkflowHarness().deploy(text(), text("2"))
        harness.execute(DisableWorkflow(name="order", version="1"))
        harness.execute(DeleteWorkflow(name="order", version="1"))

        harness.deploy(text())

        assert enabled(harness) == {"2": True, "1": True}

    def test_a_disabled_version_repeats_no_runs(self):
        harness = workflow_harness(text(), "check").deploy(text("2"))
        harness.start()
        harness.perform("check")
        harness.execute(DisableWorkflow(name="order", version="2"))

        with pytest.raises(Conflict, match="version '2'"):
            harness.rerun("wfrun-1")
        assert harness.rerun("wfrun-1", version="1") == "wfrun-2"


def enabled(harness):
    versions = harness.query(GetWorkflow(name="order")).versions
    return {one: harness.query(GetWorkflow(name="order", version=one)).enabled for one in versions}


class TestChosenIds:
    def test_a_run_is_called_what_it_is_to_be_called(self):
        harness = workflow_harness(text(), "check")

        assert harness.start(run_id="order-7") == "order-7"
        assert harness.start() == "wfrun-2"
        assert harness.view("order-7").current_step == "start"

    def test_no_two_runs_have_the_same_id_however_they_stand(self):
        harness = workflow_harness(text(), "check")
        harness.start(run_id="order-7")

        for stands in ("waiting", "completed"):
            assert harness.restart().status("order-7") == stands
            with pytest.raises(Conflict, match="a workflow run 'order-7' already") as refusal:
                harness.start(run_id="order-7")
            assert refusal.value.code == "run_exists"
            harness.perform("check") if stands == "waiting" else None

    def test_the_archive_knows_the_ids_that_memory_has_forgotten(self):
        harness = workflow_harness(text(more="idempotency: optional\n"), "check")
        harness.start(run_id="order-7", idempotency_key="k")
        harness.perform("check")
        harness.state.spaces["default"].workflow_keys.run_ids.clear()

        with pytest.raises(Conflict, match="already"):
            harness.start(run_id="order-7")
        assert harness.status("order-7") == "completed"
        assert harness.history_pairs("order-7")[0][0] == "workflow_started"
        assert harness.start(idempotency_key="k", run_id="order-8") == "order-7"
        with pytest.raises(NotFound):
            harness.view("order-8")

    def test_the_same_id_in_two_namespaces_is_two_runs(self):
        harness = workflow_harness(text(), "check")
        harness.execute(CreateWorkflow(text=text(), namespace="prod"))
        harness.start(run_id="order-7")

        assert harness.start(run_id="order-7", namespace="prod") == "order-7"

    @pytest.mark.parametrize("run_id", ["", "a b", "x" * 257, "wfrun-7", "wfrun-x", "a/b"])
    def test_what_cannot_be_an_id_is_refused(self, run_id):
        harness = workflow_harness(text(), "check")

        with pytest.raises(Invalid, match="expected a run id") as refusal:
            harness.start(run_id=run_id)
        assert refusal.value.code == "invalid_run_id"
        assert harness.start() == "wfrun-1"


class TestIdempotency:
    @pytest.mark.parametrize("mode", ["none", "optional", "required"])
    def test_the_same_key_is_the_same_run_while_it_lives(self, mode):
        harness = workflow_harness(text(more=f"idempotency: {mode}\n"), "check")
        harness.start(idempotency_key="k")

        decision = harness.restart().execute(StartWorkflow(name="order", idempotency_key="k"))

        known = WorkflowBegun(run_id="wfrun-1", duplicate=True, status=WorkflowStatus.WAITING)
        assert decision.reply == known
        assert decision.events == ()

    def test_a_run_that_failed_keeps_its_key_and_says_so(self):
        harness = workflow_harness(text(), "check")
        harness.start(idempotency_key="k")
        harness.fail("check")

        again = StartWorkflow(name="order", idempotency_key="k")

        known = WorkflowBegun(run_id="wfrun-1", duplicate=True, status=WorkflowStatus.FAILED)
        assert harness.execute(again).reply == known
        assert harness.restart().execute(again).reply == known

    def test_the_same_key_is_the_same_run_after_it_has_ended(self):
        harness = workflow_harness(text(more="idempotency: optional\n"), "check")
        harness.start(idempotency_key="k")
        harness.perform("check")

        assert harness.restart().start(idempotency_key="k") == "wfrun-1"

    def test_the_archive_knows_the_keys_that_memory_has_forgotten(self, monkeypatch):
        monkeypatch.setattr("flo.engine.idempotency.KEYS_REMEMBERED_MAX", 2)
        harness = workflow_harness(text(more="idempotency: optional\n"), "check")
        for number in range(5):
            harness.start(idempotency_key=f"k{number}")
            harness.perform("check")

        assert len(harness.space.workflow_keys.run_ids) == 2
        assert harness.restart().start(idempotency_key="k0") == "wfrun-1"

    def test_optional_wants_no_key(self):
        harness = workflow_harness(text(more="idempotency: optional\n"), "check")

        assert [harness.start(), harness.start()] == ["wfrun-1", "wfrun-2"]

    def test_required_refuses_a_start_without_a_key(self):
        harness = workflow_harness(text(more="idempotency: required\n"), "check")

        with pytest.raises(Invalid) as refusal:
            harness.start()

        assert refusal.value.code == "idempotency_key_required"

    def test_the_keys_of_other_workflows_are_others(self):
        optional = "idempotency: optional\n"
        harness = workflow_harness(text(more=optional), "check").deploy(
            text(name="other", more=optional)
        )

        runs = [harness.start(name, idempotency_key="k") for name in ("order", "other")]

        assert runs == ["wfrun-1", "wfrun-2"]

    def test_a_duplicate_is_told_even_while_the_workflow_is_disabled(self):
        harness = workflow_harness(text(more="idempotency: optional\n"), "check")
        harness.start(idempotency_key="k")
        harness.execute(DisableWorkflow(name="order"))

        assert harness.start(idempotency_key="k") == "wfrun-1"

    @pytest.mark.parametrize("key", ["", "k" * 513])
    def test_a_key_that_is_no_key_is_refused(self, key):
        harness = workflow_harness(text(more="idempotency: optional\n"), "check")

        with pytest.raises(Invalid):
            harness.start(idempotency_key=key)


THREE = document(
    """
start: {run: "@actions/a", transitions: {success: middle, failure: flo.Failed}}
steps:
  middle:
    run: "@actions/b"
    inputMapping: {a: $.steps.start.output, x: $.input.x}
    transitions: {success: last, failure: flo.Failed}
  last: {run: "@actions/c", transitions: {success: flo.Completed, failure: flo.Failed}}
"""
)


class TestRepeating:
    def failed(self):
        harness = workflow_harness(THREE, "a", "b", "c")
        harness.start(value={"x": 1})
        harness.perform("a", "A")
        harness.fail("b")
        return harness

    def test_a_run_is_repeated_from_a_step_with_the_results_of_those_before_it(self):
        harness = self.failed()

        run_id = harness.restart().rerun("wfrun-1", step="middle")

        assert run_id == "wfrun-2"
        assert harness.perform("b") == {"a": "A", "x": 1}
        harness.perform("c")
        assert harness.status(run_id) == "completed"
        assert (harness.view(run_id).origin, harness.view(run_id).triggered_by) == (
            "wfrun-1",
            "rerun",
        )
        assert harness.steps(run_id) == ["middle", "last"]

    def test_a_run_is_repeated_from_the_start_if_nothing_else_is_said(self):
        harness = self.failed()

        harness.rerun("wfrun-1")

        (*_, started) = events_of(harness, WorkflowStarted)
        assert started.run.origin == Origin(run_id="wfrun-1", step="start")
        assert started.run.results == {}
        assert harness.perform("a") == {"x": 1}

    def test_a_run_is_repeated_with_other_input(self):
        harness = self.failed()

        harness.rerun("wfrun-1", step="middle", input=b'{"x": 2}')

        assert harness.perform("b") == {"a": "A", "x": 2}

    def test_a_run_is_repeated_with_another_version(self):
        harness = self.failed()
        harness.register("d").deploy(THREE.replace('"1"', '"2"').replace("actions/b", "actions/d"))

        run_id = harness.rerun("wfrun-1", step="middle", version="2")

        assert harness.view(run_id).version == "2"
        assert harness.pending("d") == 1

    def test_a_run_that_is_still_under_way_may_be_repeated(self):
        harness = workflow_harness(THREE, "a", "b", "c")
        harness.start()
        harness.perform("a", "A")

        harness.rerun("wfrun-1", step="middle")

        assert harness.pending("b") == 2

    def test_a_step_that_is_not_there_is_refused_with_those_that_are(self):
        harness = self.failed()

        with pytest.raises(Invalid, match="it has start, middle, last") as refusal:
            harness.rerun("wfrun-1", step="nowhere")

        assert refusal.value.code == "step_not_found"

    def test_a_run_that_never_was_is_refused(self):
        with pytest.raises(NotFound):
            self.failed().rerun("wfrun-9")

    def test_a_repetition_may_be_repeated(self):
        harness = self.failed()
        harness.rerun("wfrun-1", step="middle")
        harness.fail("b")

        harness.rerun("wfrun-2", step="middle")

        assert harness.perform("b") == {"a": "A", "x": 1}


class TestSlots:
    LIMITED = text(more='concurrency: {key: "{input.customer}", max: 2}\n')

    def held(self, harness):
        return {
            key[1]: list(permits.holders) for key, permits in harness.space.workflow_permits.items()
        }

    def test_never_more_runs_than_the_limit_are_under_way_for_a_key(self):
        harness = workflow_harness(self.LIMITED, "check")
        for _ in range(5):
            harness.start(value={"customer": "p"})
        harness.start(value={"customer": "q"})

        assert self.held(harness) == {"p": ["wfrun-1", "wfrun-2"], "q": ["wfrun-6"]}
        assert harness.pending("check") == 3
        assert harness.status("wfrun-3") == "pending"

    def test_those_in_line_have_their_turn_in_order_even_across_a_restart(self):
        harness = workflow_harness(self.LIMITED, "check")
        for _ in range(5):
            harness.start(value={"customer": "p"})
        for _ in range(5):
            harness.restart()
            harness.perform("check")

        admitted = [event.run_id for event in events_of(harness, WorkflowAdmitted)]
        assert admitted == [f"wfrun-{number}" for number in range(1, 6)]
        assert harness.leftovers() == []

    @pytest.mark.parametrize("end", ["fail", "cancel"])
    def test_a_permit_is_given_back_however_a_run_ends(self, end):
        harness = workflow_harness(text(more="concurrency: 1\n"), "check")
        harness.start()
        harness.start()

        if end == "fail":
            harness.fail("check")
        else:
            harness.cancel("wfrun-1")

        assert self.held(harness) == {"": ["wfrun-2"]}
        harness.perform("check")
        assert harness.leftovers() == []

    def test_who_leaves_the_line_is_not_waited_for(self):
        harness = workflow_harness(text(more="concurrency: 1\n"), "check")
        for _ in range(3):
            harness.start()
        harness.cancel("wfrun-2")

        harness.perform("check")

        assert self.held(harness) == {"": ["wfrun-3"]}
        harness.perform("check")
        assert harness.leftovers() == []

    def test_a_deleted_workflow_leaves_no_permit_behind(self):
        harness = workflow_harness(text(more="concurrency: 1\n"), "check")
        harness.start()
        harness.start()
        harness.execute(DeleteWorkflow(name="order"))
        harness.restart()
        harness.perform("check")
        harness.perform("check")

        assert harness.leftovers() == []

    def test_a_run_keeps_its_permit_until_all_is_undone(self):
        saga = one_step(
            '{run: "@actions/check", rollback: "@actions/undo", '
            "transitions: {success: flo.Failed}}",
            more="concurrency: 1\n",
        )
        harness = workflow_harness(saga, "check", "undo")
        harness.start()
        harness.start()
        harness.perform("check")
        assert self.held(harness) == {"": ["wfrun-1"]}

        harness.perform("undo")

        assert self.held(harness) == {"": ["wfrun-2"]}

    def test_runs_that_end_at_once_do_not_hold_the_line_up(self):
        harness = workflow_harness(text(action="nobody", more="concurrency: 1\n"))

        runs = [harness.start() for _ in range(3)]

        assert [harness.status(run_id) for run_id in runs] == ["failed"] * 3
        assert harness.leftovers() == []

    def test_children_wait_in_line_too_and_fairly(self):
        child = text(name="child", more="concurrency: 1\n")
        again = one_step(
            '{run: "@workflow/child", retry: {max_attempts: 2, initial_delay_ms: 0}, '
            "transitions: {success: flo.Completed, failure: flo.Failed}}"
        )
        harness = workflow_harness(child, "check").deploy(again)
        harness.start()
        harness.start("child")
        harness.later()
        assert harness.status("wfrun-3") == "pending"

        harness.fail("check")
        harness.later()
        assert self.held(harness) == {"": ["wfrun-3"]}

        harness.perform("check")
        harness.later()
        harness.perform("check")
        assert harness.status() == "completed"
        assert harness.leftovers() == []

    def test_a_key_may_be_anything_that_an_input_holds(self):
        harness = workflow_harness(self.LIMITED, "check")

        harness.start(value={"customer": "x" * 5_000})
        harness.execute(StartWorkflow(name="order", input=b"no json"))

        assert harness.pending("check") == 2
        assert max(len(key) for _, key in harness.space.workflow_permits) <= 1_024


def test_a_run_knows_when_it_was_made_and_with_what():
    harness = workflow_harness(text(more="idempotency: optional\n"), "check")

    harness.start(value={"id": 7}, idempotency_key="k")

    view = harness.view("wfrun-1")
    assert (view.created_at_ms, view.input, view.idempotency_key) == (NOON_MS, b'{"id": 7}', "k")
    assert view.triggered_by == "manual"


def test_an_input_that_is_too_large_is_refused():
    harness = workflow_harness(text(), "check")

    with pytest.raises(TooLarge):
        harness.execute(StartWorkflow(name="order", input=b"x" * (16 * 1024 * 1024 + 1)))
