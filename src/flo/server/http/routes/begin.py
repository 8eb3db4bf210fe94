"""What the routes have in common that begin a run: its idempotency key, and the wait for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, TypeAlias

from litestar.params import HeaderParameter, QueryParameter

from flo.model.errors import FloError, Invalid, error_of
from flo.model.ids import RunId

KeyQuery: TypeAlias = Annotated[
    str | None,
    QueryParameter(
        name="idempotency_key", description="Never makes two runs of one action or workflow."
    ),
]
KeyHeader: TypeAlias = Annotated[
    str | None, HeaderParameter(name="Idempotency-Key", description="The same, as a header.")
]


def one_of(what: str, in_query: str | None, other: str | None, place: str) -> str | None:
    """What may be said in two places, but not twice differently."""
    if in_query is not None and other is not None and in_query != other:
        raise Invalid(f"expected one {what}, got {in_query!r} as a parameter and {other!r} {place}")
    return other if in_query is None else in_query


def one_key(in_query: str | None, in_header: str | None) -> str | None:
    return one_of("idempotency key", in_query, in_header, "as a header")


@contextmanager
def naming(run_id: RunId) -> Iterator[None]:
    """An error says which run was begun: it goes on, whoever waits."""
    try:
        yield
    except FloError as error:
        details = {**error.details, "run_id": run_id}
        raise error_of(error.kind, error.code, error.message, details) from error
