"""What keys and values may answer, written down a second time and as simply as can be.

A state is what the keys of one part of a history hold. The version that a lost change gave is not
known before somebody is shown it: until then it is Unseen, and the first answer that shows it says
what it was.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from flo.model.errors import FloError
from flo.model.ids import Key
from flo.model.kv import (
    Change,
    Check,
    Committed,
    Delete,
    Deleted,
    DeleteKey,
    GetKey,
    GetKeys,
    Increment,
    Incremented,
    IncrementKey,
    Put,
    PutKey,
    Transact,
    Value,
    Values,
    Versioned,
)
from simulator.checks.linearizability import (
    CheckResult,
    Finding,
    HistoryOperation,
    check,
    connected,
)

ABSENT = 0


class Unseen(NamedTuple):
    """The version of a change whose answer did not say it."""

    called_at: float
    """Which change that was: when it was called."""
    above: int
    """A version the key had before; this one is greater."""


class HeldKey(NamedTuple):
    key: Key
    value: bytes
    version: int | Unseen


State: TypeAlias = tuple[HeldKey, ...]
"""In order of the keys, so that the same state always looks the same."""
NOTHING: State = ()
Contents: TypeAlias = dict[Key, bytes | None]


class KvRefused(NamedTuple):
    """A refusal, as far as it says something about the keys."""

    code: str
    key: Key | None = None
    actual: int | None = None


WRONG_TYPE = KvRefused("wrong_type")


def refused(error: FloError) -> KvRefused:
    return KvRefused(error.code, error.details.get("key"), error.details.get("actual"))


def keys_of(operation: HistoryOperation) -> Sequence[Key]:
    match operation.asked:
        case GetKeys(keys=keys):
            return keys
        case Transact(checks=checks, changes=changes):
            return [one.key for one in (*checks, *changes)]
        case asked:
            return [asked.key]


def problems_in(history: Iterable[HistoryOperation]) -> list[str]:
    """What cannot be explained, or could not be decided; nothing, if all is well."""
    operations = list(history)
    problems = versions_out_of_order(operations)
    for part in connected(operations, keys_of):
        finding = check(part, NOTHING, step, is_read)
        if finding.verdict is not CheckResult.LINEARIZABLE:
            problems.append(_told(finding, part))
    return problems


def versions_out_of_order(history: Iterable[HistoryOperation]) -> list[str]:
    """Changes of one namespace that were called after a greater version had been shown."""
    problems: list[str] = []
    answered = [one for one in history if not one.is_lost]
    returns = sorted(answered, key=lambda one: one.returned_at)
    newest = place = 0
    for operation in sorted(answered, key=lambda one: one.called_at):
        while returns[place].returned_at < operation.called_at:
            newest = max(newest, *_versions_shown(returns[place]))
            place += 1
        version = _version_given(operation)
        if version is not None and version <= newest:
            problems.append(f"version {version} came after {newest}: {operation}")
    given = sorted(filter(None, map(_version_given, answered)))
    problems += [f"version {one} was given twice" for one, other in pairwise(given) if one == other]
    return problems


def step(state: State, operation: HistoryOperation) -> Iterator[State]:
    """The states an operation can lead to, if this can be its answer."""
    match operation.asked:
        case GetKey(key=key):
            yield from _shown(state, [(key, operation.answer)])
        case GetKeys(keys=keys):
            yield from _shown(state, zip(keys, operation.answer.items, strict=True))
        case asked:
            for checked, problem in _checked(state, _checks_of(asked), operation):
                yield from _decided(checked, problem or _condition(checked, asked), operation)


def is_read(operation: HistoryOperation) -> bool:
    """Whether nothing was changed, going by the answer."""
    match operation.answer:
        case Value() | Values() | KvRefused() | Deleted(existed=False) | Committed(changes=0):
            return True
        case _:
            return False


def _decided(
    state: State, problem: KvRefused | None, operation: HistoryOperation
) -> Iterator[State]:
    """The state a change leaves, if that is what the answer says."""
    applied = _applied(state, _changes_of(operation.asked)) if problem is None else None
    if applied is None:
        if operation.answer == (problem or WRONG_TYPE):
            yield state
        return
    values, sums = applied
    gone = [key for key, value in values.items() if value is None and _get(state, key) is not None]
    count = len(gone) + sum(value is not None for value in values.values())
    if _fits(operation, state, existed=bool(gone), sums=sums, count=count):
        yield _written(state, values, _version_given(operation), operation.called_at)


def _checked(
    state: State, checks: Sequence[Check], operation: HistoryOperation
) -> Iterator[tuple[State, KvRefused | None]]:
    """What the checks come to; of a version that nobody has seen yet, all that it can be."""
    if not checks:
        yield state, None
        return
    (key, expected), rest = (checks[0].key, checks[0].version), checks[1:]
    held = _get(state, key)
    version = held.version if held is not None else ABSENT
    if version == expected:
        yield from _checked(state, rest, operation)
    elif not isinstance(version, Unseen):
        yield state, KvRefused("version_mismatch", key, version)
    else:
        for seen in _said(state, version, expected):
            yield from _checked(seen, rest, operation)
        answer = operation.answer
        if isinstance(answer, KvRefused) and answer.key == key and answer.actual != expected:
            for seen in _said(state, version, answer.actual):
                yield seen, answer


def _checks_of(asked: object) -> Sequence[Check]:
    match asked:
        case Transact(checks=checks):
            return checks
        case PutKey(key=key, if_version=int(version)):
            return (Check(key=key, version=version),)
        case DeleteKey(key=key, if_version=int(version)):
            return (Check(key=key, version=version),)
        case _:
            return ()


def _condition(state: State, asked: object) -> KvRefused | None:
    if isinstance(asked, PutKey):
        is_there = _get(state, asked.key) is not None
        if (asked.if_absent and is_there) or (asked.if_present and not is_there):
            return KvRefused("condition_failed")
    return None


def _changes_of(asked: object) -> Sequence[Change]:
    match asked:
        case PutKey(key=key, value=value, ttl_ms=None):
            return (Put(key=key, value=value),)
        case DeleteKey(key=key):
            return (Delete(key=key),)
        case IncrementKey(key=key, delta=delta):
            return (Increment(key=key, delta=delta),)
        case Transact(changes=changes):
            return changes
        case _:
            raise AssertionError(f"the model does not know {asked!r}")


def _applied(state: State, changes: Sequence[Change]) -> tuple[Contents, dict[Key, int]] | None:
    """What the keys hold after all the changes, and the sums; None if there is no number to sum."""
    values: Contents = {}
    sums: dict[Key, int] = {}
    for change in changes:
        if change.key not in values:
            held = _get(state, change.key)
            values[change.key] = held.value if held is not None else None
        match change:
            case Put(key=key, value=value):
                values[key] = value
            case Delete(key=key):
                values[key] = None
            case Increment(key=key, delta=delta):
                before = values[key] or b"0"
                if not before.removeprefix(b"-").isdigit():
                    return None
                sums[key] = int(before) + delta
                values[key] = b"%d" % sums[key]
    return values, sums


def _fits(
    operation: HistoryOperation, state: State, *, existed: bool, sums: dict[Key, int], count: int
) -> bool:
    version = _version_given(operation)
    if version is not None and version <= max(map(_least, state), default=ABSENT):
        return False
    match operation.answer:
        case None | Versioned():
            return True
        case Deleted():
            return operation.answer.existed == existed
        case Incremented():
            return [operation.answer.value] == list(sums.values())
        case Committed():
            return (operation.answer.changes, operation.answer.values) == (count, sums)
        case _:
            return False


def _written(state: State, values: Contents, version: int | None, called_at: float) -> State:
    held = {one.key: one for one in state}
    for key, value in values.items():
        before = held.pop(key, None)
        if value is not None:
            given = (
                version
                if version is not None
                else Unseen(called_at, _least(before) if before else ABSENT)
            )
            held[key] = HeldKey(key, value, given)
    return tuple(sorted(held.values(), key=lambda one: one.key))


def _least(held: HeldKey) -> int:
    """Its version, or one that it is greater than."""
    return held.version.above if isinstance(held.version, Unseen) else held.version


def _shown(state: State, answers: Iterable[tuple[Key, Value]]) -> Iterator[State]:
    """The state, if it can be shown like this; what a version is may be known now."""
    for key, value in answers:
        held = _get(state, key)
        if held is None or value.value is None:
            if held is not None or value.value is not None:
                return
        elif held.value != value.value:
            return
        elif isinstance(held.version, Unseen):
            known = list(_said(state, held.version, value.version))
            if not known:
                return
            state = known[0]
        elif held.version != value.version:
            return
    yield state


def _said(state: State, unseen: Unseen, version: int | None) -> Iterator[State]:
    """The state once it is known which version that was, if it can have been this one."""
    given = [one for one in state if _is_of(one.version, unseen)]
    if version is not None and all(version > _least(one) for one in given):
        yield tuple(one._replace(version=version) if one in given else one for one in state)


def _is_of(version: int | Unseen, change: Unseen) -> bool:
    """Whether a version was given by the same change."""
    return isinstance(version, Unseen) and version.called_at == change.called_at


def _get(state: State, key: Key) -> HeldKey | None:
    for held in state:
        if held.key == key:
            return held
    return None


def _version_given(operation: HistoryOperation) -> int | None:
    """The version a change says that it gave; None if it changed nothing or does not say."""
    match operation.answer:
        case Versioned(version=version) | Incremented(version=version):
            return version
        case Committed(version=version, changes=changes) if changes:
            return version
        case _:
            return None


def _versions_shown(operation: HistoryOperation) -> list[int]:
    match operation.answer:
        case Value(version=version):
            return [version]
        case Values(items=items):
            return [item.version for item in items]
        case KvRefused(actual=int(version)):
            return [version]
        case _:
            return [_version_given(operation) or 0]


def _told(finding: Finding, part: Sequence[HistoryOperation]) -> str:
    keys = sorted({key for operation in part for key in keys_of(operation)})
    if finding.verdict is CheckResult.UNDECIDED:
        return f"{keys}: undecided after {finding.steps} steps over {len(part)} operations"
    stuck = "".join(f"\n    {operation}" for operation in finding.stuck)
    return f"{keys}: with {finding.state}, none of these can come next:{stuck}"
