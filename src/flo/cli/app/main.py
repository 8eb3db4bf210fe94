"""The `flo` command: what is in it, and how it is run.

What this file imports is paid for by every `flo`, so a command is imported when it is used.
"""

import os
import sys
from collections.abc import Sequence

import click

from flo.cli.app.command import CommandGroup, LazyCommand
from flo.cli.app.errors import EXIT_CODES, INTERRUPTED, PIPE_BROKEN, report
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.model.version import VERSION

COMPLETE_VARIABLE = "_FLO_COMPLETE"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; return the exit code."""
    try:
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return PIPE_BROKEN
    except Exception as error:
        return report(error)
    else:
        return code


def _run(arguments: list[str]) -> int:
    if (instruction := os.environ.get(COMPLETE_VARIABLE)) is not None:
        from click.shell_completion import shell_complete

        return shell_complete(flo, {}, "flo", COMPLETE_VARIABLE, instruction)
    with flo.make_context("flo", arguments) as context:
        return flo.invoke(context) or 0


def _forget_stdout() -> None:
    """Nobody reads the output any more; the last flush must not complain about it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class FloGroup(CommandGroup):
    """The groups of commands. Those that operations declare are added to what a group has."""

    def load(self, name: str, lazy: LazyCommand) -> click.Command:
        from flo.cli.app.derive import declared_commands

        loaded = super().load(name, lazy)
        if isinstance(loaded, CommandGroup):
            loaded.add(*declared_commands(name))
        return loaded


@click.group(
    cls=FloGroup,
    lazy={
        "server": LazyCommand("flo.cli.server.server:server", "Start a server, or ask how it is."),
        "action": LazyCommand(
            "flo.cli.action.actions:action", "Register actions, invoke them, see their runs."
        ),
        "worker": LazyCommand(
            "flo.cli.worker.workers:worker", "Run workers, do tasks by hand, see who works."
        ),
        "stream": LazyCommand(
            "flo.cli.stream.streams:stream",
            "Append records, read them, share them out to consumers.",
        ),
        "kv": LazyCommand("flo.cli.kv.keys:kv", "Keep values under keys, with versions."),
        "workflow": LazyCommand(
            "flo.cli.workflow.workflows:workflow",
            "Deploy workflows, start them, see where their runs are.",
        ),
        "pipeline": LazyCommand(
            "flo.cli.pipeline.pipelines:pipeline",
            "Submit pipelines, watch their nodes, read what they make.",
            ("pipe",),
        ),
        "schedule": LazyCommand(
            "flo.cli.schedule:schedule",
            "See when workflows start by themselves; hold them back.",
        ),
        "plan": LazyCommand("flo.cli.plan:plan", "See how the executors of a plan are doing."),
        "event": LazyCommand("flo.cli.event:event", "Say that something has happened."),
        "log": LazyCommand(
            "flo.cli.log:log",
            "Look at what the log keeps of the past; prove that it was not changed.",
        ),
        "runs": LazyCommand(
            "flo.cli.views.runs:runs",
            "Show the runs of all actions and workflows, the newest first.",
        ),
        "dlq": LazyCommand(
            "flo.cli.views.dlq:dlq",
            "See dead letters of all actions and groups, try them again, or forget them.",
        ),
        "bulk": LazyCommand(
            "flo.cli.bulk.bulk:bulk",
            "Do the same to all runs that fit: preview it, see its progress, go on after a crash.",
        ),
        "top": LazyCommand(
            "flo.cli.views.top:top",
            "Show what a server is doing now: rates, queues, workers, what is slow, what fails.",
        ),
        "backup": LazyCommand(
            "flo.cli.backup:backup", "Copy the data folder of a server while it runs."
        ),
        "restore": LazyCommand("flo.cli.backup:restore", "Make a data folder from a backup."),
        "validate": LazyCommand(
            "flo.cli.workflow.validate:validate", "Check a file before it is deployed."
        ),
        "audit": LazyCommand("flo.cli.audit:audit", "See who did what, and who was refused."),
        "secret": LazyCommand(
            "flo.cli.secret:secret", "Keep values that only workers are given; keys that seal."
        ),
        "namespace": LazyCommand(
            "flo.cli.namespace:namespace", "Keep things apart from each other.", ("ns",)
        ),
    },
    examples=[
        "flo server start",
        "flo action register send-email --timeout 60000 --max-retries 3",
        'flo action invoke send-email \'{"to":"alice@example.com","subject":"Welcome!"}\'',
        "flo action status send-email-1",
    ],
    notes={"Exit codes": {str(code): meaning for code, meaning in EXIT_CODES.items()}},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(VERSION, message="flo version %(version)s", help="Show the version.")
def flo() -> None:
    """A durable runtime for work."""


@flo.command("version", examples=["flo version"])
@pass_settings
def show_version(settings: GlobalSettings) -> None:
    """Show the version."""
    from flo.cli.app.output import show

    show(settings.format, {"version": VERSION}, text=f"flo version {VERSION}", raw=VERSION)


@flo.command("completion", examples=["flo completion bash", "flo completion zsh"])
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def show_completion(context: click.Context, shell: str) -> None:
    """Print the script that teaches a shell to complete flo.

    Load it where the shell starts: `source <(flo completion bash)` in ~/.bashrc, the same with zsh
    in ~/.zshrc, `flo completion fish | source` in ~/.config/fish/config.fish.
    """
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    assert completion is not None
    root = context.find_root().command
    click.echo(completion(root, {}, "flo", COMPLETE_VARIABLE).source())


if __name__ == "__main__":
    sys.exit(main())
