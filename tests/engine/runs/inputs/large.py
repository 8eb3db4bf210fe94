"""What tests of large inputs are given."""

from flo.model.actions import RegisterAction
from flo.model.runs import Fail, Invoke
from flo.model.storage.archive import ArchiveAddress
from flo.model.storage.payloads import SPILL_BYTES
from given import ANNA

LARGE = b'{"who": "ada", "text": "' + b"x" * SPILL_BYTES + b'"}'
SEND = RegisterAction(name="send", max_retries=0)
INVOKE = Invoke(action="send", input=LARGE)
SMALL = Invoke(action="send", input=bytes(SPILL_BYTES))
FAIL = Fail(run_id="send-1", worker_id=ANNA, error="no")


def stored(number: int) -> ArchiveAddress:
    """Where the store has the input of a run of `send`."""
    return ArchiveAddress("run", "default", "send", number)
