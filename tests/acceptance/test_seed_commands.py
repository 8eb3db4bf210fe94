"""Every command line of the seeds "Actions" and "Workers", in their order, on a real server.

`seed` marks a line as it stands there, with what is shown below it there; `and_so` is what must
have happened before the next one, or what shows that the last one did what the seed says. In what
is shown, <time> is any time, <duration> however long it took, any other <name> is remembered and
stands for the same from then on, and spaces count as one. "Workers" has no command lines besides
those of "Actions".
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from flo.testing.process import ServerProcess


class Line(NamedTuple):
    typed: str
    shown: str


seed = and_so = Line

WASM = [
    seed(
        "flo action register rules-engine --wasm ./rules_engine.wasm",
        "Registered action: rules-engine",
    ),
    seed(
        """flo action invoke rules-engine '{"age": 25, "country": "US"}'""",
        "Result: rules-engine-1 (completed immediately)\n"
        'Output: {"eligible":true,"rules_evaluated":2,"rules_passed":2}',
    ),
    seed(
        "flo action status rules-engine-1",
        "RUN ID STATUS CREATED\n"
        "rules-engine-1 completed <time>\n\n"
        "Invoked by: rpc 127.0.0.1\n"
        "Attempt: 1\n"
        "Worker: flo-inline\n"
        "Started: <time>\n"
        "Finished: <time>\n"
        "Took: <duration>\n"
        "Outcome: success\n"
        'Input: {"age":25,"country":"US"}\n'
        'Output: {"eligible":true,"rules_evaluated":2,"rules_passed":2}',
    ),
]

QUICK_START = [
    seed(
        "flo action register send-email --timeout 60000 --max-retries 3",
        "Registered action: send-email",
    ),
    seed(
        """flo action invoke send-email '{"to":"alice@example.com","subject":"Welcome!"}'""",
        "Result: send-email-1",
    ),
    seed(
        "flo action status send-email-1",
        "RUN ID STATUS CREATED\nsend-email-1 pending <time>",
    ),
]

A_WORKER_BY_HAND = [
    seed(
        "flo worker register worker-1 process-order send-email",
        "Registered worker: worker-1",
    ),
    and_so("flo action register process-order", "Registered action: process-order"),
    and_so("""flo action invoke process-order '{"order":1}'""", "Result: process-order-1"),
    seed(
        "flo worker await process-order --worker-id worker-1 --block 30000",
        'Task: <task-id>\nAction: process-order\nPayload: {"order":1}\nAttempt: 1\nCreated: <time>',
    ),
    seed(
        "flo worker complete <task-id> --worker-id worker-1 --action process-order"
        """ --result '{"status":"done"}'""",
        "OK",
    ),
    and_so(
        "flo action status <task-id>",
        "RUN ID STATUS CREATED\n"
        "process-order-1 completed <time>\n\n"
        "Invoked by: rpc 127.0.0.1\n"
        "Attempt: 1\n"
        "Worker: worker-1\n"
        "Started: <time>\n"
        "Finished: <time>\n"
        "Outcome: success\n"
        'Input: {"order":1}\n'
        'Output: {"status":"done"}',
    ),
]

FAILURES = [
    and_so("flo action invoke process-order", "Result: process-order-2"),
    and_so("flo worker await process-order -w worker-1 -o raw", "<second-task-id>"),
    seed(
        "flo worker fail <second-task-id> --worker-id worker-1 --action process-order"
        ' --error "Temporary failure" --retry',
        "OK",
    ),
    and_so("flo action status <second-task-id> -o raw", "pending"),
    and_so(
        "flo worker await process-order --worker-id worker-1",
        "Task: <second-task-id>\nAction: process-order\nAttempt: 2\nCreated: <time>",
    ),
    seed(
        "flo worker fail <second-task-id> --worker-id worker-1 --action process-order"
        ' --error "Invalid input"',
        "OK",
    ),
    and_so(
        "flo action status <second-task-id>",
        "RUN ID STATUS CREATED\n"
        "process-order-2 failed <time>\n\n"
        "Invoked by: rpc 127.0.0.1\n"
        "Attempt: 2\n"
        "Worker: worker-1\n"
        "Started: <time>\n"
        "Finished: <time>\n"
        "Error: Invalid input\n"
        "Dead-lettered: yes\n"
        "Attempt 1: ended <time> on worker-1 (reported): Temporary failure\n"
        "Attempt 2: ended <time> on worker-1 (reported): Invalid input",
    ),
]

TOUCH_AND_DRAIN = [
    and_so("flo action invoke process-order", "Result: process-order-3"),
    and_so("flo worker await process-order -w worker-1 -o raw", "<third-task-id>"),
    seed(
        "flo worker touch <third-task-id> --worker-id worker-1 --action process-order"
        " --extend 30000",
        "OK",
    ),
    and_so("flo worker heartbeat --worker-id worker-1 --load 1", "Status: active"),
    seed("flo worker drain --worker-id worker-1", "Draining worker: worker-1"),
    and_so("flo worker heartbeat --worker-id worker-1 --load 1", "Status: draining"),
    and_so("flo worker await send-email --worker-id worker-1 --block 0", "(no tasks)"),
    and_so("flo worker complete <third-task-id> -w worker-1 -a process-order", "OK"),
    and_so("flo worker deregister worker-1", "Deregistered worker: worker-1"),
]

LABELS = [
    and_so("flo action register render-video", "Registered action: render-video"),
    seed(
        """flo action invoke render-video '{"url":"..."}' --labels '{"gpu":true,"vram_gb":24}'""",
        "Result: render-video-1",
    ),
    and_so(
        """flo worker register small render-video --labels '{"gpu":true,"vram_gb":16}'""",
        "Registered worker: small",
    ),
    and_so("flo worker await render-video --worker-id small --block 0", "(no tasks)"),
    and_so(
        "flo worker register large render-video"
        """ --labels '{"gpu":true,"vram_gb":24,"region":"us-east"}'""",
        "Registered worker: large",
    ),
    and_so("flo worker await render-video --worker-id large -o raw", "render-video-1"),
]

IDEMPOTENCY = [
    and_so("flo action register charge-payment", "Registered action: charge-payment"),
    seed(
        """flo action invoke charge-payment '{"order":"ORD-123"}'"""
        " --idempotency-key order-123-charge",
        "Result: <charge>",
    ),
    seed(
        """flo action invoke charge-payment '{"order":"ORD-123"}'"""
        " --idempotency-key order-123-charge",
        "Result: <charge>",
    ),
    and_so("flo action runs charge-payment -o raw", "<charge>"),
]

NAMESPACES = [
    seed("flo action register send-email --namespace prod", "Registered action: send-email"),
    seed("flo action register send-email --namespace staging", "Registered action: send-email"),
    seed("flo action invoke send-email '{}' --namespace prod", "Result: send-email-1"),
    seed("flo action invoke send-email '{}' --namespace staging", "Result: send-email-1"),
    and_so("flo action runs send-email --namespace prod -o raw", "send-email-1"),
    and_so("flo namespace list -o raw", "default\nprod\nstaging"),
]

AFTER_A_RESTART = [
    and_so(
        "flo action list -o raw",
        "charge-payment\nprocess-order\nrender-video\nrules-engine\nsend-email",
    ),
    and_so(
        "flo action status send-email-1",
        "RUN ID STATUS CREATED\nsend-email-1 pending <time>",
    ),
    and_so("flo action status render-video-1 -o raw", "running"),
    and_so("flo worker register worker-1 send-email", "Registered worker: worker-1"),
    and_so("flo worker await send-email --worker-id worker-1 -o raw", "send-email-1"),
]

TRACE = [
    *QUICK_START,
    *A_WORKER_BY_HAND,
    *FAILURES,
    *TOUCH_AND_DRAIN,
    *LABELS,
    *IDEMPOTENCY,
    *NAMESPACES,
    *WASM,
]

PLACEHOLDER = re.compile(r"<([a-z-]+)>")
ANYTHING_LIKE = {
    "time": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d",
    "duration": r"\d+ ms( \(held \d+ ms before\))?",
}


class Terminal:
    """Types lines, compares what is shown, and remembers what stood in place of <names>."""

    def __init__(self, address: str, folder: Path) -> None:
        self._folder = folder
        self._environment = {**os.environ, "FLO_ENDPOINT": address, "FLO_NAMESPACE": ""}
        self._known: dict[str, str] = {}

    def go_through(self, lines: list[Line]) -> None:
        for line in lines:
            typed = PLACEHOLDER.sub(lambda found: self._known[found[1]], line.typed)
            shown = self._type(typed)
            found = re.fullmatch(self._pattern(line.shown), shown)
            assert found, f"$ {typed}\n{shown}\n\ninstead of:\n\n{line.shown}"
            self._known.update(
                (name.replace("_", "-"), text) for name, text in found.groupdict().items()
            )

    def _type(self, typed: str) -> str:
        ended = run(typed, self._environment, self._folder)
        assert ended.returncode == 0, f"$ {typed}\n{ended.stderr}"
        return "\n".join(" ".join(line.split()) for line in ended.stdout.splitlines())

    def _pattern(self, shown: str) -> str:
        parts = PLACEHOLDER.split(shown)
        for index, part in enumerate(parts):
            is_name = index % 2 == 1
            parts[index] = self._pattern_of_name(part) if is_name else re.escape(part)
        return "".join(parts)

    def _pattern_of_name(self, name: str) -> str:
        if name in ANYTHING_LIKE:
            return ANYTHING_LIKE[name]
        if name in self._known:
            return re.escape(self._known[name])
        return rf"(?P<{name.replace('-', '_')}>\S+)"


def run(typed: str, environment: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    program, *arguments = shlex.split(typed)
    assert program == "flo"
    return subprocess.run(
        [sys.executable, "-m", "flo.cli.app.main", *arguments],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def copy_rules_engine(folder: Path) -> None:
    built = Path(__file__).parents[2] / "examples" / "wasm" / "built" / "rules_engine.wasm"
    shutil.copy(built, folder)


def test_the_commands_of_the_seeds_work_as_written(tmp_path: Path) -> None:
    copy_rules_engine(tmp_path)
    with ServerProcess(tmp_path / "data") as server:
        terminal = Terminal(server.address, tmp_path)
        terminal.go_through(TRACE)

        server.kill()
        server.start()

        terminal.go_through(AFTER_A_RESTART)
