"""Errors as HTTP answers: a status for the kind, one body for all of them."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
import structlog
from litestar import Request, Response
from litestar.exceptions import (
    HTTPException,
    MethodNotAllowedException,
    NotFoundException,
    ValidationException,
)
from litestar.openapi.datastructures import ResponseSpec
from litestar.types import ExceptionHandlersMap

from flo.model.errors import RETRY_AFTER, FloError, Invalid, Unexpected, error_of, reworded

STATUSES = {
    "invalid": 400,
    "not_found": 404,
    "unauthenticated": 401,
    "forbidden": 403,
    "conflict": 409,
    "too_large": 413,
    "corrupt": 500,
    "unexpected": 500,
    "unavailable": 503,
    "timed_out": 503,
    "overloaded": 429,
}
STATUSES_BY_CODE = {"invalid_workflow": 422, "invalid_graph": 422}
"""Those that have a status of their own."""

MEANINGS = {
    400: "The request itself is wrong.",
    401: "It is not known who asks: send a valid token as `Authorization: Bearer`.",
    403: "Whoever asks is known, and may not.",
    404: "It does not exist (any more).",
    409: "It cannot be done in the present state.",
    413: "The body is too large.",
    422: "The definition is wrong; `details.problems` says what, where, and what would help.",
    429: "The server has too much to do, and has not begun with this: try again after "
    "`Retry-After`, or the milliseconds in `details.retry_after_ms`.",
    500: "A mistake of ours; the server's log has the details.",
    503: "The server is starting, stopping, or out of order: try again.",
}

HINTS = {
    "idempotency_key_required": "give one in the header Idempotency-Key, or as ?idempotency_key=",
    "namespace_not_empty": "add ?force=true to delete it with all that is in it",
    "version_mismatch": "GET it, and send its ETag in the header If-Match",
    "action_not_found": "POST /actions registers it",
    "workflow_not_found": "POST /workflows creates it",
    "worker_not_found": "POST /workers registers it",
    "action_not_registered": "POST /workers with all of them in `processes`",
    "consumer_not_joined": "POST /streams/NAME/groups/GROUP/join first",
}
"""What to do about an error over HTTP, where its message does not say it."""

_logger = structlog.get_logger("flo.http")


class HttpProblem(msgspec.Struct):
    """`code` is stable and for programs, as are `details`; `message` is for people."""

    code: str
    message: str
    details: dict[str, Any]


class ErrorBody(msgspec.Struct):
    """What every error looks like."""

    error: HttpProblem


def refusals(*statuses: int) -> dict[int, ResponseSpec]:
    """For the description of a route: the errors it answers, besides those of every route."""
    return {
        status: ResponseSpec(ErrorBody, description=MEANINGS[status], generate_examples=False)
        for status in sorted({400, *statuses, 429, 500, 503})
    }


def error_body(error: FloError) -> ErrorBody:
    hint = HINTS.get(error.code)
    message = f"{error.message}: {hint}" if hint else error.message
    return ErrorBody(HttpProblem(error.code, message, error.details))


@contextmanager
def in_words(names: Mapping[str, str]) -> Iterator[None]:
    """Errors that speak of fields, in the words of a route that calls them otherwise."""
    try:
        yield
    except FloError as error:
        message = reworded(error.message, names)
        if message == error.message:
            raise
        raise error_of(error.kind, error.code, message, error.details) from error


def answer_refusal(request: Request[Any, Any, Any], error: FloError) -> Response[ErrorBody]:
    status = STATUSES_BY_CODE.get(error.code, STATUSES[error.kind])
    return Response(error_body(error), status_code=status, headers=retry_headers(error))


def retry_headers(error: FloError) -> dict[str, str]:
    """When to try again, as HTTP says it: in whole seconds."""
    retry_after_ms = error.details.get(RETRY_AFTER)
    if retry_after_ms is None:
        return {}
    return {"Retry-After": str(math.ceil(retry_after_ms / 1_000))}


def answer_litestar(request: Request[Any, Any, Any], error: HTTPException) -> Response[ErrorBody]:
    """What the framework refuses before a route of ours is called."""
    match error:
        case NotFoundException():
            problem = HttpProblem("no_such_route", f"there is no {request.url.path!r} here", {})
        case MethodNotAllowedException():
            allowed = sorted((error.headers or {}).get("allow", "").split(", "))
            message = f"expected {' or '.join(allowed)}, got {request.method}"
            problem = HttpProblem("method_not_allowed", message, {"allowed": allowed})
        case ValidationException():
            problem = _unfit(error)
        case HTTPException(status_code=413):
            problem = HttpProblem("too_large", MEANINGS[413], {})
        case HTTPException(status_code=status) if status < 500:
            problem = HttpProblem("invalid_request", error.detail, {})
        case _:
            return answer_mistake(request, error)
    return Response(ErrorBody(problem), status_code=error.status_code, headers=error.headers)


def answer_mistake(request: Request[Any, Any, Any], error: Exception) -> Response[ErrorBody]:
    _logger.error("request_failed", method=request.method, path=request.url.path, exc_info=error)
    return answer_refusal(request, Unexpected(MEANINGS[500]))


def _unfit(error: ValidationException) -> HttpProblem:
    """Parameters that do not fit their types: all of them, each with what was expected."""
    found = error.extra if isinstance(error.extra, list) else []
    problems = {problem.get("key", "request"): problem["message"] for problem in found}
    if "data" in problems:  # what is wrong within a body is refused elsewhere
        problems["body"] = "expected JSON, got nothing"
        del problems["data"]
    message = "; ".join(f"{key}: {problem}" for key, problem in problems.items())
    return HttpProblem(Invalid.code, message or error.detail, {})


EXCEPTION_HANDLERS: ExceptionHandlersMap = {
    FloError: answer_refusal,
    HTTPException: answer_litestar,
    Exception: answer_mistake,
}
