"""Plans: what the machine knows of them."""

from flo.engine.feature import Feature
from flo.engine.plans import monitors, queries, rules
from flo.engine.plans.events import EventEmitted
from flo.engine.workflows.events import PlanNoted, SignalReceived, StepEnded
from flo.model.plans import EmitEvent, GetPlan

FEATURE = Feature(
    rules={
        EmitEvent: rules.decide_emit,
    },
    queries={
        GetPlan: queries.get_plan,
    },
    volatile_folds={
        PlanNoted: monitors.note_plan,
        StepEnded: monitors.note_step_ended,
        SignalReceived: monitors.note_signal,
    },
    observations={EventEmitted: monitors.observe_emitted},
)
