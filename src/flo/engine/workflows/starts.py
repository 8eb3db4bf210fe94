"""What a new workflow run takes from its input: attributes, the key of its permit, a subject."""

from typing import Any

import msgspec

from flo.engine.runs.limits import key_from
from flo.engine.state import Deployed, Workflow
from flo.model.ids import SUBJECT_LENGTH_MAX
from flo.workflow.definition import Definition, Schedule, Trigger
from flo.workflow.mapping import Scope
from flo.workflow.neops.document import highest_of, identity_of
from flo.workflow.payload import value_of
from flo.workflow.plan.cache import cache_key
from flo.workflow.search import attributes_of
from flo.workflow.steps import Target


def version_for(workflow: Workflow, target: Target) -> Deployed | None:
    """The version that a target names; for a workflow of neops, the highest that begins so."""
    found = workflow.version(target.version)
    if found is not None or target.version is None or identity_of(target.name) is None:
        return found
    return workflow.version(highest_of(workflow.versions, target.version) or target.version)


def attributes(definition: Definition, payload: bytes) -> dict[str, Any]:
    """The search attributes of an input."""
    if not definition.search_attributes:
        return {}
    try:
        value = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return attributes_of(definition.search_attributes, value)


def limit_key_of(definition: Definition, payload: bytes) -> str | None:
    """The key under which the runs of a workflow are limited; None if they are not."""
    if definition.concurrency is None:
        return None
    return key_from(definition.concurrency.key, payload)


def subject_of(start: Schedule | Trigger, payload: bytes) -> str | None:
    """Whom a run is about that nobody has started; None if its input does not say it."""
    if not start.subject:
        return None
    found = cache_key(start.subject, Scope(input=value_of(payload)))
    return found.text[:SUBJECT_LENGTH_MAX] or None if found is not None else None
