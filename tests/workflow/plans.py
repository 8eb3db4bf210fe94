"""Plans to test with."""

from flo.workflow.plan.plan import Executor, Plan
from flo.workflow.steps import Target, TargetKind


def executor(name, **fields):
    return Executor(name=name, action=Target(kind=TargetKind.ACTION, name=name), **fields)


def plan_of(*executors, **fields):
    return Plan(executors=executors, **fields)


def names(executors):
    return [executor.name for executor in executors]


def no_rng():
    raise AssertionError("chance has no say here")
