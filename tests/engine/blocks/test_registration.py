"""Blocks are registered with schemas and versions; references find the highest that fits."""

import pytest

from flo.model.actions import GetAction, ListActions, RegisterAction
from flo.model.blocks.blocks import (
    BlockDeclaration,
    DeleteBlock,
    GetBlock,
    ListBlocks,
    RegisterBlocks,
)
from flo.model.blocks.jobs import GetJob, ListJobs
from flo.model.blocks.names import (
    JobType,
    job_action,
    job_id_of,
    parse_job_action,
    parse_job_id,
    parse_reference,
)
from flo.model.errors import Invalid, NotFound
from given import given

from .stubs import SET, TWO_STEPS, BlockWorkerStub, block, deployed, register, schema, start


def shown(engine, reference):
    return engine.query(GetBlock(block=reference)).block


def test_a_reference_finds_the_highest_version_and_never_another_major():
    versions = ("1.0.0", "1.2.0", "1.2.10", "1.2.9", "1.10.0", "2.0.0")
    engine = given(register(*(block("echo", version) for version in versions)))

    assert shown(engine, "lab/echo:1") == "lab/echo:1.10.0"
    assert shown(engine, "lab/echo:1.2") == "lab/echo:1.2.10"
    assert shown(engine, "lab:echo:1.2.9") == "lab/echo:1.2.9"
    assert shown(engine, "lab/echo:2") == "lab/echo:2.0.0"
    for missing in ("lab/echo:3", "lab/echo:1.3", "lab/echo:1.2.1", "lab/other:1"):
        with pytest.raises(NotFound):
            shown(engine, missing)


@pytest.mark.parametrize("text", ["lab/echo", "echo:1", "lab/echo:x", "lab/echo:1.2.3.4", "/a:1"])
def test_what_is_no_reference_is_refused(text):
    assert parse_reference(text) is None
    with pytest.raises(Invalid):
        given().query(GetBlock(block=text))


def test_what_is_registered_again_changes_nothing():
    engine = given(register(SET))
    decision = engine.execute(register(SET))

    assert decision.events == ()
    assert [one.created for one in decision.reply.blocks] == [False]


@pytest.mark.parametrize("version", ["1.0.0", "1.0.1", "1.1.0"])
def test_a_version_may_ask_for_no_more_than_the_one_before_it(version):
    engine = given(register(block("set", parameter_schema=schema(vlan="integer"))))
    more = block("set", version, parameter_schema=schema(vlan="integer", name="string"))

    with pytest.raises(Invalid) as refusal:
        engine.execute(register(block("fine"), more))

    assert refusal.value.code == "block_incompatible"
    assert engine.query(ListBlocks()).items[0].name == "set"
    engine.execute(register(block("set", "2.0.0", parameter_schema=more.parameter_schema)))


def test_a_result_may_have_more_and_not_less():
    engine = given(register(block("look", result_schema=schema(a="string"))))

    engine.execute(register(block("look", "1.1.0", result_schema=schema(a="string", b="string"))))
    with pytest.raises(Invalid, match="lacks b"):
        engine.execute(register(block("look", "1.2.0", result_schema=schema(a="string"))))


def test_the_actions_of_blocks_are_theirs_alone():
    engine = given(register(SET))
    name = job_action("lab/set:1.0.0", JobType.EXECUTE)

    assert engine.query(ListActions()).items == []
    assert engine.query(GetAction(name=name)).max_retries == 2
    with pytest.raises(Invalid, match="actions of blocks"):
        engine.execute(RegisterAction(name=name))


def test_names_of_jobs_are_read_as_they_are_written():
    name = job_action("lab.x/set-1:1.2.3", JobType.ROLLBACK)

    assert parse_job_action(name) == ("lab.x/set-1:1.2.3", JobType.ROLLBACK)
    assert parse_job_id(job_id_of(f"{name}-7", 2)) == (f"{name}-7", 2)
    assert parse_job_action("send") is None
    assert parse_job_id("send-1.2") is None


def test_jobs_are_shown_by_attempt():
    engine = deployed(TWO_STEPS)
    anna = BlockWorkerStub(engine)
    start(engine, vlan=7)
    job = engine.query(ListJobs(job=JobType.ACQUIRE)).items[0]
    anna.take()
    anna.fail("broken", retry=True)

    first = engine.query(GetJob(job_id=job.job_id))
    assert (first.status, first.error, first.workflow_run_id) == ("failed", "broken", "wfrun-1")
    second = engine.query(GetJob(job_id=job_id_of(job.run_id, 2)))
    assert (second.status, second.worker_id) == ("pending", None)
    with pytest.raises(NotFound):
        engine.query(GetJob(job_id=job_id_of(job.run_id, 3)))
    with pytest.raises(NotFound):
        engine.query(GetJob(job_id="send-1.1"))


def test_a_block_can_be_deleted_and_pages_go_on():
    engine = given(register(block("a"), block("b"), block("c")))
    page = engine.query(ListBlocks(limit=2))
    engine.execute(DeleteBlock(block="lab/c:1.0.0"))

    assert [one.name for one in page.items] == ["a", "b"]
    assert engine.query(ListBlocks(limit=2, cursor=page.cursor)).items == []
    with pytest.raises(NotFound):
        engine.execute(DeleteBlock(block="lab/c:1.0.0"))


@pytest.mark.parametrize(("name", "version"), [("", "1.0.0"), ("set-vlan", "newest")])
def test_a_block_with_a_name_or_version_that_is_none_is_refused(name, version):
    declared = BlockDeclaration(package="network", name=name, version=version)

    with pytest.raises(Invalid, match="expected a"):
        given().execute(RegisterBlocks(blocks=[declared]))
