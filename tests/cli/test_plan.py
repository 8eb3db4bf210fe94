import json

import pytest

from cli.servers import ServerClock, deploy_pay, run_pay, running_server
from flo.client.blocking import BlockingFlo

TEN_O_CLOCK_MS = 1_773_482_400_000
COOLDOWN_MS = 30_000


def test_a_plan_that_was_never_used_shows_its_executors(shell, pay):
    assert shell("flo plan status pay charge") == (
        0,
        """\
Plan:      charge
Workflow:  pay (version 1)
Selection: static-order
Begun:     0 times
Kept:      0 results

EXECUTOR  ACTION         PRIORITY  BREAKER  SCORE  SAMPLES  ANSWERED  GOOD  RATE                   FREE
stripe    charge-stripe  100       closed   1.00   0 / 10   -         -     0 of 2/s, 0 of 50/min  now
adyen     charge-adyen   50        -        1.00   0 / 10   -         -     -                      -
""",  # noqa: E501
        "",
    )


def row(printed, executor):
    (found,) = [line for line in printed.out.splitlines() if line.startswith(executor)]
    return " ".join(found.split())


def test_a_plan_in_use_shows_breakers_health_and_windows(shell, monkeypatch, namespace):
    clock = ServerClock(TEN_O_CLOCK_MS)
    with running_server(clock) as server, BlockingFlo(server.address, namespace=namespace) as pay:
        monkeypatch.setenv("FLO_ENDPOINT", server.address)
        deploy_pay(pay)
        run_pay(pay, {"order": 1}, fails=True)
        once = shell("flo plan status pay charge")
        assert row(once, "stripe") == (
            "stripe charge-stripe 100 closed (1 of 2 failures) 1.00 1 / 10 0% 0% "
            "1 of 2/s, 1 of 50/min now"
        )
        assert row(once, "adyen") == "adyen charge-adyen 50 - 1.00 1 / 10 100% 100% - -"

        run_pay(pay, {"order": 2}, fails=True)
        assert row(shell("flo plan status pay charge"), "stripe") == (
            "stripe charge-stripe 100 open until 2026-03-14 10:00:30+00:00 0.10 2 / 10 0% 0% "
            "2 of 2/s, 2 of 50/min 2026-03-14 10:00:01+00:00"
        )
        assert shell("flo plan status pay charge -o raw").out == "adyen\n"

        clock.let_pass(COOLDOWN_MS)
        assert row(shell("flo plan status pay charge"), "stripe") == (
            "stripe charge-stripe 100 half_open 0.50 2 / 10 0% 0% 0 of 2/s, 2 of 50/min now"
        )
        assert shell("flo plan status pay charge -o raw").out == "stripe\nadyen\n"


def test_a_plan_in_json_is_all_there_is(shell, pay):
    run_pay(pay, {"order": 1})
    plan = json.loads(shell("flo plan status pay charge --format json").out)

    assert (plan["workflow"], plan["version"], plan["plan"]) == ("pay", "1", "charge")
    assert (plan["selection"], plan["begun"], plan["cached"]) == ("static-order", 1, 1)
    stripe, adyen = plan["executors"]
    assert (stripe["breaker"], stripe["samples"], stripe["succeeded"]) == ("closed", 1, 1.0)
    assert [window["limit"] for window in stripe["windows"]] == [2, 50]
    assert (adyen["breaker"], adyen["failures_max"], adyen["windows"]) == ("none", None, [])


def test_each_version_of_a_workflow_has_plans_of_its_own(shell, pay):
    run_pay(pay, {"order": 1})
    text = pay.workflows.get("pay").text
    pay.workflows.create(text.replace('version: "1"', 'version: "2"'))

    assert "Begun:     0 times\n" in shell("flo plan status pay charge").out
    assert "Begun:     1 time\n" in shell("flo plan get pay charge --version 1").out


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("pay chrge", "workflow 'pay' has no plan 'chrge'; it has charge [plan_not_found]"),
        ("pya charge", "workflow 'pya' is not deployed [workflow_not_found]"),
        ("pay charge -v 7", "workflow 'pay' has no version '7'; it has 1 [workflow_not_found]"),
    ],
)
def test_a_plan_that_is_not_there_is_not_found(shell, pay, line, shown):
    printed = shell(f"flo plan status {line}")

    assert printed.code == 1
    assert printed.err.startswith(f"Error: {shown}")
    assert printed.out == ""


def test_a_plan_is_named_with_its_workflow(shell):
    printed = shell("flo plan status charge")

    assert printed.code == 2
    assert "Missing argument 'PLAN'" in printed.err
