import msgspec
import pytest

from flo import Flo, Invalid, Invocation, RunStatus, RunUnsuccessful


class Sum(msgspec.Struct):
    sum: int


async def invoked(flo: Flo) -> Invocation:
    """A run in the hands of anna."""
    await flo.actions.register("add", max_retries=0)
    invocation = await flo.actions.invoke("add", [1, 2])
    await flo.workers.claim("anna", ["add"])
    return invocation


async def test_it_shows_itself_as_its_run_id(flo: Flo) -> None:
    invocation = await invoked(flo)

    assert str(invocation) == invocation.run_id == "add-1"
    assert (await invocation.status()).status is RunStatus.RUNNING


async def test_its_result_is_decoded_to_the_type_asked_for(flo: Flo) -> None:
    invocation = await invoked(flo)
    await flo.workers.complete("add-1", "anna", {"sum": 3}, attempt=1)

    assert await invocation.result() == {"sum": 3}
    assert await invocation.result(Sum) == Sum(sum=3)
    assert (await invocation.wait(timeout=5.0)).output == b'{"sum":3}'


async def test_a_result_of_another_type_names_the_run(flo: Flo) -> None:
    invocation = await invoked(flo)
    await flo.workers.complete("add-1", "anna", {"product": 2}, attempt=1)

    with pytest.raises(Invalid, match=r"'add-1'.*Sum"):
        await invocation.result(Sum)


async def test_no_output_is_none(flo: Flo) -> None:
    invocation = await invoked(flo)
    await flo.workers.complete("add-1", "anna", attempt=1)

    assert await invocation.result() is None


async def test_a_run_that_failed_has_no_result_but_a_reason(flo: Flo) -> None:
    invocation = await invoked(flo)
    await flo.workers.fail("add-1", "anna", "cannot add", code="overflow", attempt=1)

    with pytest.raises(RunUnsuccessful, match="'add-1' has failed: cannot add") as raised:
        await invocation.result()
    assert raised.value.code == "run_failed"
    assert raised.value.run.status is RunStatus.FAILED
    assert (raised.value.error_code, raised.value.retryable) == ("overflow", True)
    assert raised.value.details == {
        "run_id": "add-1",
        "status": "failed",
        "attempt": 1,
        "error_code": "overflow",
        "retryable": True,
    }
