"""The blocks and workflows of the simulation: what each needs is in the input of a run."""

from flo.model.blocks.blocks import BlockDeclaration, OnWorkerLost
from flo.model.blocks.names import JobType, job_action
from flo.model.ids import ActionName

TIMEOUT_MS = 20_000

BLOCKS = (
    BlockDeclaration(package="lab", name="set", reversible=True, timeout_ms=TIMEOUT_MS),
    BlockDeclaration(
        package="lab",
        name="set",
        version="1.1.0",
        reversible=True,
        timeout_ms=TIMEOUT_MS,
        on_worker_lost=OnWorkerLost.FAIL,
    ),
    BlockDeclaration(package="lab", name="push", timeout_ms=TIMEOUT_MS),
    BlockDeclaration(package="lab", name="check", pure=True, timeout_ms=TIMEOUT_MS),
)
SPARE = BlockDeclaration(package="lab", name="spare", pure=True)
"""One that comes and goes."""

LINE = """
kind: Workflow
name: line
version: "1"
start:
  run: "@blocks/lab/check:1"
  transitions: {success: first, failure: flo.Failed}
steps:
  first:
    run: "@blocks/lab/set:1.0"
    retry: {max_attempts: 2, initial_delay_ms: 100}
    transitions: {success: second, failure: flo.Failed}
  second:
    run: "@blocks/lab/set:1"
    transitions: {success: flo.Completed, failure: flo.Failed}
"""
WIDE = """
kind: Workflow
name: wide
version: "1"
start:
  parallel:
    branches:
      left: {run: "@blocks/lab/set:1.0.0"}
      right: {run: "@blocks/lab/set:1.1"}
      middle: {run: "@blocks/lab/check:1"}
  transitions: {success: last, failure: flo.Failed}
steps:
  last:
    run: "@blocks/lab/push:1"
    transitions: {success: flo.Completed, failure: flo.Failed}
"""
NESTED = """
kind: Workflow
name: nested
version: "1"
start:
  run: "@blocks/lab/set:1"
  inputMapping: {locks: $.input.outer}
  transitions: {success: inner, failure: flo.Failed}
steps:
  inner:
    run: "@workflow/line"
    inputMapping: {locks: $.input.locks}
    transitions: {success: flo.Completed, failure: flo.Failed}
"""
DOCUMENTS = (LINE, WIDE, NESTED)
NAMES = ("line", "wide", "nested", "nested")


def job_actions() -> list[ActionName]:
    """The actions whose runs are the jobs of these blocks."""
    ids = [f"{one.package}/{one.name}:{one.version}" for one in BLOCKS]
    return [job_action(block, job) for block in ids for job in JobType]
