"""flo job ..."""

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.derive import list_command, plain_command
from flo.cli.app.output import Columns, aligned, payload_text, time_text
from flo.cli.app.parameters import Argument, Flag
from flo.model.blocks.jobs import GetJob, JobView, ListJobs

JOB_COLUMNS: Columns[JobView] = {
    "JOB": lambda job: job.job_id,
    "TYPE": lambda job: job.job,
    "STATUS": lambda job: job.status,
    "RUN": lambda job: job.workflow_run_id,
    "STEP": lambda job: job.step,
    "WORKER": lambda job: job.worker_id,
    "CREATED": lambda job: time_text(job.created_at_ms),
}


@click.group(cls=CommandGroup, examples=["flo job list", "flo job list --run wfrun-3"])
def job() -> None:
    """See what the workers of function blocks are doing."""


def _details(job: JobView) -> str:
    return aligned(
        {
            "Job": job.job_id,
            "Type": job.job,
            "Block": job.block,
            "Status": job.status,
            "Attempt": job.attempt,
            "Workflow run": job.workflow_run_id,
            "Step": job.step,
            "Worker": job.worker_id,
            "Created": time_text(job.created_at_ms),
            "Started": time_text(job.started_at_ms),
            "Finished": time_text(job.finished_at_ms),
            "Message": job.message,
            "Error": job.error,
            "Error code": job.error_code,
            "Input": payload_text(job.input),
            "Output": payload_text(job.output),
        }
    )


job.add(
    list_command(
        "list",
        ListJobs,
        Flag("block", "-b", metavar="BLOCK"),
        Flag("workflow_run_id", "-r", "--run", metavar="RUN"),
        Flag("job", "-t", "--type"),
        columns=JOB_COLUMNS,
        none="no jobs",
        examples=[
            "flo job list",
            "flo job list --block network/set_vlan:1 --type execute",
            "flo job list --run wfrun-3",
        ],
    ),
    plain_command(
        "show",
        GetJob,
        Argument("job_id", "JOB"),
        text=_details,
        raw="{reply.status}",
        examples=["flo job show block:network:set_vlan:1.2.0:execute-1.1"],
        aliases=["get"],
    ),
)
