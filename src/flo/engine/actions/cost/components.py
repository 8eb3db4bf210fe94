"""The strongly connected components of a graph: what leads to itself, and back."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def components_of(first: Iterable[N], next_of: Callable[[N], Iterable[N]]) -> list[list[N]]:
    """The components that these lead to, each after those that it leads to itself (Tarjan)."""
    index: dict[N, int] = {}
    low: dict[N, int] = {}
    open_ones: list[N] = []
    is_open: set[N] = set()
    found: list[list[N]] = []
    for start in first:
        if start in index:
            continue
        index[start] = low[start] = len(index)
        open_ones.append(start)
        is_open.add(start)
        path = [(start, iter(next_of(start)))]
        while path:
            node, coming = path[-1]
            for other in coming:
                if other not in index:
                    index[other] = low[other] = len(index)
                    open_ones.append(other)
                    is_open.add(other)
                    path.append((other, iter(next_of(other))))
                    break
                if other in is_open:
                    low[node] = min(low[node], index[other])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == index[node]:
                    component: list[N] = []
                    while not component or component[-1] != node:
                        component.append(open_ones.pop())
                        is_open.discard(component[-1])
                    found.append(component)
    return found
