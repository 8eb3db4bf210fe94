"""Bodies about workers: the version check, registration, and a worker as it is answered."""

import re
from typing import Final

from flo.compat.neops.body import Body

CLIENT_LIBRARY: Final = "neops_workflow_engine_client"
SERVED: Final = ((0, 42), (0, 43))
"""The versions of the client whose calls were checked."""

_VERSION = re.compile(r"v?(\d{1,9})(?:\.(\d{1,9}))?")


class VersionBody(Body):
    version: str
    library: str = CLIENT_LIBRARY


class VersionAnswer(Body):
    """All five are required by the client."""

    compatible: bool
    deprecated: bool
    version: str
    checked_library: str
    checked_version: str


class RegisterWorkerBody(Body):
    version: str
    name: str | None = None
    ip_address: str | None = None


class WorkerAnswer(Body):
    uuid: str
    version: str
    state: str
    """online, unreachable or offline."""
    last_ping_at: str
    created_at: str
    updated_at: str
    name: str | None = None
    ip_address: str | None = None
    deleted_at: str | None = None
    last_seen_at: str | None = None
    function_block_ids: list[str] | None = None


def check_version(asked: VersionBody, ours: str) -> VersionAnswer:
    """Whether a client may go on: what is older is deprecated, what cannot be read is let in."""
    found = _VERSION.match(asked.version)
    line = (int(found[1]), int(found[2] or 0)) if found is not None else SERVED[-1]
    return VersionAnswer(
        compatible=line[0] == SERVED[-1][0],
        deprecated=line < SERVED[0],
        version=ours,
        checked_library=asked.library,
        checked_version=asked.version,
    )
