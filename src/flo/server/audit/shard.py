"""Hands commands to the shard, those that are audited with what is to be said of them.

What data consists of is not audited one by one: invocations, claims and reports of workers,
records, keys, starts of workflows. The log says before the events of each append who caused them,
by which operations, and why; the events say the rest. With a reason, any command is audited.
"""

from collections.abc import Sequence

from flo.engine.audit.audited import AuditedCommand, AuditTarget, NoteRefusal
from flo.engine.secrets.rules import ResealSecrets, StoreSecret
from flo.model.base import Message
from flo.model.declare.operation import DECLARED, Command, Permission
from flo.model.errors import FloError
from flo.model.safety.secrets import RotateKey, SetSecret
from flo.model.storage.caller import OUTSIDE, SERVER, Caller
from flo.model.storage.request_keys import RequestKeys
from flo.shard.loop import Shard
from flo.shard.submission import Done, Submission

COVERED = frozenset(
    {
        Permission.RUNS_INVOKE,
        Permission.TASKS_WORK,
        Permission.STREAMS_WRITE,
        Permission.KV_WRITE,
        Permission.WORKFLOWS_START,
        Permission.EVENTS_EMIT,
        Permission.PIPELINES_SUBMIT,
    }
)
"""What is allowed by these is covered by the note of its caller."""
AS_ASKED: dict[type[Message], type[Message]] = {StoreSecret: SetSecret, ResealSecrets: RotateKey}
"""What the server makes of an operation, and that."""
AUDITED = frozenset(
    one.message
    for one in DECLARED.values()
    if issubclass(one.message, Command) and one.permission not in COVERED and not one.waits
) | frozenset(AS_ASKED)
WITH_A_REASON = frozenset(
    one.message for one in DECLARED.values() if issubclass(one.message, Command) and not one.waits
)
NOT_A_TARGET = frozenset({"namespace", "sealed", "key_id", "value", "text"})


class AuditedShard:
    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def submit(
        self,
        messages: Sequence[Message],
        done: Done,
        caller: Caller = SERVER,
        keys: RequestKeys | None = None,
    ) -> Submission:
        if self._is_audited(messages[0], caller):
            messages = [AuditedCommand(command=one, about=target_of(one)) for one in messages]
        return self._shard.submit(messages, done, caller, keys)

    async def ask(
        self, message: Message, caller: Caller = SERVER, keys: RequestKeys | None = None
    ) -> Message:
        if self._is_audited(message, caller):
            message = AuditedCommand(command=message, about=target_of(message))
        return await self._shard.ask(message, caller, keys)

    def refused(self, caller: Caller, identity: object, message: Message, error: FloError) -> None:
        """Somebody may not do this: no rule was asked."""
        if isinstance(message, Command):
            note = NoteRefusal(about=target_of(message), code=error.code)
            self._shard.submit([note], lambda answers: None, caller)

    def _is_audited(self, message: Message, caller: Caller) -> bool:
        kind = type(message)
        if kind not in AUDITED and (caller.reason is None or kind not in WITH_A_REASON):
            return False
        return caller.source in OUTSIDE


def target_of(message: Message) -> AuditTarget:
    """What it is about: the first thing that it names."""
    asked = AS_ASKED.get(type(message), type(message))
    named = (
        getattr(message, name) for name in message.__struct_fields__ if name not in NOT_A_TARGET
    )
    target = next((value for value in named if isinstance(value, str) and value), "")
    return AuditTarget(
        operation=DECLARED[asked].name,
        namespace=getattr(message, "namespace", ""),
        target=target,
    )
