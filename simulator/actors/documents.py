"""The workflows of a simulation: small ones, with everything in them that a workflow can have."""

from collections.abc import Sequence

from flo.model.ids import Namespace
from flo.model.workflows import WorkflowName

ENDS = "{success: flo.Completed, failure: flo.Failed, timeout: flo.TimedOut}"

CAKE = """
kind: Workflow
name: cake
version: "1"
idempotency: optional
terminals: {Served: completed, Burnt: failed}
searchAttributes:
  - {name: who, type: string, from: $.input.who}
start:
  run: "@actions/bake"
  rollback: {run: "@actions/carry", when: attempted, inputMapping: {for: $.input.who}}
  retry: {max_attempts: 2, initial_delay_ms: 300}
  transitions: {success: bring, failure: Burnt, timeout: Burnt}
steps:
  bring:
    run: "@actions/carry"
    rollback:
      run: "@actions/dig"
      when: attempted
      inputMapping: {for: $.input.who}
      retry: {max_attempts: 2, initial_delay_ms: 100}
    transitions: {success: plant, failure: Burnt, timeout: Burnt}
  plant:
    run: "@actions/dig"
    poll: {max_attempts: 1, base_delay_ms: 200}
    transitions: {success: Served, failure: Burnt, timeout: flo.TimedOut}
"""

WISH = f"""
kind: Workflow
name: wish
version: "1"
idempotency: optional
start:
  waitForSignal: {{type: star, timeoutMs: 20000, onTimeout: nap}}
  transitions: {{success: nap}}
steps:
  nap:
    sleep: 2s
    transitions: {{success: taste}}
  taste:
    run: "@actions/eat"
    inputMapping: $.input.who
    transitions: {ENDS}
"""

VOW = f"""
kind: Workflow
name: vow
version: "1"
idempotency: optional
start:
  run: "@actions/bake"
  rollback: {{run: "@actions/dig", when: attempted, inputMapping: {{for: $.input.who}}}}
  transitions: {{success: listen, failure: flo.Failed, timeout: flo.Failed}}
steps:
  listen:
    waitForSignal: {{type: star}}
    transitions: {{success: give}}
  give:
    run: "@actions/carry"
    transitions: {ENDS}
"""

FEAST = f"""
kind: Workflow
name: feast
version: "1"
idempotency: optional
start:
  parallel:
    join: 2
    branches:
      bread: "@actions/bake"
      wine:
        start:
          run: "@actions/carry"
          transitions: {{success: pour, failure: flo.Failed}}
        steps:
          pour:
            run: "@actions/dig"
            transitions: {{success: flo.Completed, failure: flo.Failed}}
      song:
        run: "@actions/eat"
        inputMapping: $.input.who
        retry: {{max_attempts: 2, initial_delay_ms: 100}}
  transitions: {ENDS}
"""

ROWS = f"""
kind: Workflow
name: rows
version: "1"
idempotency: optional
start:
  forEach:
    items: $.input.items
    run: "@actions/dig"
    concurrency: 2
    join: 2
    retry: {{max_attempts: 2, initial_delay_ms: 100}}
  transitions: {ENDS}
"""

FAMILY = f"""
kind: Workflow
name: family
version: "1"
idempotency: optional
start:
  run: "@workflow/cake"
  transitions: {{success: second, failure: second}}
steps:
  second:
    run: "@workflow/narrow"
    transitions: {ENDS}
"""

RELAY = f"""
kind: Workflow
name: relay
version: "1"
idempotency: optional
plans:
  run:
    selection: static-order
    executors:
      - name: first
        action: "@actions/carry"
        priority: 100
        retry: {{max_attempts: 2, initial_delay_ms: 200}}
        breaker: {{failure_threshold: 1, cooldown_ms: 3000}}
      - name: second
        action: "@actions/dig"
        priority: 50
        retry: {{max_attempts: 2, initial_delay_ms: 100}}
    cache: {{key: "{{input.who}}", ttl_ms: 1000, invalidate_on: [rain]}}
start:
  run: "@plan/run"
  transitions: {ENDS}
"""

CLOCK = f"""
kind: Workflow
name: clock
version: "1"
idempotency: optional
schedule: {{interval: 90s, max_concurrent: 2, catchup: all, input: {{who: clock}}}}
start:
  run: "@actions/bake"
  transitions: {ENDS}
"""

NARROW = f"""
kind: Workflow
name: narrow
version: "1"
idempotency: optional
concurrency: {{key: "{{input.who}}", max: 2}}
start:
  run: "@actions/carry"
  rollback: "@actions/bake"
  transitions: {{success: rest, failure: flo.Failed, timeout: flo.Failed}}
steps:
  rest:
    sleep: 1s
    transitions: {{success: end}}
  end:
    run: "@actions/dig"
    poll: {{max_attempts: 1, base_delay_ms: 200}}
    transitions: {ENDS}
"""

BELL = f"""
kind: Workflow
name: bell
version: "1"
idempotency: optional
trigger: {{stream: bells, max_concurrent: 5}}
start:
  run: "@actions/carry"
  transitions: {ENDS}
"""

PEAL = f"""
kind: Workflow
name: peal
version: "1"
idempotency: optional
trigger: {{stream: bells, batch_size: 3, batch_timeout_ms: 1500}}
start:
  run: "@actions/bake"
  transitions: {ENDS}
"""

_TURNS = "".join(
    f"""
  turn{number}:
    run: "@actions/nobody"
    transitions: {{failure: {f"turn{number + 1}" if number < 15 else "pause"}}}"""
    for number in range(1, 16)
)
CIRCLE = f"""
kind: Workflow
name: circle
version: "1"
idempotency: optional
start:
  run: "@actions/bake"
  rollback: "@actions/dig"
  transitions: {{success: turn1, failure: turn1, timeout: turn1}}
steps:{_TURNS}
  pause:
    sleep: 0
    transitions: {{success: turn1}}
"""
"""It goes round in circles over many commits, and is stopped."""

POLLS = tuple(
    f"""
kind: Workflow
name: poll{number}
version: "1"
idempotency: optional
start:
  run: "@actions/dig"
  poll: {{max_attempts: {number}, base_delay_ms: 200}}
  transitions: {ENDS}
"""
    for number in range(1, 7)
)
"""They poll, and nothing else: for simulations in which many polls are wanted."""

MILL = """
kind: Workflow
name: mill
version: "1"
idempotency: optional
limits: {steps: 28, steps_per_second: 1}
start:
  sleep: 50ms
  transitions: {success: turn}
steps:
  turn:
    sleep: 50ms
    transitions: {success: back}
  back:
    sleep: 50ms
    transitions: {success: turn}
"""
"""It would turn for ever: it is delayed, and then stopped. For simulations that want such a one."""

BELLS = "bells"
"""The stream whose records start runs; nobody deletes it."""
SCHEDULED = "clock"
PLANNED = ("relay", "run")
SIGNAL = "star"
WITHOUT_END = frozenset({"vow"})
"""These may wait for a signal for ever."""

_EVERYWHERE = (CAKE, WISH, VOW, FEAST, ROWS, FAMILY, RELAY, CLOCK, NARROW, CIRCLE)


def documents_of(namespace: Namespace, more: Sequence[str] = ()) -> dict[WorkflowName, str]:
    """The texts by name. One namespace starts a run for each record, the other for some at once."""
    texts = (*_EVERYWHERE, BELL if namespace == "default" else PEAL, *more)
    return {_name_of(text): text for text in texts}


def _name_of(text: str) -> WorkflowName:
    return text.split("name: ", 1)[1].split("\n", 1)[0]
