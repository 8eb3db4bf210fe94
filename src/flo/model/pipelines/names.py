"""The names, statuses and bounds that every message about pipelines uses."""

import re
from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import msgspec

from flo.model.base import Message
from flo.model.declare.fields import Checked, Payload, Range, Text, about
from flo.model.errors import Invalid, TooLarge
from flo.model.ids import DURATION_MS_MAX, JSON_DEPTH_MAX, check_json, check_text

PIPELINE_PREFIX = "pipe"
"""Ids that the server gives begin so: pipe-1, pipe-2."""
ID_LENGTH_MAX = 128
NAME_LENGTH_MAX = 256
GRAPH_LENGTH_MAX = 1024 * 1024
PARAMS_LENGTH_MAX = 1024 * 1024
META_LENGTH_MAX = 1024 * 1024
"""The longest meta of a batch: what a node hands to its consumers with it."""
REF_LENGTH_MAX = 64 * 1024
BATCH_UID_LENGTH_MAX = 512
REASON_CODE_LENGTH_MAX = 256
INPUT_BATCHES_MAX = 1_000
INPUT_BATCHES_DEFAULT = 16
HELD_INPUTS_MAX = 10_000
ROLES_MAX = 1_000
EVENTS_PER_READ_MAX = 1_000
EVENTS_PER_READ_DEFAULT = 100
LEASE_MS_DEFAULT = 60_000
CANCEL_GRACE_MS_DEFAULT = 30_000
COORDINATOR_ROLE = "coordinator_fn"
"""The type of nodes that are functions; who asks for this role gets those it must run itself."""
CANCEL_REASON_DEFAULT = "user_request"

_GIVEN = re.compile(rf"{PIPELINE_PREFIX}-[1-9][0-9]{{,17}}")
_CHOSEN = re.compile(r"(?![.-])[\w.:@-]+")


class PipelineStatus(StrEnum):
    QUEUED = "queued"
    """No node has been started yet."""
    RUNNING = "running"
    DEFERRED = "deferred"
    """Nothing was heard of it for longer than `soft_ms`; its nodes go on."""
    CANCELLING = "cancelling"
    """It ends, and nodes that run have been told so."""
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


PIPELINE_ENDED = frozenset(
    {PipelineStatus.FINISHED, PipelineStatus.FAILED, PipelineStatus.CANCELLED}
)


class NodeStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DEFERRED = "deferred"
    """It failed, and is tried again later."""
    CANCELLING = "cancelling"
    """Its worker has been told to stop."""
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    """It can never become ready: what it waits for has taken another way."""


NODE_ENDED = frozenset(
    {NodeStatus.FINISHED, NodeStatus.FAILED, NodeStatus.CANCELLED, NodeStatus.SKIPPED}
)


class Verdict(StrEnum):
    """What becomes of a worker's report."""

    OK = "ok"
    DUPLICATE = "duplicate"
    """It has been recorded before; nothing has changed."""
    CANCELLED = "cancelled"
    """The node is to stop: see `reason` and `deadline_at`."""
    FENCED = "fenced"
    """The node is another's by now, or has ended: stop, and report nothing more."""


def check_pipeline_id(pipeline_id: str) -> None:
    """Refuse what cannot be the id of a pipeline."""
    if len(pipeline_id) > ID_LENGTH_MAX or not _CHOSEN.fullmatch(pipeline_id):
        raise Invalid(
            f"expected a pipeline id of 1 to {ID_LENGTH_MAX} letters, digits, '_', '-', '.', ':' "
            f"or '@', not beginning with '-' or '.', got {pipeline_id[:80]!r}",
            code="invalid_pipeline_id",
        )


def check_chosen_id(pipeline_id: str) -> None:
    """Refuse what someone may not choose as an id: those of the form pipe-N are ours to give."""
    check_pipeline_id(pipeline_id)
    if _GIVEN.fullmatch(pipeline_id):
        raise Invalid(
            f"expected a pipeline id that is not of the form {PIPELINE_PREFIX}-N, as those are "
            f"that the server gives, got {pipeline_id!r}",
            code="invalid_pipeline_id",
        )


def given_number(pipeline_id: str) -> int | None:
    """The number of a pipeline whose id the server gave; None if someone chose it."""
    if _GIVEN.fullmatch(pipeline_id) is None:
        return None
    return int(pipeline_id.rpartition("-")[2])


