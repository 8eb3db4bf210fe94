"""Jobs as the published worker accepts them."""

import pytest

from flo.compat.neops.jobs import JobToGive, job_answer, label_of, problem_of

DEVICE = {"id": 7, "hostname": "r1", "facts": {"a": 1}, "platform": {"id": 1}, "unknown": [1]}


def job(**parts):
    given = {
        "job_id": "block:lab:echo:1.0.0:execute-1.1",
        "block_id": "lab/echo:1.0.0",
        "type": "execute",
        "parameters": {},
    }
    return job_answer(JobToGive(**{**given, **parts}))


def test_a_job_for_nothing_in_particular_is_accepted():
    assert problem_of(job()) is None


def test_a_job_for_a_device_is_accepted():
    assert problem_of(job(run_on="device", entity_id=7, devices=(DEVICE,))) is None


def test_all_three_lists_are_there_also_when_they_are_empty():
    assert job()["context"] == {"devices": [], "deviceGroups": [], "interfaces": []}


@pytest.mark.parametrize(
    "parts",
    [
        {"run_on": "device", "entity_id": 7},
        {"run_on": "device", "devices": (DEVICE,)},
        {"run_on": "nothing"},
        {"type": "EXECUTE"},
        {"parameters": None},
        {"devices": ({**DEVICE, "id": 0},)},
        {"devices": ({**DEVICE, "hostname": 7},)},
        {"devices": ({**DEVICE, "connectionState": "ok"},)},
        {"devices": ({"hostname": "r1"},)},
        {"interfaces": ({"id": 1, "state": "up"},)},
        {"device_groups": ({"id": 1, "createdAt": "yesterday"},)},
    ],
)
def test_a_job_that_the_worker_could_not_read_is_found_beforehand(parts):
    assert problem_of(job(**parts)) is not None


def test_acquire_has_no_context_and_needs_none():
    assert problem_of(job(type="acquire", run_on="device", entity_id=7)) is None


@pytest.mark.parametrize("step", ["parameters", "context", "steps", "a-b", "1a", "outer-inner", ""])
def test_a_step_whose_name_is_no_label_goes_without(step):
    assert label_of(step) is None
    assert problem_of(job(step_label=step)) is None


def test_a_label_is_told():
    assert job(step_label="get_version")["stepLabel"] == "get_version"
