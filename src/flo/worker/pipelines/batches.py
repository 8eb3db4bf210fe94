"""What goes through a role handler: a batch in, its result out, a result at the end."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(kw_only=True)
class Batch:
    """Input for one call of `process_batch`; without a `batch_uid` it is known by its payload."""

    batch_uid: str | None = None
    payload: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.batch_uid is not None:
            _check("Batch", "batch_uid", self.batch_uid, str)
        _check("Batch", "payload", self.payload, dict)


@dataclass(kw_only=True)
class BatchResult:
    """What became of a batch. `metrics` is also the meta of its artifact, which consumers read.

    A failed batch ends the attempt; with `permanent`, the node is not tried again.
    """

    success: bool
    metrics: dict[str, Any] = field(default_factory=dict)
    artifacts_ref: dict[str, Any] | None = None
    reason_code: str | None = None
    permanent: bool = False
    error: str | None = None

    def __post_init__(self) -> None:
        _check("BatchResult", "success", self.success, bool)
        _check("BatchResult", "metrics", self.metrics, dict)
        _check_ref("BatchResult", self.artifacts_ref)


@dataclass(kw_only=True)
class FinalizeResult:
    """What a handler has to say once all batches are done."""

    metrics: dict[str, Any] = field(default_factory=dict)
    artifacts_ref: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        _check("FinalizeResult", "metrics", self.metrics, dict)
        _check_ref("FinalizeResult", self.artifacts_ref)


def _check(name: str, field_name: str, value: object, expected: type) -> None:
    if not isinstance(value, expected):
        raise TypeError(
            f"{name}: expected {field_name} as {expected.__name__}, got {type(value).__name__}"
        )


def _check_ref(name: str, artifacts_ref: object) -> None:
    if artifacts_ref is not None:
        _check(name, "artifacts_ref", artifacts_ref, dict)
