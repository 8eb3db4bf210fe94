"""What workers and clients write to stderr, and what ends an attempt: real processes, compared."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flo import BlockingFlo
from flo.model.runs import RunStatus
from flo.model.views.attempts import AttemptEnd
from flo.testing.process import ServerProcess

WORKER = """
import asyncio, time
{preamble}
from flo import ActionWorker, NonRetryableError

worker = ActionWorker({address!r}, worker_id={worker_id!r}{arguments})

@worker.action("{prefix}fails", max_retries=1, retry_delay_ms=10)
async def fails(ctx):
    raise ValueError("no stock\\nat all")

@worker.action("{prefix}never")
def never(ctx):
    raise NonRetryableError("it is too late")

@worker.action("{prefix}slow", timeout_ms=300, max_retries=1, retry_delay_ms=10)
async def slow(ctx):
    try:
        await asyncio.sleep(3_600)
    except asyncio.CancelledError:
        print("cancelled", ctx.attempt, flush=True)
        raise

@worker.action("{prefix}thread", timeout_ms=300, max_retries=0)
def thread(ctx):
    while not ctx.cancelled:
        time.sleep(0.01)
    return "too late"

@worker.action("{prefix}touched", timeout_ms=300, max_retries=0)
async def touched(ctx):
    await ctx.touch(60_000)
    await asyncio.sleep(0.6)
    return "in time"

@worker.action("{prefix}nan")
async def nan(ctx):
    return {{"items": [{{"price": 1.5}}, {{"price": float("nan")}}]}}

@worker.action("{prefix}nan-bytes")
async def nan_bytes(ctx):
    return ctx.to_bytes(await nan(ctx))

if __name__ == "__main__":
    worker.run()
