"""A control: a bug that is put in on purpose, and the one invariant that must break of it first."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from flo.engine.machine import WAKES
from simulator.checks.invariants import Invariant


class Control(NamedTuple):
    put_in: Callable[[pytest.MonkeyPatch], None]
    breaks: Invariant
    audited: bool
    follows: tuple[Invariant, ...]


def control(
    breaks: Invariant, *, audited: bool = False, follows: Invariant | tuple[Invariant, ...] = ()
) -> Callable[[Callable[[pytest.MonkeyPatch], None]], Control]:
    """Of a bug in the state, `audited`: the state is counted again after every commit.

    Otherwise it is counted only at the end, and it is an event or an answer that must show the bug.
    Seeds in which what `follows` from the bug shows first find nothing, and are passed over.
    """
    passed_over = (follows,) if isinstance(follows, Invariant) else follows
    return lambda put_in: Control(put_in, breaks, audited, passed_over)


def every_control(module: Mapping[str, Any]) -> pytest.MarkDecorator:
    controls = [one for one in module.values() if isinstance(one, Control)]
    names = [one.put_in.__name__ for one in controls]
    return pytest.mark.parametrize("control", controls, ids=names)


def wake_nobody(monkeypatch: pytest.MonkeyPatch, *kinds: str) -> None:
    """Whoever waits for subjects of these kinds is not woken."""
    for event, wake in list(WAKES.items()):

        def others(state: Any, event: Any, wake: Any = wake) -> list[Any]:
            return [subject for subject in wake(state, event) if subject[0] not in kinds]

        monkeypatch.setitem(WAKES, event, others)
