"""The names of blocks, jobs and locks, and the bounds that every message about them uses.

    block      lab.example/echo:1.2.3          as it is registered
    reference  lab.example/echo:1.2            the highest 1.2.x; `:1` is the highest 1.x.y
    action     block:lab.example:echo:1.2.3:execute
    job        block:lab.example:echo:1.2.3:execute-17.2     the second attempt at its 17th run

A job is an attempt at a run of an action that the registration of the block has made.
"""

import re
from enum import StrEnum
from typing import Annotated, NamedTuple, TypeAlias

from flo.model.declare.fields import Checked, Text, about
from flo.model.errors import Invalid
from flo.model.ids import ActionName, RunId, parse_run_id

JOB_PREFIX = "block:"
"""Names of actions that begin so are those of blocks."""
PART_LENGTH_MAX = 100
BLOCK_ID_LENGTH_MAX = 2 * PART_LENGTH_MAX + 24
LOCK_KEY_LENGTH_MAX = 256
LOCKS_PER_RUN_MAX = 10_000
BLOCKS_PER_CALL_MAX = 300
"""A worker is registered for three actions of each."""
NOTE_LENGTH_MAX = 1_024

_PART = r"(?![.-])[\w.-]{1,100}"
_NUMBER = r"(?:0|[1-9][0-9]{0,5})"
_BLOCK = re.compile(rf"({_PART})[/:]({_PART}):({_NUMBER})\.({_NUMBER})\.({_NUMBER})")
_REFERENCE = re.compile(rf"({_PART})[/:]({_PART}):({_NUMBER})(?:\.({_NUMBER}))?(?:\.({_NUMBER}))?")
_JOB = re.compile(r"(.+)\.([1-9][0-9]{0,8})")


class JobType(StrEnum):
    ACQUIRE = "acquire"
    """Says which locks the step will need."""
    EXECUTE = "execute"
    ROLLBACK = "rollback"
    """Undoes what EXECUTE has done."""


class LockMode(StrEnum):
    EXCLUSIVE = "exclusive"
    SHARED = "shared"


class BlockName(NamedTuple):
    """A block without its version."""

    package: str
    name: str

    def __str__(self) -> str:
        return f"{self.package}/{self.name}"


class BlockVersion(NamedTuple):
    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


class BlockReference(NamedTuple):
    """A block of this version, or the highest one that begins so."""

    block: BlockName
    version: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.block}:{'.'.join(map(str, self.version))}"


def parse_block_id(text: str) -> tuple[BlockName, BlockVersion] | None:
    match = _BLOCK.fullmatch(text)
    if match is None:
        return None
    package, name, major, minor, patch = match.groups()
    return BlockName(package, name), BlockVersion(int(major), int(minor), int(patch))


def parse_reference(text: str) -> BlockReference | None:
    """What a reference names; `package:name:1` is read as `package/name:1`."""
    match = _REFERENCE.fullmatch(text)
    if match is None:
        return None
    package, name, *numbers = match.groups()
    version = tuple(int(number) for number in numbers if number is not None)
    return BlockReference(BlockName(package, name), version)


def job_action(block_id: str, job: JobType) -> ActionName:
    """The action whose runs are the jobs of this type of a block."""
    return f"{JOB_PREFIX}{block_id.replace('/', ':')}:{job}"


def parse_job_action(action: ActionName) -> tuple[str, JobType] | None:
    """The id of the block, and the type of the jobs; None if it is no action of a block."""
    if not action.startswith(JOB_PREFIX):
        return None
    block_id, _, job = action.removeprefix(JOB_PREFIX).rpartition(":")
    found = parse_block_id(block_id)
    if found is None or job not in tuple(JobType):
        return None
    block, version = found
    return f"{block}:{version}", JobType(job)


def job_id_of(run_id: RunId, attempt: int) -> str:
    """The id of an attempt at a run; what is ready for its first has the id of that."""
    return f"{run_id}.{max(attempt, 1)}"


def parse_job_id(job_id: str) -> tuple[RunId, int] | None:
    """The run and the attempt that a job is; None if it cannot be one."""
    match = _JOB.fullmatch(job_id)
    if match is None or not match[1].startswith(JOB_PREFIX) or parse_run_id(match[1]) is None:
        return None
    return match[1], int(match[2])


def check_block_id(text: str) -> None:
    if parse_block_id(text) is None:
        raise Invalid(
            f"expected the id of a block, such as package/name:1.2.3, got {text[:80]!r}",
            code="invalid_block",
        )


def check_reference(text: str) -> None:
    if parse_reference(text) is None:
        raise Invalid(
            "expected a block and its version, such as package/name:1, package/name:1.2 or "
            f"package/name:1.2.3, got {text[:80]!r}",
            code="invalid_block",
        )


def _check_part(text: str) -> None:
    if not re.fullmatch(_PART, text):
        raise Invalid(
            f"expected a package or a name of 1 to {PART_LENGTH_MAX} letters, digits, '_', '-' or "
            f"'.', not beginning with '-' or '.', got {text[:80]!r}",
            code="invalid_block",
        )


def _check_version(text: str) -> None:
    if not re.fullmatch(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}", text):
        raise Invalid(f"expected a version such as 1.2.3, got {text[:80]!r}", code="invalid_block")


def check_lock_key(key: str) -> None:
    if not 1 <= len(key) <= LOCK_KEY_LENGTH_MAX:
        raise Invalid(
            f"expected the key of a lock of 1 to {LOCK_KEY_LENGTH_MAX} characters, got {len(key)}",
            code="invalid_lock",
        )


BlockId: TypeAlias = Annotated[
    str, Checked(check_block_id), about("The block, as package/name:1.2.3.")
]
Reference: TypeAlias = Annotated[
    str,
    Checked(check_reference),
    about("The block, as package/name:1.2.3, or the highest one, as package/name:1.2."),
]
Package: TypeAlias = Annotated[str, Checked(_check_part), about("The package of the block.")]
PartName: TypeAlias = Annotated[
    str, Checked(_check_part), about("The block's name in its package.")
]
SemanticVersion: TypeAlias = Annotated[
    str, Checked(_check_version), about("The version, as 1.2.3.")
]
LockKey: TypeAlias = Annotated[
    str, Checked(check_lock_key), about("The key of the lock, such as device:7.")
]
Note: TypeAlias = Annotated[
    str, Text(NOTE_LENGTH_MAX, "note"), about("Why; whoever looks at it can read it.")
]
