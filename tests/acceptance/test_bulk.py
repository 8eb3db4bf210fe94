"""A bulk job goes on when the server is killed in the middle of it, and does everything once."""

from pathlib import Path

from flo import BlockingFlo
from flo.cli.bulk.jobs import SLICE, BulkJob, carry_out, keep, kept
from flo.testing.process import ServerProcess

ORDER = """
kind: Workflow
name: order
version: "1"
start:
  waitForSignal: {type: approval, timeoutMs: 3600000}
  transitions: {success: flo.Completed}
"""


def test_a_job_survives_kills_of_the_server_and_does_everything_once(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, http_port=-1) as server, BlockingFlo(server.address) as client:
        client.workflows.create(ORDER)
        ended = [client.workflows.start("order", {"number": number}) for number in range(SLICE + 5)]
        for run in ended:
            run.cancel()
        runs = [("workflow", run.run_id) for run in ended]
        keep(client, BulkJob(job="again", operation="rerun", runs=runs, made_at_ms=1))

        def kill_at(count: int) -> None:
            if count in (3, SLICE + 2):
                server.kill()
                server.start()

        done = carry_out(client, *kept(client, "again"), tell=kill_at)

        assert (done.count, done.refused) == (len(runs), {})
        repeated = client.workflows.runs(status="waiting", limit=1_000).items
        assert len(repeated) == len(runs)
        assert kept(client, "again")[1].count == len(runs)
