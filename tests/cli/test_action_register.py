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
    ("flags", "problem"),
    [
        ("--concurrency-key '{input.id}'", "--concurrency-key says what to count"),
        ("--rate 100", "expected a rate such as 100/s, 5000/m or 50000/h, got '100'"),
        ("--rate 100/day", "got '100/day'"),
        ("--rate -1/s", "got '-1/s'"),
    ],
)
def test_limits_that_mean_nothing_are_refused(shell, flags, problem):
    printed = shell(f"flo action register charge {flags}")

    assert printed.code == 2
    assert problem in printed.err
    assert shell("flo action list").out == "(no actions)\n"