"""

TIMEOUT = "the handler ran over the timeout_ms of its action, 300"
NOT_A_NUMBER = (
    "number_not_finite: the result cannot be sent: "
    "output.items[1].price is NaN: JSON has no such number"
)
LINES = [
    "WARNING flo.client  cannot reach flo at <address>: <reason>; "
    "next try in <n> s, then at least every <n> s",
    "WARNING flo.client  connected to flo at <address>, after <n> s",
    "INFO    flo.worker  worker <worker> serves fails, never, slow, thread, touched, nan, "
    "nan-bytes at <address> (namespace default, concurrency 10)",
    "WARNING flo.worker  task fails-1 has failed, attempt 1: ValueError: no stock; it is retried",
    "ERROR   flo.worker  task fails-1 has failed, attempt 2: ValueError: no stock; "
    "no retries are left, and it is a dead letter",
    "ERROR   flo.worker  task never-1 has failed, attempt 1: NonRetryableError: it is too late; "
    "it is not retried",
    f"WARNING flo.worker  task slow-1 has timed out, attempt 1: {TIMEOUT}; it is retried",
    f"ERROR   flo.worker  task slow-1 has timed out, attempt 2: {TIMEOUT}; "
    "no retries are left, and it is a dead letter",
    f"ERROR   flo.worker  task nan-1 has failed, attempt 1: {NOT_A_NUMBER}; it is not retried",
    "INFO    flo.worker  worker <worker> has left",
]


class WorkerFile:
    """A worker of its own, with actions that begin with its prefix."""

    def __init__(self, folder: Path, address: str, prefix: str) -> None:
        self.path = folder / "worker.py"
        self.prefix = prefix
        self._address = address
        self.write()

    def write(self, *, arguments: str = "", preamble: str = "") -> None:
        self.path.write_text(
            WORKER.format(
                address=self._address,
                prefix=self.prefix,
                worker_id=f"{self.prefix}worker",
                arguments=arguments and f", {arguments}",
                preamble=preamble,
            )
        )

    @contextmanager
    def running(self, *command: str) -> "Iterator[subprocess.Popen[str]]":
        with subprocess.Popen(
            [sys.executable, *(command or (str(self.path),))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.terminate()

    def plain(self, err: str) -> list[str]:
        """The lines without what differs from one process to the next."""
        err = err.replace(self._address, "<address>").replace(f"{self.prefix}worker", "<worker>")
        err = err.replace(self.prefix, "")
        err = re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ", "", err, flags=re.MULTILINE)
        err = re.sub(r"(in|after|every) [\d.]+ s", r"\1 <n> s", err)
        err = re.sub(r"(cannot reach flo at <address>: )[^;]*;", r"\1<reason>;", err)
        return err.splitlines()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("data")) as server:
        yield server


@pytest.fixture
def client(server: ServerProcess) -> Iterator[BlockingFlo]:
    with BlockingFlo(server.address) as client:
        yield client


@pytest.fixture
def file(server: ServerProcess, tmp_path: Path, request: pytest.FixtureRequest) -> WorkerFile:
    return WorkerFile(tmp_path, server.address, re.sub(r"\W", "", request.node.name)[-20:] + "-")


@pytest.mark.parametrize("command", ["python", "flo"])
def test_every_event_in_the_life_of_a_worker_has_one_line(
    server: ServerProcess, file: WorkerFile, command: str
) -> None:
    flo = ("-P", "-m", "flo.cli.app.main", "worker", "run", str(file.path))
    server.kill()
    with file.running(*(flo if command == "flo" else ())) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        first = process.stderr.readline()  # at once: there is no server yet
        server.start()
        with BlockingFlo(server.address) as client:
            wait_for_worker(client, file)
            for name in ("fails", "never", "slow", "nan"):
                client.actions.invoke(f"{file.prefix}{name}").wait(timeout=60)
        cancelled = [process.stdout.readline() for _ in range(2)]
        process.terminate()
        _, rest = process.communicate(timeout=60)

    lines = file.plain(first + rest)
    assert lines[:3] == LINES[:3]
    assert sorted(lines) == sorted(LINES)  # the server may tell of an end before the worker does
    assert cancelled == ["cancelled 1\n", "cancelled 2\n"]
    assert process.returncode == 0


def test_a_server_that_is_killed_and_comes_back_has_three_lines(
    server: ServerProcess, file: WorkerFile
) -> None:
    with BlockingFlo(server.address) as client, file.running() as process:
        wait_for_worker(client, file)
        server.kill()
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(3)]
        server.start()
        lines.append(process.stderr.readline())

    serves, lost, unreachable, again = file.plain("".join(lines))
    assert serves.startswith("INFO    flo.worker  worker <worker> serves fails, ")
    assert lost.startswith("WARNING flo.client  flo at <address>: the connection was lost: ")
    assert unreachable == LINES[0]
    assert again == LINES[1]


def test_a_timeout_is_the_end_of_an_attempt_unless_it_is_touched(
    client: BlockingFlo, file: WorkerFile
) -> None:
    with file.running() as process:
        wait_for_worker(client, file)
        slow, thread, touched = (
            client.actions.invoke(f"{file.prefix}{name}") for name in ("slow", "thread", "touched")
        )
        ends = [one.wait(timeout=60) for one in (slow, thread, touched)]
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(5)]

    assert [one.status for one in ends] == [
        RunStatus.TIMED_OUT,
        RunStatus.TIMED_OUT,
        RunStatus.COMPLETED,
    ]
    assert {one.error_code for one in ends} == {"timeout", None}
    attempts = slow.status().attempts
    assert [one.number for one in attempts] == [1, 2]
    assert {one.end for one in attempts} <= {AttemptEnd.REPORTED, AttemptEnd.LEASE_EXPIRED}
    late = "WARNING flo.worker  task thread-1, attempt 1: its result came too late, and is dropped"
    assert file.plain("".join(lines)).count(late) == 1


@pytest.mark.parametrize("name", ["nan", "nan-bytes"])
def test_a_number_that_json_does_not_have_fails_the_run_for_good(
    client: BlockingFlo, file: WorkerFile, name: str
) -> None:
    with file.running():
        wait_for_worker(client, file)
        run = client.actions.invoke(f"{file.prefix}{name}")
        end = run.wait(timeout=60)

    assert (end.status, end.error, end.error_code) == (
        RunStatus.FAILED,
        NOT_A_NUMBER,
        "number_not_finite",
    )
    assert (end.retryable, run.status().dead_lettered) == (False, False)


@pytest.mark.parametrize("way", ["argument", "flag"])
def test_a_worker_can_be_silent(client: BlockingFlo, file: WorkerFile, way: str) -> None:
    command = ("-m", "flo.cli.app.main", "worker", "run", str(file.path))
    if way == "argument":
        file.write(arguments="log_level='critical'")
    else:
        command = (*command, "--log-level", "critical")
    with file.running(*command) as process:
        wait_for_worker(client, file)
        client.actions.invoke(f"{file.prefix}fails").wait(timeout=60)
        process.terminate()
        _, err = process.communicate(timeout=60)

    assert err == ""


def test_an_application_that_logs_gets_the_lines_as_all_its_others(
    client: BlockingFlo, file: WorkerFile
) -> None:
    file.write(preamble='import logging; logging.basicConfig(format="app: %(message)s")')
    with file.running() as process:
        wait_for_worker(client, file)
        client.actions.invoke(f"{file.prefix}never").wait(timeout=60)
        process.terminate()
        _, err = process.communicate(timeout=60)

    assert file.plain(err) == [
        "app: task never-1 has failed, attempt 1: NonRetryableError: it is too late; "
        "it is not retried"
    ]


def test_a_worker_in_a_running_loop_is_told_to_serve(file: WorkerFile) -> None:
    script = "import asyncio, worker\nasync def main(): worker.worker.run()\nasyncio.run(main())"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=file.path.parent,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.stderr.splitlines()[-1].endswith(
        "run() makes an event loop of its own, and one runs here already: "
        "`await worker.serve()` instead"
    )


def test_a_client_says_at_once_that_it_cannot_reach_its_server() -> None:
    script = (
        "from flo import BlockingFlo\n"
        "flo = BlockingFlo('127.0.0.1:1', timeout=1)\n"
        "try: flo.ping()\n"
        "except Exception as error: print(error.code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )

    (line,) = done.stderr.splitlines()
    assert line.startswith("cannot reach flo at 127.0.0.1:1: ")
    assert done.stdout == "unreachable\n"


def wait_for_worker(client: BlockingFlo, file: WorkerFile) -> None:
    """Until the server knows it."""
    names: set[str] = set()
    while f"{file.prefix}worker" not in names:
        names = {one.worker_id for one in client.workers.list().items}
