"""The names of things, and the limits on them."""

import re
from collections.abc import Sequence
from math import isfinite
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, json

from flo.model.errors import Invalid, TooLarge

Namespace: TypeAlias = Annotated[str, Meta(description="The namespace it is in.")]
ActionName: TypeAlias = Annotated[str, Meta(description="The action's name.")]
RunId: TypeAlias = Annotated[str, Meta(description="The run's id.")]
WorkerId: TypeAlias = Annotated[str, Meta(description="The worker's id.")]
StreamName: TypeAlias = Annotated[str, Meta(description="The stream's name.")]
StreamId: TypeAlias = Annotated[
    str, Meta(description="The id of a record in its stream, such as 1700000000000-1.")
]
GroupName: TypeAlias = Annotated[str, Meta(description="The group's name.")]
ConsumerName: TypeAlias = Annotated[str, Meta(description="The consumer's name.")]
Key: TypeAlias = Annotated[str, Meta(description="The key.")]
Labels: TypeAlias = dict[str, str | int | float | bool | list[Any] | dict[str, Any]]
"""What is nested in them is kept, but not compared."""

NAMESPACE_DEFAULT = "default"

NAMESPACE_LENGTH_MAX = 63
ACTION_NAME_LENGTH_MAX = 256
WORKER_ID_LENGTH_MAX = 256
RUN_ID_LENGTH_MAX = 256
STREAM_NAME_LENGTH_MAX = 256
KEY_LENGTH_MAX = 4_096
SUBJECT_LENGTH_MAX = 256
IDEMPOTENCY_KEY_LENGTH_MAX = 512
ERROR_LENGTH_MAX = 65_536
TEXT_LENGTH_MAX = 4_096
PAYLOAD_LENGTH_MAX = 16 * 1024 * 1024
BLOCK_MS_MAX = 300_000
DURATION_MS_MAX = 366 * 24 * 3_600_000
LABELS_MAX = 64
JSON_DEPTH_MAX = 100
LIST_LIMIT_DEFAULT = 50
LIST_LIMIT_MAX = 1_000

NOT_FIRST = "not beginning with '-' or '.'"

_NAME_SIGNS = "'_', '-', '.', ':' or '@'"


def name_pattern(signs: str) -> re.Pattern[str]:
    """What every kind of name looks like: letters, digits and some of these signs.

    What begins with '-' would pass for a flag, what begins with '.' for a hidden file or a folder.
    """
    return re.compile(rf"(?![.-])[{signs}]+")


_NAMESPACE = name_pattern("A-Za-z0-9_-")
_NAME = name_pattern(r"\w.:@-")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_NUMBER = re.compile(r"[1-9][0-9]{,17}")
_STREAM_ID = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


def run_id_of(action: ActionName, number: int) -> RunId:
    return f"{action}-{number}"


def parse_run_id(run_id: RunId) -> tuple[ActionName, int] | None:
    """The action and the number that a run id is made of; None if it cannot be one."""
    action, dash, digits = run_id.rpartition("-")
    if not (action and dash and _NUMBER.fullmatch(digits)):
        return None
    return action, int(digits)


SECRETS_MAX = 100
"""An action names no more."""
_SECRET = re.compile(r"[A-Za-z_][A-Za-z0-9_]{,127}")


def check_secret_name(name: str) -> None:
    if not _SECRET.fullmatch(name):
        raise Invalid(
            "expected the name of a secret as 1 to 128 letters, digits and underscores, not "
            f"beginning with a digit, got {name!r}"
        )


def check_secret_names(names: Sequence[str]) -> None:
    if len(names) > SECRETS_MAX:
        raise TooLarge(f"expected at most {SECRETS_MAX} secrets, got {len(names)}")
    for name in names:
        check_secret_name(name)


def stream_id_of(at_ms: int, sequence: int) -> StreamId:
    return f"{at_ms}-{sequence}"


def parse_stream_id(stream_id: StreamId) -> tuple[int, int]:
    """The time and the sequence that a stream id is made of."""
    match = _STREAM_ID.fullmatch(stream_id)
    if match is None:
        raise Invalid(
            f"expected a stream id such as 1700000000000-1, got {_shown(stream_id)}",
            code="invalid_stream_id",
        )
    return int(match[1]), int(match[2])


def check_namespace(namespace: Namespace) -> None:
    if len(namespace) > NAMESPACE_LENGTH_MAX or not _NAMESPACE.fullmatch(namespace):
        raise Invalid(
            f"expected a namespace of 1 to {NAMESPACE_LENGTH_MAX} letters, digits, '_' or '-', "
            f"{NOT_FIRST}, got {_shown(namespace)}",
            code="invalid_namespace",
        )


def check_action_name(name: ActionName) -> None:
    if problem := _problem_of(name, "an action name", ACTION_NAME_LENGTH_MAX):
        raise Invalid(problem, code="invalid_action_name")


def check_worker_id(worker_id: WorkerId) -> None:
    if problem := _problem_of(worker_id, "a worker id", WORKER_ID_LENGTH_MAX):
        raise Invalid(problem, code="invalid_worker_id")


