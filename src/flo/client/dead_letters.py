"""Dead letters of actions and groups, requeued or purged in as many commands as it takes."""

from collections.abc import Iterable
from itertools import islice

from msgspec.structs import replace

from flo.client.noun import Noun
from flo.model.declare.dead_letters import DeadLettersChanged
from flo.model.declare.operation import Command
from flo.model.ids import LIST_LIMIT_MAX


async def change_dead(
    noun: Noun, command: Command[DeadLettersChanged], ids: Iterable[str] | None
) -> list[str]:
    """Requeue or purge these dead letters, or all there are; returns which ones it was."""
    if ids is None:
        return await _change_all(noun, command)
    changed: list[str] = []
    rest = iter([ids] if isinstance(ids, str) else ids)
    while some := list(islice(rest, LIST_LIMIT_MAX)):
        changed += (await noun._call(replace(command, ids=some))).ids
    return changed


async def _change_all(noun: Noun, command: Command[DeadLettersChanged]) -> list[str]:
    changed: dict[str, None] = {}
    while True:
        count = len(changed)
        answer = await noun._call(command)
        changed |= dict.fromkeys(answer.ids)
        if not answer.more or len(changed) == count:  # what comes again has died again meanwhile
            return list(changed)
