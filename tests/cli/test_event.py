import json

from cli.servers import run_pay


def test_an_event_lets_plans_forget_their_results(shell, pay):
    run_pay(pay, {"order": 1})
    run_pay(pay, {"order": 2})

    assert shell("flo event emit prices-changed") == (
        0,
        "Emitted event: prices-changed (2 results of 1 plan forgotten)\n",
        "",
    )
    assert "Kept:      0 results\n" in shell("flo plan status pay charge").out


def test_an_event_that_no_plan_names_changes_nothing(shell, pay):
    run_pay(pay, {"order": 1})

    assert shell("flo event emit something-else").out == (
        "Emitted event: something-else (0 results of 0 plans forgotten)\n"
    )
    assert "Kept:      1 result\n" in shell("flo plan status pay charge").out


def test_an_event_stays_in_its_namespace(shell, pay):
    run_pay(pay, {"order": 1})

    assert "0 results" in shell("flo event emit prices-changed -n elsewhere").out
    assert "1 result of 1 plan" in shell("flo event emit prices-changed").out


def test_what_was_emitted_is_told_to_programs(shell, pay):
    run_pay(pay, {"order": 1})

    assert json.loads(shell("flo event emit prices-changed --format json").out) == {
        "name": "prices-changed",
        "plans": 1,
        "results": 1,
    }
    assert shell("flo event emit prices-changed -o raw").out == "prices-changed\n"


def test_the_name_of_an_event_has_a_bound(shell):
    refused = shell(f"flo event emit {'x' * 10_000}")

    assert refused.code == 3
    assert "[too_large]" in refused.err
