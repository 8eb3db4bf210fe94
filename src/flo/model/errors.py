"""The error tree, by what the caller can do about it.

    FloError
    ├── Rejected            the caller asked for something the rules refuse
    │   ├── NotFound            it does not exist (any more)
    │   ├── Invalid             the request itself is wrong
    │   │   └── TooLarge            it is past a bound
    │   ├── Conflict            it cannot be done in the present state
    │   │   └── ExtraMissing        packages that it needs are not installed
    │   ├── Unauthenticated     it is not known who asks
    │   └── Forbidden           it is known, and may not
    ├── Unavailable         try again: the server is draining, behind, or out of reach
    │   ├── TimedOut            no answer in the time allowed
    │   └── Overloaded          it has too much to do, and has not begun with this
    ├── Corrupt             the log or the wire holds bytes that cannot be right
    └── Unexpected          a mistake of ours; the server's log has the details

Every error carries a `code` that never changes once released; wire, HTTP, CLI and SDK
all derive from it. The class says what to do, the code says what it was. The failure of a run has
a code as well, which its worker chooses.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Final

ERROR_CODE_LENGTH_MAX: Final = 128
FAILURE_CODE: Final = "failure"
"""Of a run whose failure says nothing about its kind."""
TIMEOUT_CODE: Final = "timeout"
CANCELLED_CODE: Final = "cancelled"

RETRY_AFTER: Final = "retry_after_ms"
"""The detail of an error that says when to try again."""
RETRY_AFTER_MS_DEFAULT: Final = 1_000

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


class FloError(Exception):
    """What every error of Flo is; `code` is stable, `details` is data for programs."""

    kind: ClassVar[str] = "unexpected"
    code: str = "unexpected"

    def __init__(
        self, message: str, *, code: str | None = None, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details or {}
        if code is not None:
            self.code = code


class Rejected(FloError):
    kind = "invalid"
    code = "rejected"


class NotFound(Rejected):
    kind = "not_found"
    code = "not_found"


class Invalid(Rejected):
    kind = "invalid"
    code = "invalid"


class TooLarge(Invalid):
    kind = "too_large"
    code = "too_large"


class Conflict(Rejected):
    kind = "conflict"
    code = "conflict"


class ExtraMissing(Conflict, ImportError):
    code = "extra_missing"


class Unauthenticated(Rejected):
    """Another attempt with the same token cannot help."""

    kind = "unauthenticated"
    code = "unauthenticated"


class Forbidden(Rejected):
    kind = "forbidden"
    code = "forbidden"


class Unavailable(FloError):
    kind = "unavailable"
    code = "unavailable"


class TimedOut(Unavailable):
    kind = "timed_out"
    code = "timed_out"


class Overloaded(Unavailable):
    """Nothing was carried out: it may always be sent again, after `retry_after_ms`."""

    kind = "overloaded"
    code = "overloaded"

    @property
    def retry_after_ms(self) -> int:
        told = self.details.get(RETRY_AFTER)
        return told if isinstance(told, int) and told >= 0 else RETRY_AFTER_MS_DEFAULT


class Corrupt(FloError):
    kind = "corrupt"
    code = "corrupt"


class Unexpected(FloError):
    kind = "unexpected"
    code = "unexpected"


def reworded(message: str, names: Mapping[str, str]) -> str:
    """A message in the words of whoever asked: fields by the names that these have there.

    A field whose name is an everyday word is meant only where a bound was broken.
    """
    for field, name in names.items():
        before = r"(?<![\w-])" if "_" in field else "(?<=^expected )"
        message = re.sub(rf"{before}{field}(?![\w-])", name.replace("\\", r"\\"), message)
    return message


KINDS: dict[str, type[FloError]] = {
    error.kind: error
    for error in (
        NotFound,
        Invalid,
        TooLarge,
        Conflict,
        Unauthenticated,
        Forbidden,
        Unavailable,
        TimedOut,
        Overloaded,
        Corrupt,
        Unexpected,
    )
}


def error_of(kind: str, code: str, message: str, details: dict[str, Any] | None) -> FloError:
    """The error that was sent as these four; an unknown kind is Unexpected."""
    return KINDS.get(kind, Unexpected)(message, code=code, details=details)


def word_code(text: str) -> str | None:
    """The text, if it is one word that can be a code: "invalid_card" is, "no such card" is not."""
    return text if len(text) <= ERROR_CODE_LENGTH_MAX and _WORD.fullmatch(text) else None


def code_in(error: str) -> str:
    """The code of a failure that came without one: the word that it is, or that a `:` follows."""
    return word_code(error.partition(":")[0].strip()) or FAILURE_CODE


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """An import that fails for want of an extra of the distribution says which line to type."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "flo"):
            raise  # that is a mistake of ours
        raise ExtraMissing(
            f"{what} needs {package}, which is not installed: pip install 'flo-runtime[{extra}]'",
            details={"extra": extra, "package": package},
        ) from error
