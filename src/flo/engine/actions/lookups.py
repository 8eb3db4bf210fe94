"""What messages about actions need from the store: the inputs of runs that are counted anew."""

from collections.abc import Mapping, Sequence

from flo.engine.context import Context
from flo.engine.feature import LookupRule
from flo.engine.runs.inputs.limit_keys import LimitKeyLookup, lookups_of_live
from flo.engine.state import State
from flo.model.actions import RegisterAction
from flo.model.base import Message
from flo.model.declare.fields import check_fields


def _for_register(
    state: State, command: RegisterAction, context: Context
) -> Sequence[LimitKeyLookup]:
    check_fields(command)
    return lookups_of_live(state.space(command.namespace), command.name, command.limits)


LOOKUPS: Mapping[type[Message], LookupRule] = {RegisterAction: _for_register}