def check_graph_name(name: str) -> None:
    if not 1 <= len(name) <= NAME_LENGTH_MAX or not _CHOSEN.fullmatch(name):
        raise Invalid(
            f"expected the name of a stored graph of 1 to {NAME_LENGTH_MAX} letters, digits, '_', "
            f"'-', '.', ':' or '@', got {name[:80]!r}",
            code="invalid_graph_name",
        )


def _check_uid(uid: str) -> None:
    if not uid:
        raise Invalid("expected a batch_uid that is not empty")
    check_text(uid, "a batch_uid", BATCH_UID_LENGTH_MAX)


def _check_graph(graph: dict[str, Any]) -> None:
    check_json(graph, "a graph")
    length = len(msgspec.json.encode(graph))
    if length > GRAPH_LENGTH_MAX:
        raise TooLarge(f"expected a graph of at most {GRAPH_LENGTH_MAX} bytes, got {length}")


def check_values(value: Any, what: str, depth_max: int = JSON_DEPTH_MAX) -> None:
    """Refuse what the log could not hold; bytes and times are held, as in JSON they could not."""
    if depth_max == 0:
        raise TooLarge(f"expected {what} nested at most {JSON_DEPTH_MAX} deep")
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise Invalid(f"expected text for every key in {what}, got {str(key)[:80]!r}")
            check_values(inner, what, depth_max - 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            check_values(inner, what, depth_max - 1)
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise Invalid(f"expected numbers of 64 bits in {what}, got {value}")


def _check_params(params: dict[str, Any]) -> None:
    check_values(params, "params")
    length = len(msgspec.msgpack.encode(params))
    if length > PARAMS_LENGTH_MAX:
        raise TooLarge(f"expected params of at most {PARAMS_LENGTH_MAX} bytes, got {length}")


PipelineId: TypeAlias = Annotated[str, Checked(check_pipeline_id), about("The pipeline's id.")]
GraphName: TypeAlias = Annotated[
    str, Checked(check_graph_name), about("The name that a graph is stored under.")
]
NodeId: TypeAlias = Annotated[str, Text(NAME_LENGTH_MAX), about("The node's id in its graph.")]
Epoch: TypeAlias = Annotated[
    int, Range(0), about("The number of the attempt, as the start of the node told it.")
]
LeaseId: TypeAlias = Annotated[
    str | None, about("As the start told it; another lease of the same attempt is fenced.")
]
BatchUid: TypeAlias = Annotated[str, Checked(_check_uid), about("What tells a batch from others.")]
Meta: TypeAlias = Annotated[
    bytes,
    Payload("the meta of a batch", META_LENGTH_MAX),
    about("A JSON object: what consumers get of it. Store large data elsewhere, and refer to it."),
]
ArtifactsRef: TypeAlias = Annotated[
    bytes | None,
    Payload("an artifacts_ref", REF_LENGTH_MAX),
    about("JSON: where the handler has put what it made."),
]
Graph: TypeAlias = Annotated[
    dict[str, Any],
    Checked(_check_graph),
    about("The graph: `nodes`, `edges`, `edges_ex`."),
]
Params: TypeAlias = Annotated[
    dict[str, Any], Checked(_check_params), about("What the pipeline is submitted with.")
]
Values: TypeAlias = Annotated[
    dict[str, Any], Checked(lambda values: check_values(values, "the values"))
]
LeaseMs: TypeAlias = Annotated[
    int,
    Range(1, DURATION_MS_MAX),
    about("How long the node stays the worker's without a sign of life."),
]
ReasonCode: TypeAlias = Annotated[
    str, Text(REASON_CODE_LENGTH_MAX), about("What kind of failure it is.")
]
CancelReason: TypeAlias = Annotated[str, Text(what="reason"), about("Why it is cancelled.")]
OfNode: TypeAlias = tuple[str, str, int]
"""A pipeline, a node of it, and an attempt."""


class Reported(Message):
    """The answer to a report of a worker."""

    verdict: Verdict = Verdict.OK
    reason: str | None = None
    """Why it was cancelled, or what fenced it."""
    deadline_at_ms: int | None = None
    """When a cancelled node is given up, whatever its worker does."""
    lease_expires_at_ms: int | None = None
