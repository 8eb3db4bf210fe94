"""A measured figure, the floor beside it and the goal, as a table and as JSON."""

import json
from pathlib import Path

import msgspec


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """`floor` is what the machine itself can do at best, measured in the same run."""

    name: str
    value: float
    unit: str
    floor: float | None = None
    floor_name: str = ""
    goal: float | None = None
    more_is_better: bool = True

    @property
    def is_met(self) -> bool | None:
        if self.goal is None:
            return None
        return self.value >= self.goal if self.more_is_better else self.value <= self.goal

    def line(self) -> str:
        verdict = {None: "", True: "met", False: "MISSED"}[self.is_met]
        goal = (
            "" if self.goal is None else f"{'≥' if self.more_is_better else '≤'} {self.goal:,.4g}"
        )
        floor = "" if self.floor is None else f"{self.floor:,.4g} {self.floor_name}"
        return (
            f"{self.name:<52} {self.value:>12,.4g} {self.unit:<12} {goal:<12} {verdict:<7} {floor}"
        )


def write(figures: list[Figure], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{**msgspec.to_builtins(figure), "met": figure.is_met} for figure in figures]
    path.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
