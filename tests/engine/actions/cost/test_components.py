import pytest

from flo.engine.actions.cost.components import components_of


@pytest.mark.parametrize(
    ("edges", "components"),
    [
        ({0: []}, [[0]]),
        ({0: [1], 1: [2], 2: []}, [[2], [1], [0]]),
        ({0: [1], 1: [0]}, [[0, 1]]),
        ({0: [1], 1: [2, 3], 2: [1], 3: [3]}, [[3], [1, 2], [0]]),
        ({0: [1, 2], 1: [3], 2: [3], 3: []}, [[3], [1], [2], [0]]),
    ],
)
def test_what_leads_to_itself_is_one_and_comes_after_what_it_leads_to(edges, components):
    found = [sorted(component) for component in components_of([0], edges.__getitem__)]

    assert found == components


def test_a_very_long_way_does_no_harm():
    found = components_of([0], lambda node: [node + 1] if node < 50_000 else [])

    assert len(found) == 50_001
