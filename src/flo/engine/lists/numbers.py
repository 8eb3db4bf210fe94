"""A set of numbers that is read from any of them downwards, the highest first.

    block     the numbers that are equal but for their last bits      a set
    blocks    which there are                                         in order

What is added or taken away costs the same however many there are, and a page costs what it shows.
A block that has become empty stays for a while: the next number often belongs into it.
"""

from bisect import bisect_right, insort
from collections.abc import Iterator

_BITS = 8
_EMPTY_MAX = 16


class NumberSet:
    __slots__ = ("_blocks", "_empty_count", "_order")

    def __init__(self) -> None:
        self._blocks: dict[int, set[int]] = {}
        self._order: list[int] = []
        self._empty_count = 0

    def __bool__(self) -> bool:
        return len(self._order) > self._empty_count

    def __contains__(self, number: int) -> bool:
        return number in self._blocks.get(number >> _BITS, ())

    def add(self, number: int) -> None:
        block = self._blocks.get(number >> _BITS)
        if block is None:
            block = self._blocks[number >> _BITS] = set()
            insort(self._order, number >> _BITS)
        elif not block:
            self._empty_count -= 1
        block.add(number)

    def remove(self, number: int) -> None:
        block = self._blocks[number >> _BITS]
        block.remove(number)
        if not block:
            self._empty_count += 1
            if self._empty_count > max(_EMPTY_MAX, len(self._order) // 2):
                self._drop_empty_blocks()

    def below(self, number: int) -> Iterator[int]:
        """Those under a number, the highest first."""
        for index in range(bisect_right(self._order, number >> _BITS) - 1, -1, -1):
            for one in sorted(self._blocks[self._order[index]], reverse=True):
                if one < number:
                    yield one

    def _drop_empty_blocks(self) -> None:
        self._blocks = {place: block for place, block in self._blocks.items() if block}
        self._order = sorted(self._blocks)
        self._empty_count = 0


class NumbersByName(dict[str, NumberSet]):
    """A set of numbers under each name that has any."""

    def add(self, name: str, number: int) -> None:
        numbers = self.get(name)
        if numbers is None:
            numbers = self[name] = NumberSet()
        numbers.add(number)

    def remove(self, name: str, number: int) -> None:
        numbers = self[name]
        numbers.remove(number)
        if not numbers:
            del self[name]
