"""Rules of plans: an event is emitted, and what is cached until then is dropped."""

from flo.engine.context import Context
from flo.engine.decision import Decision
from flo.engine.plans.events import EventEmitted
from flo.engine.state import State
from flo.model.plans import EmitEvent, Emitted


def decide_emit(state: State, command: EmitEvent, context: Context) -> Decision:
    caches = [
        results
        for key, results in context.volatile.caches.items()
        if key[0] == command.namespace and command.name in results.cache.invalidate_on
    ]
    reply = Emitted(plans=len(caches), results=sum(len(results) for results in caches))
    observation = EventEmitted(name=command.name, namespace=command.namespace)
    return Decision(reply, observations=(observation,))
