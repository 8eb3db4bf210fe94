import json

import pytest


def test_every_setting_of_an_action_has_a_flag(shell, client):
    shell(
        "flo action register send-email --timeout 60000 -r 5 --retry-delay 250"
        " --description 'Sends one email'"
    )

    action = client.actions.get("send-email")
    assert action.timeout_ms == 60_000
    assert action.max_retries == 5
    assert action.retry_delay_ms == 250
    assert action.description == "Sends one email"


def test_registering_again_makes_a_new_version(shell):
    shell("flo action register send-email")

    printed = shell("flo action register send-email --format json")

    assert json.loads(printed.out) == {"name": "send-email", "version": 2}


def test_schemas_come_from_files_or_stand_on_the_line(shell, client, tmp_path):
    (tmp_path / "email.schema.json").write_text('{"required": ["to"]}')

    shell(
        f"flo action register send-email --input-schema {tmp_path}/email.schema.json"
        """ --output-schema '{"required":["status"]}'"""
    )

    action = client.actions.get("send-email")
    assert action.input_schema == {"required": ["to"]}
    assert action.output_schema == {"required": ["status"]}


def test_an_input_that_does_not_fit_is_refused_and_says_where(shell):
    shell(
        "flo action register send-email --input-schema"
        """ '{"properties":{"to":{"type":"string"}}}'"""
    )

    printed = shell("""flo action invoke send-email '{"to":7}'""")

    assert printed.code == 3
    assert printed.out == ""
    assert "/to: 7 is not of type" in printed.err
    assert printed.err.endswith("[input_invalid]\n")


def test_a_schema_that_is_none_is_refused(shell):
    printed = shell("""flo action register send-email --input-schema '{"type":"text"}'""")

    assert printed.code == 3
    assert "[invalid_schema]" in printed.err


def test_the_limits_of_an_action_have_flags_and_are_shown(shell, client):
    shell(
        "flo action register charge --concurrency 2 --concurrency-key '{input.customer_id}'"
        " --rate 100/s --rate 5000/m"
    )

    limits = client.actions.get("charge").limits
    assert (limits.concurrency_max, limits.concurrency_key) == (2, "{input.customer_id}")
    assert (limits.max_per_second, limits.max_per_minute) == (100, 5_000)
    assert limits.max_per_hour is None
    shown = shell("flo action info charge").out
    assert "\nConcurrency: 2 for each {input.customer_id}\n" in shown
    assert "\nRate:        100/s, 5000/m\n" in shown


def test_an_action_without_limits_shows_none(shell):
    shell("flo action register charge")
    shown = shell("flo action info charge").out

    assert "Concurrency" not in shown
    assert "Rate:" not in shown


@pytest.mark.parametrize(
    ("flags", "problem", "code"),
    [
        ("--concurrency-key x", "needs --concurrency", 2),
        ("--rate 100", "expected a rate such as 100/s", 2),
        ("--rate 5/d", "expected a rate such as 100/s", 2),
        ("--rate fast/s", "expected a rate such as 100/s", 2),
        ("--rate 5/s --rate 6/s", "says twice", 2),
        ("--rate 0/s", "'--rate': expected 1 ", 2),
        ("--concurrency 0", "'--concurrency': expected 1 ", 2),
        ("--concurrency 1 --concurrency-key '{input'", "--concurrency-key: ", 3),
        ("--concurrency 1 --concurrency-key '{steps.a.output}'", "into the input", 3),
        (
            "--rate 1/s --concurrency-key x",
            "--concurrency-key says what to count, and needs --concurrency",
            3,
        ),
    ],
)
def test_limits_that_cannot_work_are_refused(shell, flags, problem, code):
    printed = shell(f"flo action register charge {flags}")

    assert (printed.code, problem in printed.err) == (code, True), printed.err


def test_one_at_a_time_for_each_key_on_the_command_line(shell):
    shell("flo action register charge --concurrency 1 --concurrency-key '{input.who}'")
    for who in "ppq":
        shell(f"""flo action invoke charge '{{"who":"{who}"}}'""")

    claim = "flo worker await charge --worker-id w --max-tasks 9 --block 0 --format raw"
    assert shell(claim).out.split() == ["charge-1", "charge-3"]
    shell("flo worker complete charge-1 --worker-id w")

    assert shell(claim).out.split() == ["charge-2"]
