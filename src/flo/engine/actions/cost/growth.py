"""SchemaCost: how often the parts of a value are looked at by one schema, at the most.

A schema is looked at as an automaton: its states are the subschemas, and it goes on from one part
of a value to a part within that. What it costs is in how many states it may be at once.

    {"items": {"$ref": "#"}}                                   one              always cheap
    {"properties": {"left": {"$ref": "#"}, "right": …}}        one              they never meet
    {"oneOf": [{"items": {"$ref": "#"}}, {"items": …}]}        2, 4, 8, 16 …    refused

Within a component of subschemas that lead to each other the count grows without end exactly if
there are two ways from one of them back to itself for the same path through a value (as for the
degree of ambiguity of automata: Weber and Seidl, 1991). It is found by walking two ways at a time.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from flo.engine.actions.cost.components import components_of
from flo.engine.actions.cost.graph import SchemaGraph
from flo.engine.actions.cost.places import ELEMENT, MEMBER, NAME, Place, may_meet
from flo.model.errors import TooLarge

EXPANSION_MAX = 10_000
"""So many subschemas may be held against one part of a value."""
LEVELS_MAX = 32
"""So many levels of a value a schema may tell apart; one that leads to itself goes on for ever."""
LOOKS_MAX = 2_000
"""Where there are more names and patterns, every pattern is taken to fit every name."""
BYTE_NS = 75
"""What it takes to read a byte of a payload, and to say what is wrong with it."""
DEPTH_MAX = 1_000
"""JSON that is nested deeper is not read."""
PAIRS_MAX = 20_000
"""So many pairs of ways are walked to find out whether a schema explodes."""


class SchemaCost(NamedTuple):
    schema_ns: int
    """What the schema may take for each byte of a payload, in nanoseconds."""
    powers: int
    """How many times the depth of a value is to be multiplied with it."""

    def of(self, payload: bytes) -> int:
        """The most that it takes to hold this payload against the schema, in nanoseconds."""
        once = (BYTE_NS + self.schema_ns) * len(payload)
        if not self.powers:
            return once
        depth = min(payload.count(b"[") + payload.count(b"{"), DEPTH_MAX)
        return once * int(max(depth, 1) ** self.powers)


class SchemaLoad(NamedTuple):
    """How many subschemas a part of a value meets at most, and what they weigh together."""

    times: int
    weight: int

    def plus(self, other: "SchemaLoad", times: int = 1) -> "SchemaLoad":
        return SchemaLoad(self.times + times * other.times, self.weight + times * other.weight)


NO_LOAD = SchemaLoad(0, 0)


class Levels(NamedTuple):
    """What a value meets, what is in it meets, and so on."""

    loads: list[SchemaLoad]
    goes_on: bool
    """There are no last ones: something in it leads to itself."""

    def at(self, level: int) -> SchemaLoad:
        if level < len(self.loads):
            return self.loads[level]
        return _most(self.loads) if self.goes_on else NO_LOAD


class CostModel:
    def __init__(self, graph: SchemaGraph, what: str) -> None:
        self._subschemas = graph.subschemas
        self._what = what
        self._here: dict[int, SchemaLoad] = {}
        self._steps: dict[int, Counter[tuple[int, Place]]] = {}
        self._levels: dict[int, Levels] = {}
        self._pairs_count = 0
        self.times_max = 0
        """So many subschemas a part of a value meets at most, at the depth of one."""

    @cached_property
    def cost(self) -> SchemaCost:
        """The cost of the whole; TooLarge if it explodes, with the place where it does."""
        self._expand_in_place()
        powers: dict[int, int] = {}
        for component in components_of([0], lambda node: self._next(node)):
            members = set(component)
            recurs = any(other in members for node in component for other in self._next(node))
            if recurs:
                self._check_ways(component, members)
            levels = self._levels_of(component, members, recurs)
            if len(levels) > LEVELS_MAX:
                raise self._too_costly(component[-1], f"it goes more than {LEVELS_MAX} levels deep")
            if _most(levels).times > EXPANSION_MAX:
                raise self._too_costly(
                    component[-1], f"more than {EXPANSION_MAX} subschemas are for one value"
                )
            after = [powers[o] for node in component for o in self._next(node) if o not in members]
            for node in component:
                powers[node] = max(after, default=0) + recurs
                self._levels[node] = Levels(levels, goes_on=powers[node] > 0)
        load = _most(self._levels[0].loads)
        self.times_max = load.times
        return SchemaCost(load.weight, max(powers[0] - 1, 0))

    def _next(self, node: int) -> Iterable[int]:
        return dict.fromkeys(target for target, _ in self._steps[node])

    def _expand_in_place(self) -> None:
        """What each subschema means for the value itself, and where it goes on from there."""
        for component in components_of(range(len(self._subschemas)), self._in_place):
            node = component[0]
            if len(component) > 1 or node in self._in_place(node):
                raise self._too_costly(node, "it refers to itself for one and the same value")
            here = SchemaLoad(1, self._subschemas[node].weight)
            steps: Counter[tuple[int, Place]] = Counter()
            for target, place in self._subschemas[node].edges:
                if place is not None:
                    steps[target, place] += 1
                    continue
                here = here.plus(self._here[target])
                steps.update(self._steps[target])
            if here.times > EXPANSION_MAX:
                reason = f"it stands for more than {EXPANSION_MAX} subschemas"
                raise self._too_costly(node, reason)
            self._here[node], self._steps[node] = here, steps

    def _in_place(self, node: int) -> list[int]:
        return [target for target, place in self._subschemas[node].edges if place is None]

    def _levels_of(self, component: list[int], members: set[int], recurs: bool) -> list[SchemaLoad]:
        """The most that a value meets, and what is in it, level by level.

        Within a component that leads to itself and does not explode, each is met at most once at a
        time; but what it leads to outside is met from each level of it, and so at all its levels.
        """
        if not recurs:
            return [self._here[component[0]], *self._below(component[0], members)]
        total = NO_LOAD
        for node in component:
            total = _sum((total, self._here[node], *self._below(node, members)))
        return [total]

    def _below(self, node: int, members: set[int]) -> list[SchemaLoad]:
        """What the parts of a value meet outside of these, level by level."""
        steps = {step: n for step, n in self._steps[node].items() if step[0] not in members}
        depth = max((len(self._levels[target].loads) for target, _ in steps), default=0)
        return [
            _most(_met_together(steps, {t: self._levels[t].at(level) for t, _ in steps}))
            for level in range(depth)
        ]

    def _check_ways(self, component: list[int], members: set[int]) -> None:
        """Refuse it if there are two ways from one of these back to itself."""
        inside = {
            node: [(step, n) for step, n in self._steps[node].items() if step[0] in members]
            for node in component
        }
        doubled: set[tuple[tuple[int, int], tuple[int, int]]] = set()
        following: dict[tuple[int, int], set[tuple[int, int]]] = {}

        def next_of(pair: tuple[int, int]) -> set[tuple[int, int]]:
            if pair not in following:
                following[pair] = set(self._both(inside, pair, doubled))
            return following[pair]

        for pairs in components_of([(node, node) for node in component], next_of):
            same = [one for one, other in pairs if one == other]
            is_doubled = any(
                (pair, other) in doubled for pair in pairs for other in following[pair] & {*pairs}
            )
            if same and (len(same) < len(pairs) or is_doubled):
                raise self._too_costly(
                    same[0],
                    "one part of a value leads back to it in two ways, and so on",
                )

    def _both(
        self,
        inside: dict[int, list[tuple[tuple[int, Place], int]]],
        pair: tuple[int, int],
        doubled: set[tuple[tuple[int, int], tuple[int, int]]],
    ) -> Iterator[tuple[int, int]]:
        """Where two ways can be next if both take a step into the same part of a value."""
        for step, times in inside[pair[0]]:
            for other, _ in inside[pair[1]]:
                self._pairs_count += 1
                if self._pairs_count > PAIRS_MAX:
                    raise self._too_costly(pair[0], "too much in it leads back to itself")
                if not may_meet(step[1], other[1]):
                    continue
                goal = (min(step[0], other[0]), max(step[0], other[0]))
                if pair[0] == pair[1] and step[0] == other[0] and (step != other or times > 1):
                    doubled.add((pair, goal))
                yield goal

    def _too_costly(self, node: int, reason: str) -> TooLarge:
        pointer = self._subschemas[node].pointer
        return TooLarge(
            f"{self._what} takes too long to check at {pointer}: {reason}; "
            "put what leads on beside the alternatives, once, not into each of them",
            code="schema_too_costly",
            details={"pointer": pointer},
        )


def _met_together(
    steps: dict[tuple[int, Place], int], reached: dict[int, SchemaLoad]
) -> Iterator[SchemaLoad]:
    """What each part of a value meets: a member, an element, a name."""
    by_kind: dict[str, list[tuple[Place, SchemaLoad]]] = defaultdict(list)
    for (target, place), times in steps.items():
        by_kind[place.kind].append((place, NO_LOAD.plus(reached[target], times)))
    yield _sum(one for _, one in by_kind[NAME])
    yield from _members_met(by_kind[MEMBER])
    elements = by_kind[ELEMENT]
    for first in {place.first for place, _ in elements}:
        part = Place(ELEMENT, first=first, last=first)
        yield _sum(one for place, one in elements if may_meet(place, part))


def _members_met(members: list[tuple[Place, SchemaLoad]]) -> Iterator[SchemaLoad]:
    named: dict[str, SchemaLoad] = defaultdict(lambda: NO_LOAD)
    for place, one in members:
        if place.name is not None:
            named[place.name] = named[place.name].plus(one)
    others = [(place, one) for place, one in members if place.name is None]
    of_all = _sum(one for _, one in others)
    yield of_all
    if len(named) * len(others) > LOOKS_MAX:
        yield _most(named.values()).plus(of_all)
        return
    for name, met in named.items():
        yield met.plus(_sum(one for place, one in others if place.has_member(name)))


def _most(ones: Iterable[SchemaLoad]) -> SchemaLoad:
    most = NO_LOAD
    for one in ones:
        most = SchemaLoad(max(most.times, one.times), max(most.weight, one.weight))
    return most


def _sum(ones: Iterable[SchemaLoad]) -> SchemaLoad:
    total = NO_LOAD
    for one in ones:
        total = total.plus(one)
    return total
