"""The workflow whose server is killed, and what its users and workers do, in order.

    check ──▸ approve ──▸ reserve ──▸ pack ──▸ prepare ──▸ notify ──▸ rest ──▸ ship ──▸ Shipped
    retry     signal      action     child     parallel    forEach    sleep      └────▸ Refused:
                          retries                                                pack and reserve
                                                                                 are undone

A script is a list of operations, each of them answered before the next. The ids of runs are known
beforehand. `due` waits until a time that comes has led to a run; where a claim waits for that
itself, both are one commit.
"""

from typing import NamedTuple

KEY = "order-7"
INPUT = {"customers": ["anna", "boris", "clara"]}
DELAY_MS = 20
"""How long retries and sleeps take."""

ORDER = """
kind: Workflow
name: order
version: "1"
idempotency: required
terminals: {{Shipped: completed, Refused: failed}}
start:
  run: "@actions/check"
  retry: {{max_attempts: 2, backoff: constant, initial_delay_ms: {delay}}}
  transitions: {{success: approve, failure: Refused}}
steps:
  approve:
    waitForSignal: {{type: approval}}
    transitions: {{success: reserve}}
  reserve:
    run: "@actions/reserve"
    rollback:
      run: "@actions/release"
      retry: {{max_attempts: 2, backoff: constant, initial_delay_ms: {delay}}}
    transitions: {{success: pack, failure: Refused}}
  pack:
    run: "@workflow/packing"
    rollback: "@actions/unpack"
    transitions: {{success: prepare, failure: Refused}}
  prepare:
    parallel:
      join: all
      branches:
        email: "@actions/email"
        stock:
          start:
            run: "@actions/pick"
            transitions: {{success: wrap, failure: flo.Failed}}
          steps:
            wrap:
              run: "@actions/wrap"
              transitions: {{success: flo.Completed, failure: flo.Failed}}
        label:
          run: "@actions/label"
          retry: {{max_attempts: 2, backoff: constant, initial_delay_ms: {delay}}}
    transitions: {{success: notify, failure: Refused}}
  notify:
    forEach: {{items: $.input.customers, run: "@actions/notify", concurrency: 2}}
    transitions: {{success: rest, failure: Refused}}
  rest:
    sleep: {delay}
    transitions: {{success: ship}}
  ship:
    run: "@actions/ship"
    inputMapping: {{reserved: $.steps.reserve.output, packed: $.steps.pack.output}}
    transitions: {{success: Shipped, failure: Refused}}
"""

PACKING = """
kind: Workflow
name: packing
version: "1"
start:
  run: "@actions/weigh"
  retry: {{max_attempts: 2, backoff: constant, initial_delay_ms: {delay}}}
  transitions: {{success: settle, failure: flo.Failed}}
steps:
  settle:
    sleep: {delay}
    transitions: {{success: box}}
  box:
    run: "@actions/box"
    transitions: {{success: flo.Completed, failure: flo.Failed}}
"""

ACTIONS = (
    *("check", "reserve", "release", "weigh", "box", "unpack"),
    *("email", "pick", "wrap", "label", "notify", "ship"),
)


class Operation(NamedTuple):
    """One request: what is done, and to which run or signal."""

    verb: str
    name: str

    def __str__(self) -> str:
        return f"{self.verb} {self.name}"


def _script(*lines: str) -> tuple[Operation, ...]:
    messages = " ".join(lines).split()
    return tuple(map(Operation, messages[::2], messages[1::2]))


_CHECK = "claim check-1  fail check-1  due check-2  claim check-2  complete check-2"
_FROM_RESERVE_TO_REST = (
    "claim reserve-1  retry reserve-1  claim reserve-1  complete reserve-1",
    "due weigh-1  claim weigh-1  fail weigh-1  due weigh-2  claim weigh-2  complete weigh-2",
    "due box-1  claim box-1  complete box-1",
    "claim email-1  claim pick-1  claim label-1  complete pick-1  claim wrap-1",
    "fail label-1  claim label-2  complete email-1  complete wrap-1  complete label-2",
    "claim notify-1  claim notify-2  complete notify-2  claim notify-3",
    "complete notify-1  complete notify-3",
)

SHIPPED = _script(
    *("start order", _CHECK, "signal approval"),
    *_FROM_RESERVE_TO_REST,
    "due ship-1  claim ship-1  complete ship-1",
)
"""All goes well in the end."""

REFUSED = _script(
    *("start order", "signal approval", _CHECK),
    *_FROM_RESERVE_TO_REST,
    "due ship-1  claim ship-1  fail ship-1  claim unpack-1  complete unpack-1",
    "claim release-1  fail release-1  due release-2  claim release-2  complete release-2",
)
"""The signal comes before anyone waits for it; the last step fails, and what was done is undone."""

SCRIPTS = {"shipped": SHIPPED, "refused": REFUSED}
ENDINGS = {"shipped": ("completed", "Shipped"), "refused": ("failed", "Refused")}
