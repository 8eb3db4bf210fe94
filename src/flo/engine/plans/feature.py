"""Plans: what the machine knows of them."""

from flo.engine.feature import Feature, queries_in, rules_in
from flo.engine.plans import monitors, queries, rules
from flo.engine.plans.events import EventEmitted
from flo.engine.workflows.events import PlanNoted, SignalReceived, StepEnded

FEATURE = Feature(
    rules=rules_in(rules),
    queries=queries_in(queries),
    volatile_folds={
        PlanNoted: monitors.note_plan,
        StepEnded: monitors.note_step_ended,
        SignalReceived: monitors.note_signal,
    },
    observations={EventEmitted: monitors.observe_emitted},
)
