import json

import pytest

from cli.stage import obedient_worker, running_server
from flo.testing.clock import ManualClock

TEN_O_CLOCK_MS = 1_773_482_400_000
"""2026-03-14 10:00:00"""


def claim(client, action):
    client.workers.register("worker-1", [action])
    return client.workers.claim("worker-1", [action]).tasks[0].task_id


def test_the_session_of_the_docs(shell, monkeypatch):
    with running_server(ManualClock(TEN_O_CLOCK_MS)) as server:
        monkeypatch.setenv("FLO_ENDPOINT", server.address)

        assert shell("flo action register send-email --timeout 60000 --max-retries 3") == (
            0,
            "Registered action: send-email\n",
            "",
        )
        assert shell(
            """flo action invoke send-email '{"to":"alice@example.com","subject":"Welcome!"}'"""
        ) == (0, "Result: send-email-1\n", "")
        assert shell("flo action status send-email-1") == (
            0,
            "RUN ID        STATUS   CREATED\nsend-email-1  pending  2026-03-14 10:00:00\n",
            "",
        )


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


def test_every_limit_of_an_action_has_a_flag_and_is_shown(shell, client):
    shell(
        "flo action register charge --concurrency 2 --concurrency-key '{input.customer_id}'"
        " --rate 100/s --rate 5000/m --rate 9/h"
    )

    limits = client.actions.get("charge").limits
    assert (limits.concurrency_max, limits.concurrency_key) == (2, "{input.customer_id}")
    assert (limits.max_per_second, limits.max_per_minute, limits.max_per_hour) == (100, 5_000, 9)
    shown = "2 at a time for each {input.customer_id}, 100/s, 5000/m, 9/h"
    assert shown in shell("flo action info charge").out


def test_an_action_without_limits_shows_none(shell):
    shell("flo action register charge")

    assert "Limits" not in shell("flo action info charge").out


