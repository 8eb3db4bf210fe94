"""Plans: what the machine knows of them."""

from flo.engine.feature import Feature
from flo.engine.plans import queries
from flo.engine.workflows.advance import plans
from flo.engine.workflows.events import PlanNoted, SignalReceived, StepEnded
from flo.model.plans import EmitEvent, GetPlan

FEATURE = Feature(
    rules={
        EmitEvent: plans.decide_emit,
    },
    queries={
        GetPlan: queries.get_plan,
    },
    volatile_folds={
        PlanNoted: plans.note_plan,
        StepEnded: plans.note_step_ended,
        SignalReceived: plans.note_signal,
    },
)
