"""flo pipeline submit, publish: graphs of files to the server."""

import click
import msgspec

from flo.cli.app.command import FloCommand
from flo.cli.app.derive import operation_command
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import show
from flo.cli.app.parameters import Flag
from flo.cli.app.payload import OBJECT, Seconds
from flo.cli.app.say import say
from flo.cli.pipeline.document import FILE, FILE_HELP, read_graph_file
from flo.cli.pipeline.watch import show_until_end
from flo.model.pipelines.pipelines import PublishPipeline, SubmitPipeline, Submitted

WAIT = click.Option(
    ["-w", "--wait"], is_flag=True, help="Show how it goes on, until it ends; 3 if it fails."
)


@operation_command(
    "submit",
    SubmitPipeline,
    click.Option(FILE, metavar="FILE", help=FILE_HELP),
    Flag("name", "-g", metavar="NAME", help="A stored graph, if no file is given."),
    Flag(
        "params",
        type=OBJECT,
        metavar="JSON",
        default=None,
        help="What it is submitted with: a JSON object, or a file that holds one.",
    ),
    Flag("id", metavar="ID"),
    Flag("idempotency_key", "-k", metavar="KEY"),
    Flag("timeout_ms", type=Seconds(min=0), metavar="SECONDS"),
    Flag("backlog_max", metavar="N"),
    Flag("lenient"),
    WAIT,
    examples=[
        "flo pipeline submit -f graph.json",
        'flo pipeline submit -f graph.yaml --params \'{"day": "2026-03-14"}\' --wait',
        "flo pipeline submit -f graph.json --idempotency-key nightly-2026-03-14",
        "flo pipeline submit --name nightly-index --params @params.json",
    ],
    aliases=["run"],
)
def submit(
    settings: GlobalSettings, submission: SubmitPipeline, file: str | None, wait: bool
) -> None:
    """Start a pipeline, of the graph in a file or of one that is stored under a name.

    A mistake in the graph refuses it; with --lenient, what can never become ready is let pass with
    a warning.
    """
    if (file is None) == (submission.name is None):
        raise click.UsageError("give a file with -f, or a stored graph with --name")
    if file is not None:
        submission = msgspec.structs.replace(submission, graph=read_graph_file(file))
    with settings.connect() as flo:
        submitted = flo.call(submission)
        for warning in submitted.warnings:
            say(f"Warning: {warning}", err=True)
        if not wait:
            show(settings.format, submitted, text=_text(submitted), raw=submitted.id)
            return
        say(_text(submitted), err=True)
        show_until_end(settings, flo, submitted.id)


@click.command(
    "publish",
    cls=FloCommand,
    examples=["flo pipeline publish nightly-index -f graph.json"],
    aliases=["store"],
)
@click.argument("name")
@click.option(*FILE, required=True, metavar="FILE", help=FILE_HELP)
@pass_settings
def publish(settings: GlobalSettings, name: str, file: str) -> None:
    """Store the graph in a file under NAME, instead of the one that was there.

    Start it with `flo pipeline submit --name NAME`, or from a workflow: `run: "@pipelines/NAME"`.
    """
    stored = settings.call(PublishPipeline(name=name, graph=read_graph_file(file)))
    word = "Stored" if stored.changed else "Unchanged"
    text = f"{word} graph: {stored.name} (version {stored.version})"
    show(settings.format, stored, text=text, raw=stored.name)


def _text(submitted: Submitted) -> str:
    again = " (the same pipeline: it was submitted before)" if submitted.duplicate else ""
    return f"Submitted pipeline: {submitted.id}{again}"