@pytest.mark.parametrize(
    ("flags", "problem", "code"),
    [
        ("--concurrency-key x", "needs --concurrency", 2),
        ("--rate 100", "expected a rate such as 100/s", 2),
        ("--rate 5/d", "expected a rate such as 100/s", 2),
        ("--rate fast/s", "expected a rate such as 100/s", 2),
        ("--rate 5/s --rate 6/s", "says twice", 2),
        ("--rate 0/s", "max_per_second", 3),
        ("--concurrency 0", "concurrency_max", 3),
        ("--concurrency 1 --concurrency-key '{input'", "concurrency_key", 3),
        ("--concurrency 1 --concurrency-key '{steps.a.output}'", "into the input", 3),
        ("--rate 1/s --concurrency-key x", "needs concurrency_max", 3),
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


def test_the_same_name_in_two_namespaces_is_two_actions(shell):
    shell("flo action register send-email --namespace prod")
    shell("flo action register send-email --namespace staging")

    assert shell("flo action invoke send-email '{}' --namespace prod").out.startswith("Result: ")
    assert shell("flo action invoke send-email '{}' --namespace staging").code == 0
    assert shell("flo action invoke send-email '{}'").code == 1


def test_the_same_idempotency_key_is_the_same_run(shell):
    shell("flo action register charge-payment")
    line = """flo action invoke charge-payment '{"order":"ORD-123"}' -k order-123-charge"""

    assert shell(line).out == shell(line).out == "Result: charge-payment-1\n"
    assert json.loads(shell(f"{line} --format json").out) == {
        "run_id": "charge-payment-1",
        "duplicate": True,
    }


def test_every_option_of_an_invocation_has_a_flag(shell, client):
    shell("flo action register render-video")

    shell(
        """flo action invoke render-video '{"url":"..."}' --labels '{"gpu":true,"vram_gb":24}'"""
        " --priority 200 --delay 60000 --idempotency-key video-1"
    )

    run = client.actions.status("render-video-1")
    assert run.input == b'{"url":"..."}'
    assert run.labels == {"gpu": True, "vram_gb": 24}
    assert run.priority == 200
    assert run.ready_at_ms == run.created_at_ms + 60_000
    assert run.idempotency_key == "video-1"


def test_call_is_another_name_for_invoke(shell):
    shell("flo action register send-email")

    assert shell("flo action call send-email '{}'").out == "Result: send-email-1\n"


def test_a_raw_answer_is_the_bare_run_id(shell):
    shell("flo action register send-email")

    assert shell("flo action invoke send-email '{}' -o raw").out == "send-email-1\n"


def test_waiting_brings_the_output(shell, client):
    shell("flo action register send-email")

    with obedient_worker(client, ["send-email"], succeed(client)):
        printed = shell("flo action invoke send-email '{}' --wait --timeout 60")

    assert printed == (0, 'Result: send-email-1\nOutput: {"status":"sent"}\n', "")


def test_waiting_in_json_brings_one_object(shell, client):
    shell("flo action register send-email")

    with obedient_worker(client, ["send-email"], succeed(client)):
        printed = shell("flo action invoke send-email '{}' -w --format json")

    assert json.loads(printed.out) == {
        "run_id": "send-email-1",
        "status": "completed",
        "attempt": 1,
        "output": {"status": "sent"},
        "output_encoding": "json",
        "outcome": "success",
        "error": None,
    }


def test_waiting_in_raw_brings_the_bytes_of_the_output(shell, client):
    shell("flo action register send-email")

    with obedient_worker(client, ["send-email"], succeed(client)):
        printed = shell("flo action invoke send-email '{}' --wait -o raw")

    assert printed.out == '{"status":"sent"}'


def test_a_named_outcome_is_told(shell, client):
    shell("flo action register review-order")

    def approve(task):
        client.workers.complete(task.task_id, "worker-1", b"{}", outcome="approved")

    with obedient_worker(client, ["review-order"], approve):
        printed = shell("flo action invoke review-order --wait")

    assert printed.out == "Result: review-order-1\nOutcome: approved\nOutput: {}\n"


def test_a_run_that_fails_is_an_error_for_whoever_waits(shell, client):
    shell("flo action register send-email")

    def fail(task):
        client.workers.fail(task.task_id, "worker-1", "no such mailbox")

    with obedient_worker(client, ["send-email"], fail):
        printed = shell("flo action invoke send-email '{}' --wait")

    assert printed == (
        3,
        "Result: send-email-1\n",
        "Error: run 'send-email-1' has failed: no such mailbox [run_failed]\n"
        "See its attempts with: flo action status send-email-1\n",
    )


def test_whoever_waits_too_long_is_told_that_the_run_goes_on(shell):
    shell("flo action register send-email")

    printed = shell("flo action invoke send-email '{}' --wait --timeout 0.01")

    assert printed.code == 4
    assert printed.out == "Result: send-email-1\n"
    assert "[timed_out]\n" in printed.err
    assert "flo action status send-email-1\n" in printed.err


def test_a_timeout_without_a_wait_is_refused(shell):
    shell("flo action register send-email")

    printed = shell("flo action invoke send-email '{}' --timeout 5")

    assert printed.code == 2
    assert "needs --wait" in printed.err


def test_the_status_of_a_finished_run_tells_all_there_is(shell, client):
    shell("flo action register send-email")
    shell("flo action invoke send-email '{}'")
    client.workers.complete(claim(client, "send-email"), "worker-1", {"status": "sent"})

    heading, row, *details = shell("flo action status send-email-1").out.splitlines()

    assert heading == "RUN ID        STATUS     CREATED"
    assert row.startswith("send-email-1  completed  20")
    assert details[:2] == ["attempt: 1", "worker: worker-1"]
    assert [line.partition(":")[0] for line in details[2:4]] == ["started", "finished"]
    assert details[4:] == ["outcome: success", 'output: {"status":"sent"}']


def test_the_status_of_a_running_run_tells_who_has_it_and_how_long(shell, client):
    shell("flo action register send-email")
    shell("flo action invoke send-email '{}'")
    claim(client, "send-email")

    details = shell("flo action status send-email-1").out.splitlines()[2:]

    names = [line.partition(":")[0] for line in details]
    assert names == ["attempt", "worker", "started", "lease until"]


def test_the_status_of_a_retried_run_tells_its_attempts(shell, client):
    shell("flo action register send-email --retry-delay 60000")
    shell("flo action invoke send-email '{}'")
    client.workers.fail(claim(client, "send-email"), "worker-1", "busy", retry=True)

    details = shell("flo action status send-email-1").out.splitlines()[2:]

    assert details[0].startswith("ready: 20")
    assert details[-1].startswith("attempt 1: ended 20")
    assert details[-1].endswith(" on worker-1: busy")


def test_the_status_of_a_dead_letter_says_so(shell, client):
    shell("flo action register send-email")
    shell("flo action invoke send-email '{}'")
    client.workers.fail(claim(client, "send-email"), "worker-1", "broken")

    printed = shell("flo action status send-email-1")

    assert "error: broken\ndead-lettered: yes\n" in printed.out


def test_a_status_in_json_is_the_whole_run(shell):
    shell("flo action register send-email")
    shell("""flo action invoke send-email '{"to":"alice"}'""")

    run = json.loads(shell("flo action status send-email-1 --format json").out)

    assert run["run_id"] == "send-email-1"
    assert run["status"] == "pending"
    assert run["input"] == {"to": "alice"}
    assert run["input_encoding"] == "json"
    assert run["output"] is None
    assert run["attempts"] == []


def test_a_raw_status_is_one_word(shell):
    shell("flo action register send-email")
    shell("flo action invoke send-email")

    assert shell("flo action status send-email-1 -o raw").out == "pending\n"


def test_actions_are_listed_with_what_waits_for_them(shell):
    assert shell("flo action list").out == "(no actions)\n"
    shell("flo action register send-email --timeout 60000 --description 'Sends one email'")
    shell("flo action register charge-payment")
    shell("flo action invoke send-email")

    assert shell("flo action list").out.splitlines() == [
        "NAME            VERSION  ENABLED  TIMEOUT MS  RETRIES  PENDING  RUNNING  DESCRIPTION",
        "charge-payment  1        yes      30000       3        0        0        -",
        "send-email      1        yes      60000       3        1        0        Sends one email",
    ]


def test_actions_in_json_are_an_array_of_objects(shell):
    assert json.loads(shell("flo action list --format json").out) == []
    shell("flo action register send-email")

    (action,) = json.loads(shell("flo action ls --format json").out)

    assert action["name"] == "send-email"
    assert action["runs"]["pending"] == 0


def test_raw_actions_are_their_names(shell):
    assert shell("flo action list -o raw").out == ""
    shell("flo action register a")
    shell("flo action register b")

    assert shell("flo action list -o raw").out == "a\nb\n"


def test_a_list_that_goes_on_says_how_to_see_the_rest(shell):
    for name in "abc":
        shell(f"flo action register {name}")

    printed = shell("flo action list --limit 2 -o raw")

    assert printed == (0, "a\nb\n", "There are more: add --cursor b\n")
    assert shell("flo action list --cursor b -o raw") == (0, "c\n", "")


def test_runs_are_listed_the_newest_first(shell, client):
    assert shell("flo action runs send-email").out == "(no runs)\n"
    shell("flo action register send-email")
    for _ in range(3):
        shell("flo action invoke send-email")
    client.workers.complete(claim(client, "send-email"), "worker-1")

    heading, *rows = shell("flo action runs send-email").out.splitlines()

    assert heading.split() == ["RUN", "ID", "ACTION", "STATUS", "CREATED", "STARTED", "COMPLETED"]
    assert [row.split()[:3] for row in rows] == [
        ["send-email-3", "send-email", "pending"],
        ["send-email-2", "send-email", "pending"],
        ["send-email-1", "send-email", "completed"],
    ]


def test_runs_are_filtered_by_status_and_paged(shell, client):
    shell("flo action register send-email")
    for _ in range(3):
        shell("flo action invoke send-email")
    client.workers.complete(claim(client, "send-email"), "worker-1")

    assert shell("flo action tasks send-email --status completed -o raw").out == "send-email-1\n"
    assert shell("flo action runs send-email --limit 1 -o raw") == (
        0,
        "send-email-3\n",
        "There are more: add --cursor 3\n",
    )
    assert shell("flo action runs send-email --cursor 3 --limit 1 -o raw").out == "send-email-2\n"


def test_a_status_nobody_can_have_is_refused(shell):
    printed = shell("flo action runs send-email --status lost")

    assert printed.code == 2
    assert "'timed_out'" in printed.err


def test_a_disabled_action_takes_no_new_runs(shell):
    shell("flo action register send-email")

    assert shell("flo action disable send-email") == (0, "Disabled action: send-email\n", "")
    assert shell("flo action invoke send-email") == (
        3,
        "",
        "Error: action 'send-email' is disabled [action_disabled]\n"
        "Enable it with: flo action enable NAME\n",
    )
    assert shell("flo action list").out.splitlines()[1].split()[2] == "no"

    assert shell("flo action enable send-email") == (0, "Enabled action: send-email\n", "")
    assert shell("flo action invoke send-email").code == 0


def test_a_switch_in_json_and_raw(shell):
    shell("flo action register a")

    assert json.loads(shell("flo action disable a --format json").out) == {
        "name": "a",
        "enabled": False,
    }
    assert json.loads(shell("flo action enable a --format json").out)["enabled"] is True
    assert shell("flo action disable a -o raw").out == "a\n"


@pytest.mark.parametrize("verb", ["enable", "disable", "info"])
def test_an_action_nobody_registered_is_not_found(shell, verb):
    printed = shell(f"flo action {verb} nobody")

    assert printed.code == 1
    assert "[action_not_found]" in printed.err


def test_the_settings_of_an_action_are_shown_with_its_runs(shell, client):
    shell(
        "flo action register send-email --timeout 60000 --description 'Sends one email'"
        """ --input-schema '{"required":["to"]}'"""
    )
    for _ in range(3):
        client.actions.invoke("send-email", {"to": "alice"})
    client.workers.complete(claim(client, "send-email"), "worker-1")

    shown = shell("flo action info send-email").out.splitlines()

    assert shown[:8] == [
        "Name:         send-email",
        "Type:         user",
        "Version:      1",
        "Enabled:      yes",
        "Timeout:      60000 ms",
        "Max Retries:  3",
        "Retry Delay:  1000 ms",
        "Description:  Sends one email",
    ]
    assert [line.partition(":")[0] for line in shown[8:10]] == ["Created", "Updated"]
    assert shown[10:] == [
        "Runs:         2 pending, 1 completed",
        "Input Schema: {",
        '                "required": [',
        '                  "to"',
        "                ]",
        "              }",
    ]


def test_an_action_in_json_and_raw(shell):
    shell("flo action register send-email --timeout 0")

    action = json.loads(shell("flo action info send-email --format json").out)

    assert action["name"] == "send-email"
    assert action["input_schema"] is None
    assert action["runs"]["pending"] == 0
    assert shell("flo action info send-email -o raw").out == "enabled\n"
    assert "Timeout:     never\n" in shell("flo action info send-email").out


def test_a_pending_run_is_cancelled(shell):
    shell("flo action register send-email")
    shell("flo action invoke send-email")

    assert shell("flo action cancel send-email-1 --reason 'not needed'") == (
        0,
        "Cancelled run: send-email-1\n",
        "",
    )
    assert "error: not needed" in shell("flo action status send-email-1").out
    assert shell("flo action status send-email-1 -o raw").out == "cancelled\n"


def test_a_running_run_is_cancelled_and_its_result_refused(shell, client):
    shell("flo action register send-email")
    shell("flo action invoke send-email")
    claim(client, "send-email")

    assert json.loads(shell("flo action cancel send-email-1 --format json").out) == {
        "run_id": "send-email-1",
        "status": "cancelled",
    }
    assert shell("flo worker complete send-email-1 -w worker-1").code in (1, 3)


def test_a_run_that_has_ended_is_not_cancelled(shell):
    shell("flo action register send-email")
    shell("flo action invoke send-email")
    assert shell("flo action cancel send-email-1 -o raw").out == "cancelled\n"

    again = shell("flo action cancel send-email-1")

    assert again.code == 3
    assert again.err.endswith("it is cancelled [run_has_ended]\n")
    assert shell("flo action cancel send-email-9").code == 1


def test_whoever_waits_for_a_cancelled_run_hears_it(shell, client):
    shell("flo action register send-email")

    def cancel(task):
        client.actions.cancel(task.task_id, "not needed")

    with obedient_worker(client, ["send-email"], cancel):
        printed = shell("flo action invoke send-email --wait")

    assert printed.code == 3
    assert "run 'send-email-1' has been cancelled: not needed [run_cancelled]" in printed.err


@pytest.mark.parametrize("line", ["flo action delete a", "flo action rm a -f"])
def test_a_deleted_action_takes_no_more_runs(shell, line):
    shell("flo action register a")

    assert shell(line) == (0, "Deleted action: a\n", "")
    assert shell("flo action invoke a").code == 1


def succeed(client):
    return lambda task: client.workers.complete(task.task_id, "worker-1", {"status": "sent"})
