"""What the log remembers besides results, on a real server: late reports, since when, by whom."""

import httpx
import pytest

from acceptance.command_line import shown
from flo import Flo
from flo.model.errors import FloError
from flo.testing.process import ServerProcess


async def leaves_with_a_task(flo: Flo, action: str, *, max_retries: int) -> str:
    """A run whose worker has left; it may still report."""
    await flo.actions.register(action, max_retries=max_retries)
    run_id = (await flo.actions.invoke(action)).run_id
    await flo.workers.register("anna", [action])
    await flo.workers.claim("anna", [action])
    await flo.workers.deregister("anna")
    return run_id


@pytest.mark.parametrize("max_retries", [0, 3], ids=["ended", "live"])
async def test_a_late_report_is_refused_and_outlives_a_kill(
    server: ServerProcess, flo: Flo, max_retries: int
) -> None:
    run_id = await leaves_with_a_task(flo, "charge", max_retries=max_retries)
    with pytest.raises(FloError) as refusal:
        await flo.workers.complete(run_id, "anna", {"charged": 12}, attempt=1)
    assert refusal.value.code == "lease_lost"

    server.kill()
    server.start()

    status = shown(server, "action", "status", run_id)
    assert 'by anna, too late: success: {"charged":12}' in " ".join(status.split())
    assert "reported 'success' of it afterwards" in shown(server, "action", "explain", run_id)
    async with httpx.AsyncClient(base_url=server.http_url) as http:
        (attempt,) = (await http.get(f"/api/v1/runs/{run_id}")).json()["attempts"]
    assert attempt["late_report"]["output"] == {"charged": 12}


async def test_explain_says_since_when_and_by_whom_also_after_a_kill(
    server: ServerProcess, flo: Flo
) -> None:
    await flo.actions.register("charge")
    run_id = (await flo.actions.invoke("charge")).run_id
    async with httpx.AsyncClient(base_url=server.http_url) as http:
        reason = {"Flo-Reason": "the provider is down"}
        await http.put("/api/v1/actions/charge", json={"enabled": False}, headers=reason)
        explained = (await http.get(f"/api/v1/runs/{run_id}/explain")).json()
    causes = {cause["code"]: cause for cause in explained["causes"]}
    disabled = causes["action_disabled"]

    server.kill()
    server.start()

    shown_now = shown(server, "action", "explain", run_id)
    assert f"(position {disabled['since_position']}) by http 127.0.0.1" in shown_now
    assert f"(position {causes['no_worker']['since_position']})" in shown_now
    (again,) = [
        cause
        for cause in (await flo.actions.explain(run_id)).causes
        if cause.code == "action_disabled"
    ]
    assert (again.since_at_ms, again.by) == (disabled["since_at"], "http 127.0.0.1")
