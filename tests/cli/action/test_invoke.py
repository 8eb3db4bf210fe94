import json
import re

from cli.servers import running_server, worker_in_thread
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
            "RUN ID        STATUS   CREATED\nsend-email-1  pending  2026-03-14 10:00:00+00:00\n",
            "",
        )


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

    with worker_in_thread(client, ["send-email"], succeed(client)):
        printed = shell("flo action invoke send-email '{}' --wait --timeout 60")

    assert printed == (0, 'Result: send-email-1\nOutput: {"status":"sent"}\n', "")


def test_waiting_in_json_brings_one_object(shell, client):
    shell("flo action register send-email")

    with worker_in_thread(client, ["send-email"], succeed(client)):
        printed = shell("flo action invoke send-email '{}' -w --format json")

    assert json.loads(printed.out) == {
        "run_id": "send-email-1",
        "status": "completed",
        "attempt": 1,
        "output": {"status": "sent"},
        "output_encoding": "json",
        "outcome": "success",
        "error": None,
        "error_code": None,
        "retryable": None,
    }


def test_waiting_in_raw_brings_the_bytes_of_the_output(shell, client):
    shell("flo action register send-email")

    with worker_in_thread(client, ["send-email"], succeed(client)):
        printed = shell("flo action invoke send-email '{}' --wait -o raw")

    assert printed.out == '{"status":"sent"}'


def test_a_named_outcome_is_told(shell, client):
    shell("flo action register review-order")

    def approve(task):
        client.workers.complete(task.task_id, "worker-1", b"{}", outcome="approved")

    with worker_in_thread(client, ["review-order"], approve):
        printed = shell("flo action invoke review-order --wait")

    assert printed.out == "Result: review-order-1\nOutcome: approved\nOutput: {}\n"


def test_a_run_that_fails_is_an_error_for_whoever_waits(shell, client):
    shell("flo action register send-email")

    def fail(task):
        client.workers.fail(task.task_id, "worker-1", "no such mailbox")

    with worker_in_thread(client, ["send-email"], fail):
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

    heading, row, _, *details = shell("flo action status send-email-1").out.splitlines()

    assert heading == "RUN ID        STATUS     CREATED"
    assert row.startswith("send-email-1  completed  20")
    told = dict(re.split(": +", line, maxsplit=1) for line in details)
    assert (told["Invoked by"], told["Worker"]) == ("rpc 127.0.0.1", "worker-1")
    assert list(told)[3:] == ["Started", "Finished", "Outcome", "Input", "Output"]
    assert (told["Input"], told["Output"]) == ("{}", '{"status":"sent"}')
    assert len({len(line) - len(re.split(": +", line, maxsplit=1)[1]) for line in details}) == 1


def test_the_status_of_a_running_run_tells_who_has_it_and_how_long(shell, client):
    shell("flo action register send-email")
    shell("flo action invoke send-email '{}'")
    claim(client, "send-email")

    details = shell("flo action status send-email-1").out.splitlines()[3:]

    names = [line.partition(":")[0] for line in details]
    assert names == ["Invoked by", "Attempt", "Worker", "Started", "Lease until", "Input"]


def test_the_status_of_a_retried_run_tells_its_attempts(shell, client):
    shell("flo action register send-email --retry-delay 60000")
    shell("flo action invoke send-email '{}'")
    client.workers.fail(claim(client, "send-email"), "worker-1", "busy", retry=True)

    details = shell("flo action status send-email-1").out.splitlines()[3:]

    assert re.match("Ready: +20", details[1])
    assert re.match("Attempt 1: +ended 20", details[-1])
    assert details[-1].endswith(" on worker-1 (reported): busy")


def test_the_status_of_a_dead_letter_says_so(shell, client):
    shell("flo action register send-email")
    shell("flo action invoke send-email '{}'")
    client.workers.fail(claim(client, "send-email"), "worker-1", "broken")

    printed = shell("flo action status send-email-1")

    words = re.sub(" +", " ", printed.out)
    assert "Error: broken\nError code: broken\nDead-lettered: yes\n" in words


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


def test_a_pending_run_is_cancelled(shell):
    shell("flo action register send-email")
    shell("flo action invoke send-email")

    assert shell("flo action cancel send-email-1 --reason 'not needed'") == (
        0,
        "Cancelled run: send-email-1\n",
        "",
    )
    assert re.search("Error: +not needed\n", shell("flo action status send-email-1").out)
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

    with worker_in_thread(client, ["send-email"], cancel):
        printed = shell("flo action invoke send-email --wait")

    assert printed.code == 3
    assert "run 'send-email-1' has been cancelled: not needed [run_cancelled]" in printed.err


def succeed(client):
    return lambda task: client.workers.complete(task.task_id, "worker-1", {"status": "sent"})
