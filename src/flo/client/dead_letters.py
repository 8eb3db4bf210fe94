"""Dead letters of actions, requeued or purged in as many commands as it takes."""

from collections.abc import Iterable
from itertools import islice

from msgspec.structs import replace

from flo.client.noun import Noun
from flo.model.ids import LIST_LIMIT_MAX, RunId
from flo.model.runs import Purged, PurgeDead, Requeued, RequeueDead


async def treat_dead(
    noun: Noun, command: RequeueDead | PurgeDead, run_ids: Iterable[RunId] | None
) -> list[RunId]:
    """Requeue or purge these dead letters, or all there are; returns which ones it was."""
    if run_ids is None:
        return await _treat_all(noun, command)
    treated: list[RunId] = []
    rest = iter([run_ids] if isinstance(run_ids, str) else run_ids)
    while some := list(islice(rest, LIST_LIMIT_MAX)):
        treated += (await _treat(noun, replace(command, run_ids=some))).run_ids
    return treated


async def _treat_all(noun: Noun, command: RequeueDead | PurgeDead) -> list[RunId]:
    treated: dict[RunId, None] = {}
    while True:
        count = len(treated)
        answer = await _treat(noun, command)
        treated |= dict.fromkeys(answer.run_ids)
        if not answer.more or len(treated) == count:  # what comes again has died again meanwhile
            return list(treated)


async def _treat(noun: Noun, command: RequeueDead | PurgeDead) -> Requeued | Purged:
    if isinstance(command, RequeueDead):  # each has its own type of reply
        return await noun._call(command)
    return await noun._call(command)
