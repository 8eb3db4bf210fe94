"""Plans: what the machine knows of them."""

from flo.engine.feature import Feature, folds_in, queries_in, reactions_in, rules_in
from flo.engine.plans import breakers, monitors, queries, rules
from flo.engine.plans.events import EventEmitted
from flo.engine.workflows.events import PlanNoted, SignalReceived, StepEnded

FEATURE = Feature(
    rules=rules_in(rules),
    folds=folds_in(breakers),
    reactions=reactions_in(breakers),
    queries=queries_in(queries),
    volatile_folds={
        PlanNoted: monitors.note_plan,
        StepEnded: monitors.note_step_ended,
        SignalReceived: monitors.note_signal,
    },
    observations={EventEmitted: monitors.observe_emitted},
    snapshot=breakers.SNAPSHOT,
)