def is_run_id(run_id: RunId) -> bool:
    """Whether someone may choose it."""
    return _problem_of(run_id, "a run id", RUN_ID_LENGTH_MAX) is None


def check_run_id(run_id: RunId, given_prefix: str) -> None:
    """Refuse what cannot be the id of a run that someone else has chosen.

    Ids that begin with `given_prefix` are ours to give.
    """
    problem = _problem_of(run_id, "a run id", RUN_ID_LENGTH_MAX)
    if problem is None and run_id.startswith(f"{given_prefix}-"):
        problem = (
            f"expected a run id that does not begin with '{given_prefix}-', as those do that the "
            f"server gives, got {_shown(run_id)}"
        )
    if problem is not None:
        raise Invalid(problem, code="invalid_run_id")


def check_stream_name(name: str, what: str = "a stream name") -> None:
    """Refuse what cannot name a stream, or a group or a consumer of one."""
    if problem := _problem_of(name, what, STREAM_NAME_LENGTH_MAX):
        raise Invalid(problem, code="invalid_stream_name")


def check_key(key: Key) -> None:
    if not 1 <= len(key.encode()) <= KEY_LENGTH_MAX:
        raise Invalid(
            f"expected a key of 1 to {KEY_LENGTH_MAX} bytes, got {len(key.encode())}",
            code="invalid_key",
        )


def check_idempotency_key(key: str) -> None:
    if not key:
        raise Invalid("expected an idempotency key that is not empty")
    check_text(key, "an idempotency key", IDEMPOTENCY_KEY_LENGTH_MAX)


def check_subject(subject: str) -> None:
    if not subject:
        raise Invalid("expected a subject that is not empty")
    check_text(subject, "a subject", SUBJECT_LENGTH_MAX)


def check_trace(trace: str) -> None:
    if _TRACEPARENT.fullmatch(trace) is None:
        raise Invalid(
            "expected a W3C traceparent such as "
            f"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01, got {trace[:60]!r}"
        )


def check_payload(payload: bytes, what: str) -> None:
    if len(payload) > PAYLOAD_LENGTH_MAX:
        raise TooLarge(f"expected {what} of at most {PAYLOAD_LENGTH_MAX} bytes, got {len(payload)}")


def check_text(text: str, what: str, length_max: int = TEXT_LENGTH_MAX) -> None:
    if len(text) > length_max:
        raise TooLarge(f"expected {what} of at most {length_max} characters, got {len(text)}")


def check_range(value: int, what: str, least: int, most: int) -> None:
    if not isinstance(value, int) or not least <= value <= most:
        raise Invalid(f"expected {what} from {least} to {most}, got {value!r}")


def check_labels(labels: dict[str, Any], what: str) -> None:
    if len(labels) > LABELS_MAX:
        raise TooLarge(f"expected at most {LABELS_MAX} {what}, got {len(labels)}")
    for key, value in labels.items():
        check_text(key, f"a key of {what}")
        if isinstance(value, str):
            check_text(value, f"the value of {key!r} in {what}")
        elif isinstance(value, dict | list):
            check_json(value, what)
            check_text(json.encode(value).decode(), f"the value of {key!r} in {what}")
        elif not isinstance(value, bool | int | float):
            shown = "null" if value is None else type(value).__name__
            raise Invalid(f"expected text, numbers or booleans in {what}, got {shown} for {key!r}")
        elif not _can_be_kept(value):
            raise Invalid(f"expected finite numbers of 64 bits in {what}, got {value} for {key!r}")


def check_json(value: Any, what: str, depth_max: int = JSON_DEPTH_MAX) -> None:
    """Refuse what is not JSON, or what the log and the wire could not hold."""
    if depth_max == 0:
        raise TooLarge(f"expected {what} nested at most {JSON_DEPTH_MAX} deep")
    match value:
        case dict():
            for key, inner in value.items():
                if not isinstance(key, str):
                    raise Invalid(f"expected text for every key in {what}, got {_shown(str(key))}")
                check_json(inner, what, depth_max - 1)
        case list():
            for inner in value:
                check_json(inner, what, depth_max - 1)
        case int() | float():
            if not _can_be_kept(value):
                raise Invalid(f"expected finite numbers of 64 bits in {what}, got {value}")
        case str() | None:
            pass
        case _:
            raise Invalid(f"expected JSON in {what}, got {type(value).__name__}")


def _problem_of(name: str, what: str, length_max: int) -> str | None:
    if len(name) <= length_max and _NAME.fullmatch(name):
        return None
    return (
        f"expected {what} of 1 to {length_max} letters, digits, {_NAME_SIGNS}, {NOT_FIRST}, "
        f"got {_shown(name)}"
    )


def _can_be_kept(number: float) -> bool:
    """Whether the log can hold it, and it equals itself when it is read back."""
    return isfinite(number) if isinstance(number, float) else -(2**63) <= number < 2**64


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
