"""Who takes the requests of connections."""

from collections.abc import Sequence
from typing import Protocol

from flo.model.base import Message
from flo.model.storage.caller import SERVER, Caller
from flo.model.storage.request_keys import RequestKeys
from flo.shard.submission import Done, Submission


class RequestHandler(Protocol):
    def submit(
        self,
        messages: Sequence[Message],
        done: Done,
        caller: Caller = SERVER,
        keys: RequestKeys | None = None,
    ) -> Submission: ...
