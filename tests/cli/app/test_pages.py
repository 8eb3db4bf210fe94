import pytest

from flo.cli.app.pages import collect
from flo.model.workers import ListWorkers, WorkerPage


class Paged:
    """Numbers in pages; each page looks at no more than so many."""

    def __init__(self, numbers, looked_at_max):
        self.numbers = numbers
        self.looked_at_max = looked_at_max
        self.asked = []

    def call(self, query):
        self.asked.append(query.limit)
        start = int(query.cursor or 0)
        end = start + min(query.limit, self.looked_at_max)
        items = [number for number in self.numbers[start:end] if number is not None]
        return WorkerPage(items=items, cursor=str(end) if end < len(self.numbers) else None)


def test_a_list_longer_than_a_page_is_asked_for_in_pages():
    paged = Paged(list(range(2_500)), looked_at_max=1_000)

    assert collect(paged.call, ListWorkers(), 2_200) == (list(range(2_200)), "2200")
    assert paged.asked == [1_000, 1_000, 200]


def test_empty_pages_are_passed_over():
    paged = Paged([None, None, None, 3], looked_at_max=1)

    assert collect(paged.call, ListWorkers(), 50) == ([3], None)


def test_a_list_begins_after_the_cursor():
    paged = Paged(["a", "b", "c"], looked_at_max=9)

    assert collect(paged.call, ListWorkers(cursor="1"), 1) == (["b"], "2")


@pytest.mark.parametrize("limit", ["0", "-1", "many"])
def test_a_limit_is_at_least_one(shell, limit):
    assert shell(f"flo action list --limit {limit}").code == 2
