"""A set of numbers that is read from any of them downwards, the highest first.

    block     the numbers that are equal but for their last bits      a set
    blocks    which there are                                         in order

What is added or taken away costs the same however many there are, and a page costs what it shows.
"""

from collections.abc import Iterator

from sortedcontainers import SortedList

_BITS = 8


class NumberSet:
    __slots__ = ("_blocks", "_order")

    def __init__(self) -> None:
        self._blocks: dict[int, set[int]] = {}
        self._order: SortedList[int] = SortedList()

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def __contains__(self, number: int) -> bool:
        return number in self._blocks.get(number >> _BITS, ())

    def add(self, number: int) -> None:
        block = self._blocks.get(number >> _BITS)
        if block is None:
            block = self._blocks[number >> _BITS] = set()
            self._order.add(number >> _BITS)
        block.add(number)

    def remove(self, number: int) -> None:
        block = self._blocks[number >> _BITS]
        block.remove(number)
        if not block:
            del self._blocks[number >> _BITS]
            self._order.remove(number >> _BITS)

    def below(self, number: int) -> Iterator[int]:
        """Those under a number, the highest first."""
        for place in self._order.irange(maximum=number >> _BITS, reverse=True):
            for one in sorted(self._blocks[place], reverse=True):
                if one < number:
                    yield one
