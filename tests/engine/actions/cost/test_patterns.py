import pytest

from flo.engine.actions.cost.patterns import LOOK_MAX, SIZE_MAX, may_fit, pattern_size


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        ("", 0),
        ("abc", 3),
        ("a{100}", 100),
        ("(a{100}){50}b", 5_001),
        ("((a{100}){100}){100}", 1_000_000),
        ("a{2,5}b*c+", 7),
        ("a{3,}", 3),
        (r"\d{3}-\d{4}", 8),
        (r"[^a\]{9}]{10}", 10),
        ("(a|bc){3}", 9),
        ("(?:ab){2}", 5),
        (r"\{9}", 2),
        ("a{", 1),
        ("(((", 0),
        (")))", 0),
        ("a{9999999999999}{9999999999}", SIZE_MAX),
    ],
)
def test_repetitions_are_written_out(pattern, size):
    assert pattern_size(pattern) == pytest.approx(size, abs=1)


def test_classes_of_unicode_are_large_once_they_are_compiled():
    assert pattern_size(r"\p{L}{10}") == 10
    assert pattern_size(r"\p{L}{10}", 300) == 3_000


def test_whether_a_name_fits_a_pattern():
    assert may_fit("^x-", "x-a")
    assert not may_fit("^x-", "a")


def test_what_would_take_long_to_find_out_is_taken_to_fit():
    assert may_fit("^(a{100}){90}$", "b" * LOOK_MAX)
