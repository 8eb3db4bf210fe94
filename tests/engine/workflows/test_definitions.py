"""Definitions by their digests: kept while a record names them, found by how they begin."""

from hashlib import sha256

import pytest

from flo.engine.workflows.definitions import DEFINITION_KIND
from flo.engine.workflows.lists.deleted import RECENT_MAX
from flo.model.errors import Conflict, Invalid, NotFound
from flo.model.executions.definitions import GetDefinition
from flo.model.workflows import CreateWorkflow, DeleteWorkflow, GetWorkflow
from flows import one_step, workflow_harness

STEP = '{run: "@actions/check", transitions: {success: flo.Completed, failure: flo.Failed}}'
TEXT = one_step(STEP)
DIGEST = sha256(TEXT.encode()).hexdigest()
DELETE = DeleteWorkflow(name="order")


def shown(harness, digest=DIGEST):
    view = harness.query(GetDefinition(definition=digest))
    return view.name, view.version, view.text == TEXT, view.deleted


def rows(harness):
    return [row for row in harness.archive._rows.values() if row.kind == DEFINITION_KIND]


@pytest.mark.parametrize("digest", [DIGEST, DIGEST[:8], DIGEST[:12].upper()])
def test_a_definition_is_found_by_its_digest_or_its_first_digits(digest):
    harness = workflow_harness(TEXT, "check")
    assert shown(harness, digest) == ("order", "1", True, False)

    harness.execute(DELETE)

    assert shown(harness, digest) == ("order", "1", True, True)
    assert harness.query(GetWorkflow(name="order", version="1")).text == TEXT


def test_one_that_live_runs_need_is_found_and_then_filed_with_the_last_of_them():
    harness = workflow_harness(TEXT, "check")
    harness.start()
    harness.start()
    harness.execute(DELETE)
    assert (shown(harness), rows(harness)) == (("order", "1", True, True), [])

    harness.perform("check")
    assert rows(harness) == []
    harness.perform("check")

    assert len(rows(harness)) == 1
    assert shown(harness) == ("order", "1", True, True)
    assert harness.view("wfrun-1").definition == DIGEST


def test_retention_forgets_the_runs_of_a_definition_before_it_forgets_the_text():
    harness = workflow_harness(TEXT, "check")
    harness.start()
    harness.execute(DELETE)
    harness.perform("check")

    while harness.archive.trim(0, len(harness.archive._rows) - 1, 1):
        runs = [row for row in harness.archive._rows.values() if row.kind == "workflow"]
        assert rows(harness) or not runs
    assert (rows(harness), runs) == ([], [])
    with pytest.raises(NotFound) as refusal:
        shown(harness)
    assert refusal.value.code == "definition_not_found"


def test_several_that_begin_alike_are_named():
    harness = workflow_harness(TEXT, "check")
    harness.deploy(one_step(STEP, version="2"))
    for deployed in harness.space.workflows["order"].versions.values():
        digest = DIGEST[:8] + deployed.digest.hex()[8:]
        version = deployed.definition.version
        harness.space.workflows["order"].versions[version] = deployed._replace(
            digest=bytes.fromhex(digest)
        )

    with pytest.raises(Conflict) as refusal:
        harness.query(GetDefinition(definition=DIGEST[:8]))

    assert refusal.value.code == "definition_ambiguous"
    assert len(refusal.value.details["definitions"]) == 2


@pytest.mark.parametrize("digest", ["", DIGEST[:7], "x" * 8, DIGEST + "0"])
def test_what_is_no_digest_is_refused(digest):
    with pytest.raises(Invalid):
        workflow_harness(TEXT).query(GetDefinition(definition=digest))


def test_versions_deleted_long_ago_never_come_back_also_after_a_restart():
    harness = workflow_harness(TEXT)
    for number in range(RECENT_MAX + 2):
        harness.deploy(one_step(STEP, version=f"v{number}"))
        harness.execute(DeleteWorkflow(name="order", version=f"v{number}"))
    harness.restart()

    for number in (0, 1, RECENT_MAX + 1):
        with pytest.raises(Conflict) as refusal:
            harness.deploy(one_step(STEP.replace("check", "other"), version=f"v{number}"))
        assert refusal.value.code == "version_exists"
    again = CreateWorkflow(text=one_step(STEP, version=f"v{RECENT_MAX + 1}"))
    assert harness.execute(again).reply.created
