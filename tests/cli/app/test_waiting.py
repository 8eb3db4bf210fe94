import os
import pty
import subprocess
import sys

from cli.servers import worker_in_thread
from flo.cli.app.waiting import status_line


def test_a_terminal_shows_a_status_line(environment, client):
    client.actions.register("send-email")
    terminal, end = pty.openpty()
    command = [sys.executable, "-m", "flo.cli.app.main", "action", "invoke", "send-email", "--wait"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=end, env={**os.environ, "TERM": "xterm"}
    ) as waiting:
        os.close(end)
        shown = read_until(terminal, b"pending")

        with worker_in_thread(client, ["send-email"], complete(client)):
            out = waiting.stdout.read()

    os.close(terminal)
    assert b"send-email-1  pending" in shown
    assert out == b"Result: send-email-1\nOutput: null\n"


def test_what_is_no_terminal_is_left_alone(client, capsys):
    with status_line(client, "send-email-1"):
        pass

    assert capsys.readouterr().err == ""


def read_until(terminal, wanted):
    shown = b""
    while wanted not in shown:
        shown += os.read(terminal, 1_024)
    return shown


def complete(client):
    return lambda task: client.workers.complete(task.task_id, "worker-1", b"null")
