"""Parts of the distribution that are installed when they are asked for, and what is said without.

The base is the client, the workers and the command line.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from flo.model.errors import Conflict

DISTRIBUTION = "flo-runtime"


class ExtraMissing(Conflict, ImportError):
    """Something is asked for whose packages are not installed."""

    code = "extra_missing"


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """An import that fails for want of an extra says which line to type."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "flo"):
            raise  # that is a mistake of ours
        raise ExtraMissing(
            f"{what} needs {package}, which is not installed: "
            f"pip install '{DISTRIBUTION}[{extra}]'",
            details={"extra": extra, "package": package},
        ) from error
