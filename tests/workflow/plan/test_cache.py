import pytest
from hypothesis import given
from hypothesis import strategies as st

from flo.workflow.mapping import Scope
from flo.workflow.plan.cache import CacheKey, ResultCache, cache_key
from flo.workflow.plan.plan import Cache

CHARGES = Cache(
    key="charge:{input.customer_id}:{input.idempotency_key}",
    ttl_ms=1_000,
    invalidate_on=("payment.refunded", "customer.deleted"),
)
ANNA = CacheKey("anna", (b'"anna"',))
BORIS = CacheKey("boris", (b'"boris"',))
CLARA = CacheKey("clara", (b'"clara"',))


def key_of(template, **given):
    return cache_key(template, Scope(input=given))


def test_a_key_is_its_template_filled_from_the_input():
    key = key_of(CHARGES.key, customer_id="c-7", idempotency_key=42, amount=5)

    assert key.text == "charge:c-7:42"
    assert key == key_of(CHARGES.key, customer_id="c-7", idempotency_key=42, amount=9_999)


def test_nested_values_and_whole_objects_make_keys():
    assert key_of("{input.order.items[0].sku}", order={"items": [{"sku": "x"}]}).text == "x"
    assert key_of("{input.order}", order={"b": 1, "a": 2}) == key_of(
        "{input.order}", order={"a": 2, "b": 1}
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": "x:y", "b": "z"}, {"a": "x", "b": "y:z"}),
        ({"a": 1, "b": 2}, {"a": "1", "b": 2}),
        ({"a": True, "b": 2}, {"a": "true", "b": 2}),
    ],
)
def test_keys_that_read_the_same_but_mean_different_things_are_different(one, other):
    assert key_of("{input.a}:{input.b}", **one).text == key_of("{input.a}:{input.b}", **other).text
    assert key_of("{input.a}:{input.b}", **one) != key_of("{input.a}:{input.b}", **other)


@pytest.mark.parametrize("given", [{}, {"customer_id": "c-7"}, {"customer_id": None}])
def test_where_a_value_is_missing_there_is_no_key(given):
    assert key_of(CHARGES.key, **given) is None


def test_what_was_kept_is_found_until_its_time_is_over():
    results = ResultCache(CHARGES)
    results.keep(ANNA, b"paid", began_ms=50, now_ms=100)

    assert results.find(ANNA, 1_099).output == b"paid"
    assert results.find(ANNA, 1_100) is None
    assert results.find(BORIS, 100) is None


def test_a_newer_result_takes_the_place_of_the_older_one():
    results = ResultCache(CHARGES)
    results.keep(ANNA, b"paid", began_ms=0, now_ms=0)
    results.keep(ANNA, b"paid again", began_ms=0, now_ms=500)

    assert results.find(ANNA, 1_400).output == b"paid again"
    assert len(results) == 1


def test_an_event_that_is_named_throws_the_results_away():
    results = ResultCache(CHARGES)
    results.keep(ANNA, b"paid", began_ms=0, now_ms=0)
    results.keep(BORIS, b"paid", began_ms=0, now_ms=0)

    assert results.invalidate("payment.made", 10) == 0
    assert results.find(ANNA, 10) is not None
    assert results.invalidate("payment.refunded", 10) == 2
    assert results.find(ANNA, 10) is None
    assert results.size == 0


def test_a_plan_that_began_before_the_event_is_not_kept_after_it():
    results = ResultCache(CHARGES)
    results.invalidate("customer.deleted", 10)

    results.keep(ANNA, b"paid", began_ms=10, now_ms=12)
    results.keep(BORIS, b"paid", began_ms=11, now_ms=12)

    assert results.find(ANNA, 12) is None
    assert results.find(BORIS, 12) is not None


def test_what_was_used_longest_ago_goes_first():
    results = ResultCache(CHARGES, entries_max=2)
    results.keep(ANNA, b"1", began_ms=0, now_ms=0)
    results.keep(BORIS, b"2", began_ms=0, now_ms=0)
    results.used(ANNA)

    results.keep(CLARA, b"3", began_ms=0, now_ms=0)

    assert results.find(BORIS, 0) is None
    assert results.find(ANNA, 0) is not None
    assert results.find(CLARA, 0) is not None


def test_looking_does_not_count_as_using():
    results = ResultCache(CHARGES, entries_max=2)
    results.keep(ANNA, b"1", began_ms=0, now_ms=0)
    results.keep(BORIS, b"2", began_ms=0, now_ms=0)
    results.find(ANNA, 0)
    results.used(CLARA)

    results.keep(CLARA, b"3", began_ms=0, now_ms=0)

    assert results.find(ANNA, 0) is None


def test_a_result_that_is_too_large_for_the_cache_leaves_the_others_in_peace():
    results = ResultCache(CHARGES, bytes_max=100)
    results.keep(ANNA, b"1", began_ms=0, now_ms=0)

    results.keep(BORIS, b"2" * 100, began_ms=0, now_ms=0)

    assert results.find(ANNA, 0) is not None
    assert results.find(BORIS, 0) is None


def test_the_cache_may_be_filled_to_the_last_byte():
    anna_bytes = len("anna" + '"anna"')
    results = ResultCache(CHARGES, bytes_max=anna_bytes + 90)
    assert results.size == 0

    results.keep(ANNA, b"1" * 90, began_ms=0, now_ms=0)
    assert results.find(ANNA, 0) is not None
    assert results.size == anna_bytes + 90

    results.keep(BORIS, b"2", began_ms=0, now_ms=0)
    assert results.find(ANNA, 0) is None
    assert results.find(BORIS, 0) is not None


def test_what_is_no_longer_good_can_be_let_go():
    results = ResultCache(CHARGES)
    results.keep(ANNA, b"1", began_ms=0, now_ms=0)
    results.keep(BORIS, b"2", began_ms=0, now_ms=500)

    results.expire(1_000)

    assert len(results) == 1
    assert results.find(BORIS, 1_000) is not None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["keep", "used", "invalidate", "expire"]),
            st.integers(0, 6),
            st.integers(0, 60),
            st.integers(0, 400),
        )
    )
)
def test_the_bounds_hold_and_nothing_stale_is_found(moves):
    results, now_ms, expected = ResultCache(CHARGES, entries_max=4, bytes_max=150), 0, {}
    for move, number, length, ms in moves:
        now_ms += ms
        key = CacheKey(f"k{number}", (b"1",))
        if move == "keep":
            results.keep(key, b"x" * length, began_ms=now_ms + 1, now_ms=now_ms)
            expected[key] = (b"x" * length, now_ms + 1_000)
        elif move == "used":
            results.used(key)
        elif move == "invalidate":
            results.invalidate("payment.refunded", now_ms)
            expected = {}
        else:
            results.expire(now_ms)
        found = {key: results.find(key, now_ms) for key in expected}
        cached = {key: one for key, one in found.items() if one is not None}
        assert all(expected[key] == one for key, one in cached.items())
        assert all(one.until_ms > now_ms for one in cached.values())
        assert len(results) <= 4
        assert results.size <= 150
        assert results.size >= sum(len(one.output) for one in cached.values())
