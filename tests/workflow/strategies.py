"""Random definitions, made from the same fields that the reader goes by."""

import json
from string import ascii_letters, digits

from hypothesis import strategies as st

from flo.workflow.definition import START, START_ALIAS, Definition
from flo.workflow.document.fields import EXACTLY_ONE, TARGETS, WRITTEN_TARGETS, fields_of
from flo.workflow.plan.plan import Executor
from flo.workflow.steps import (
    ForEachStep,
    ParallelBranch,
    ParallelStep,
    RunStep,
    SignalStep,
    SleepStep,
    Target,
    TargetKind,
)

NAMES = st.text(ascii_letters + digits + "_-", min_size=1, max_size=8).filter(
    lambda name: not name.startswith("-")
)
STEP_NAMES = NAMES.filter(lambda name: name not in (START, START_ALIAS))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
FULL_TEXTS = TEXTS.filter(bool)
KEYS = st.dictionaries(TEXTS, NAMES, max_size=4)
GOALS = NAMES.filter(lambda name: name != START_ALIAS)
PATHS = st.lists(NAMES, max_size=3).map(lambda names: ".".join(["$.input", *names]))
BLOCK_PARTS = NAMES.filter(lambda name: name[0] != "-")
BLOCK_NAMES = st.tuples(BLOCK_PARTS, BLOCK_PARTS).map("/".join)
VERSIONS = {
    TargetKind.WORKFLOW: st.none() | NAMES,
    TargetKind.BLOCK: st.sampled_from(["1", "1.2", "0.2.30"]),
}


def targets(*kinds):
    return st.one_of(
        *(
            st.builds(
                Target,
                kind=st.just(kind),
                name=BLOCK_NAMES if kind is TargetKind.BLOCK else NAMES,
                version=VERSIONS.get(kind, st.none()),
            )
            for kind in kinds
        )
    )


SIMPLE = {
    "text": FULL_TEXTS,
    "boolean": st.booleans(),
    "json": TEXTS | st.dictionaries(TEXTS, TEXTS | st.integers(), max_size=3).map(json.dumps),
    "path": PATHS,
    "template": FULL_TEXTS,
    "join": st.integers(0, 5),
    "goal": GOALS,
    "transitions": st.dictionaries(FULL_TEXTS, GOALS, max_size=4),
    "texts": st.lists(FULL_TEXTS, max_size=3).map(tuple),
}


def values(struct, field):
    kind = field.kind
    makers = {
        "integer": lambda: st.integers(kind.least, kind.most),
        "duration": lambda: st.integers(kind.least, kind.most),
        "number": lambda: st.floats(kind.over, kind.most, exclude_min=True),
        "choice": lambda: st.sampled_from(kind.type),
        "target": lambda: targets(*TARGETS.get(struct, WRITTEN_TARGETS)),
        "struct": lambda: structs(kind.type),
        "structs": lambda: st.lists(
            structs(kind.type), min_size=kind.type is Executor, max_size=2
        ).map(tuple),
        "table": lambda: st.dictionaries(NAMES, structs(kind.type), max_size=2),
        "step": steps,
        "steps": lambda: st.dictionaries(STEP_NAMES, steps(), max_size=3),
        "branches": lambda: st.dictionaries(STEP_NAMES, branches(), min_size=1, max_size=3),
    }
    found = makers[kind.word]() if kind.word in makers else SIMPLE[kind.word]
    return found if field.required else st.just(field.default) | found


def structs(struct):
    fields = {field.name: field for field in fields_of(struct)}
    choices = EXACTLY_ONE.get(struct, (None,))
    return st.one_of(
        *(
            st.builds(
                struct,
                **{
                    name: st.none() if name in choices else values(struct, field)
                    for name, field in fields.items()
                    if name != chosen
                },
                **(
                    {chosen: values(struct, fields[chosen]).filter(lambda v: v is not None)}
                    if chosen
                    else {}
                ),
            )
            for chosen in choices
        )
    )


def flat_steps():
    return st.one_of(*(structs(one) for one in (RunStep, SignalStep, SleepStep, ForEachStep)))


def steps():
    return flat_steps() | structs(ParallelStep)


def branches():
    return st.builds(
        ParallelBranch,
        start=flat_steps(),
        steps=st.dictionaries(STEP_NAMES, flat_steps(), max_size=2),
    )


DEFINITIONS = structs(Definition)
