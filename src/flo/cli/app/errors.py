"""How an error is shown, and the exit code it leads to.

    Error: run 'send-email-9' does not exist [run_not_found]
    See which there are with: flo action runs NAME

The second line is what to do next: the notes of the error, or what is known of its code.
"""

import os
import traceback

import click

from flo.cli.app.say import say
from flo.model.errors import Corrupt, FloError, NotFound, Unavailable, Unexpected

NOT_FOUND = 1
USAGE = 2
REFUSED = 3
TRY_AGAIN = 4
UNREACHABLE = 5
INTERNAL = 70
INTERRUPTED = 130
PIPE_BROKEN = 141

EXIT_CODES = {
    0: "done",
    NOT_FOUND: "not found",
    USAGE: "the command line is wrong",
    REFUSED: "refused: a conflict, invalid, or a run that ended unsuccessfully",
    TRY_AGAIN: "try again: unavailable, or timed out",
    UNREACHABLE: "the server cannot be reached",
    INTERNAL: "an internal error",
}

HINTS = {
    "unreachable": "Is a server running? Start one with: flo server start",
    "action_not_found": "Register it with: flo action register NAME",
    "action_disabled": "Enable it with: flo action enable NAME",
    "run_not_found": "See which there are with: flo action runs NAME",
    "not_dead": "See which there are with: flo action dlq list NAME",
    "stream_not_found": "See which there are with: flo stream list",
    "group_not_found": "See which there are with: flo stream group list STREAM",
    "consumer_not_joined": "Join with: flo stream group join STREAM GROUP CONSUMER",
    "dead_letter_not_found": "See which there are with: flo stream group dead-letters STREAM GROUP",
    "key_not_found": "See which there are with: flo kv list",
    "version_mismatch": "See what it is now with: flo kv get KEY --format json",
    "transaction_not_found": "Begin another with: flo kv begin",
    "workflow_not_found": "See which there are with: flo workflow list",
    "idempotency_key_required": "Give one with --idempotency-key KEY.",
    "workflow_disabled": "Enable it with: flo workflow enable NAME",
    "schedule_not_found": "See which there are with: flo schedule list",
    "worker_not_found": "See which there are with: flo worker list",
    "namespace_not_found": "See which there are with: flo namespace list",
    "namespace_not_empty": "Delete it with all that is in it: flo namespace delete NAME --force",
    "invalid_namespace": "Choose one with --namespace or FLO_NAMESPACE.",
}


def report(error: Exception) -> int:
    """Print it on stderr; return the exit code."""
    code = _exit_code(error)
    if code == INTERNAL or os.environ.get("FLO_DEBUG"):
        say("".join(traceback.format_exception(error)), err=True, nl=False)
    for line in (f"Error: {_message(error)} [{_code(error)}]", *_hints(error)):
        say(line, err=True)
    return code


def _exit_code(error: Exception) -> int:
    match error:
        case click.ClickException() | FloError(code="invalid_address"):
            return USAGE
        case FloError(code="unreachable" | "connection_lost"):
            return UNREACHABLE
        case NotFound():
            return NOT_FOUND
        case Corrupt(code="backup_damaged"):
            return REFUSED
        case Unavailable():
            return TRY_AGAIN
        case Unexpected() | Corrupt():
            return INTERNAL
        case FloError() | OSError():
            return REFUSED
        case _:
            return INTERNAL


def _message(error: Exception) -> str:
    match error:
        case click.ClickException():
            return error.format_message().removesuffix(".")
        case FloError():
            return error.message
        case OSError(strerror=str() as reason, filename=str() as file):
            return f"{file}: {reason}"
        case _:
            return f"{type(error).__name__}: {error}"


def _code(error: Exception) -> str:
    match error:
        case click.ClickException():
            return "usage"
        case FloError():
            return error.code
        case OSError():
            return "system"
        case _:
            return Unexpected.code


def _hints(error: Exception) -> list[str]:
    if notes := getattr(error, "__notes__", None):
        return list(notes)
    match error:
        case click.UsageError(ctx=click.Context() as context):
            return [f"See: {context.command_path} --help"]
        case FloError(code=code) if code in HINTS:
            return [HINTS[code]]
        case _:
            return []
