import math

import pytest

from flo.model.errors import Invalid, TooLarge
from flo.model.ids import (
    JSON_DEPTH_MAX,
    LABELS_MAX,
    PAYLOAD_LENGTH_MAX,
    TEXT_LENGTH_MAX,
    check_action_name,
    check_json,
    check_key,
    check_labels,
    check_namespace,
    check_payload,
    check_range,
    check_run_id,
    check_stream_name,
    check_text,
    check_worker_id,
    parse_run_id,
    parse_stream_id,
    run_id_of,
    stream_id_of,
)


@pytest.mark.parametrize(
    ("action", "number", "run_id"),
    [
        ("send-email", 1, "send-email-1"),
        ("send-email-1", 1, "send-email-1-1"),
        ("a", 10**18 - 1, "a-999999999999999999"),
        ("größe:v2@eu", 7, "größe:v2@eu-7"),
    ],
)
def test_a_run_id_names_its_action_and_its_number(action, number, run_id):
    assert run_id_of(action, number) == run_id
    assert parse_run_id(run_id) == (action, number)


@pytest.mark.parametrize("text", ["", "send", "send-", "-1", "send/1"])
def test_a_text_without_a_name_and_a_number_is_no_run_id(text):
    assert parse_run_id(text) is None


@pytest.mark.parametrize("number", ["0", "01", "-", "x", "1x", "1 ", "1\n", "²", "٣", "9" * 19])
def test_a_number_that_no_run_has_makes_no_run_id(number):
    assert parse_run_id(f"send-{number}") is None


@pytest.mark.parametrize(
    ("check", "name", "code"),
    [
        (check_namespace, "prod", None),
        (check_namespace, "a" * 63, None),
        (check_namespace, "Team_7-eu", None),
        (check_namespace, "", "invalid_namespace"),
        (check_namespace, "a" * 64, "invalid_namespace"),
        (check_namespace, "eu.west", "invalid_namespace"),
        (check_namespace, "größe", "invalid_namespace"),
        (check_namespace, "prod\n", "invalid_namespace"),
        (check_action_name, "a" * 256, None),
        (check_action_name, "größe:v2@eu.west-1_x", None),
        (check_action_name, "", "invalid_action_name"),
        (check_action_name, "a" * 257, "invalid_action_name"),
        (check_action_name, "send email", "invalid_action_name"),
        (check_action_name, "send/email", "invalid_action_name"),
        (check_action_name, "send\0", "invalid_action_name"),
        (check_action_name, "..", "invalid_action_name"),
        (check_action_name, ".hidden", "invalid_action_name"),
        (check_action_name, "--help", "invalid_action_name"),
        (check_action_name, "a..b--", None),
        (check_namespace, "-rf", "invalid_namespace"),
        (check_worker_id, "..", "invalid_worker_id"),
        (check_stream_name, "-", "invalid_stream_name"),
        (check_worker_id, "host-1:42@eu", None),
        (check_worker_id, "w" * 256, None),
        (check_worker_id, "", "invalid_worker_id"),
        (check_worker_id, "w" * 257, "invalid_worker_id"),
        (check_worker_id, "a\nb", "invalid_worker_id"),
        (check_stream_name, "größe:v2@eu.west-1_x", None),
        (check_stream_name, "s" * 256, None),
        (check_stream_name, "", "invalid_stream_name"),
        (check_stream_name, "s" * 257, "invalid_stream_name"),
        (check_stream_name, "orders/eu", "invalid_stream_name"),
        (check_stream_name, "orders\n", "invalid_stream_name"),
        (check_key, "any key/at all\n\0", None),
        (check_key, "é" * 2_048, None),
        (check_key, "", "invalid_key"),
        (check_key, "é" * 2_048 + "x", "invalid_key"),
    ],
)
def test_names_are_held_to_their_letters_and_lengths(check, name, code):
    if code is None:
        check(name)
    else:
        with pytest.raises(Invalid) as refusal:
            check(name)
        assert refusal.value.code == code


@pytest.mark.parametrize("run_id", ["order-7", "größe:v2@eu.west-1_x", "x" * 256, "wfrun"])
def test_an_id_that_may_be_chosen(run_id):
    check_run_id(run_id, "wfrun")


@pytest.mark.parametrize(
    "run_id", ["", "x" * 257, "a b", "a/b", "a\n", "..", "-x", "wfrun-7", "wfrun-x"]
)
def test_an_id_that_may_not_be_chosen(run_id):
    with pytest.raises(Invalid, match="expected a run id") as refusal:
        check_run_id(run_id, "wfrun")
    assert refusal.value.code == "invalid_run_id"


@pytest.mark.parametrize(
    ("at_ms", "sequence", "stream_id"),
    [(0, 0, "0-0"), (1_700_000_000_000, 1, "1700000000000-1"), (7, 10**18 - 1, f"7-{10**18 - 1}")],
)
def test_a_stream_id_is_a_time_and_a_sequence(at_ms, sequence, stream_id):
    assert stream_id_of(at_ms, sequence) == stream_id
    assert parse_stream_id(stream_id) == (at_ms, sequence)


@pytest.mark.parametrize(
    "text",
    ["", "$", "5", "5-", "-5", "-1-0", "1--1", "1-2-3", "1-2\n", " 1-2", "²-1", "1-" + "9" * 19],
)
def test_what_is_no_stream_id_is_invalid(text):
    with pytest.raises(Invalid) as refusal:
        parse_stream_id(text)

    assert refusal.value.code == "invalid_stream_id"


def test_a_long_name_is_shown_by_its_beginning():
    with pytest.raises(Invalid, match=r"got 'x{77}\.\.\.'$"):
        check_action_name("x" * 100_000)


def test_a_payload_may_be_as_long_as_its_bound():
    check_payload(bytes(PAYLOAD_LENGTH_MAX), "an input")

    with pytest.raises(TooLarge, match=f"an input of at most {PAYLOAD_LENGTH_MAX} bytes"):
        check_payload(bytes(PAYLOAD_LENGTH_MAX + 1), "an input")


def test_a_text_may_be_as_long_as_its_bound():
    check_text("x" * TEXT_LENGTH_MAX, "description")

    with pytest.raises(TooLarge, match="description of at most 4096 characters, got 4097"):
        check_text("x" * (TEXT_LENGTH_MAX + 1), "description")


@pytest.mark.parametrize(("value", "fits"), [(-1, False), (0, True), (255, True), (256, False)])
def test_a_number_lies_within_its_range(value, fits):
    if fits:
        check_range(value, "priority", 0, 255)
    else:
        with pytest.raises(Invalid, match=f"expected priority from 0 to 255, got {value}"):
            check_range(value, "priority", 0, 255)


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"gpu": True, "vram_gb": 24, "load": 0.5, "region": "us-east"},
        {"": ""},
        {"least": -(2**63), "most": 2**64 - 1},
        {str(number): number for number in range(LABELS_MAX)},
    ],
)
def test_labels_are_flat(labels):
    check_labels(labels, "labels")


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        ({"gpu": None}, Invalid, "got null for 'gpu'"),
        ({"gpu": b"x"}, Invalid, "got bytes for 'gpu'"),
        ({"gpu": {"ram": math.nan}}, Invalid, "finite numbers of 64 bits in labels, got nan"),
        ({"gpu": {"name": "x" * 4097}}, TooLarge, "the value of 'gpu' in labels of at most 4096"),
        ({"load": math.nan}, Invalid, "got nan for 'load'"),
        ({"load": math.inf}, Invalid, "got inf for 'load'"),
        ({"serial": 2**64}, Invalid, "got 18446744073709551616 for 'serial'"),
        ({"serial": -(2**63) - 1}, Invalid, "got -9223372036854775809 for 'serial'"),
        ({"k" * 4097: 1}, TooLarge, "a key of labels of at most 4096"),
        ({"region": "x" * 4097}, TooLarge, "the value of 'region' in labels of at most 4096"),
        ({str(number): number for number in range(LABELS_MAX + 1)}, TooLarge, "at most 64 labels"),
    ],
)
def test_labels_that_could_never_be_compared_or_kept_are_refused(labels, error, message):
    with pytest.raises(error, match=message):
        check_labels(labels, "labels")


def nested(depth):
    value = None
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        {},
        None,
        {"": "", "a": [None, True, 1, 0.5, "x", {}, []]},
        {"least": -(2**63), "most": 2**64 - 1, "small": 1e-300},
        nested(JSON_DEPTH_MAX - 1),
    ],
)
def test_what_is_json_and_can_be_kept_may_pass(value):
    check_json(value, "metadata")


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ({"a": {1: 2}}, Invalid, "text for every key in metadata, got '1'"),
        ([b"raw"], Invalid, "expected JSON in metadata, got bytes"),
        ({"a": (1, 2)}, Invalid, "got tuple"),
        ({"a": [2**64]}, Invalid, "numbers of 64 bits in metadata, got 18446744073709551616"),
        ([-(2**63) - 1], Invalid, "got -9223372036854775809"),
        ({"a": math.nan}, Invalid, "got nan"),
        (math.inf, Invalid, "got inf"),
        (nested(JSON_DEPTH_MAX), TooLarge, f"metadata nested at most {JSON_DEPTH_MAX} deep"),
        (nested(100_000), TooLarge, "nested"),
    ],
)
def test_what_is_not_json_or_could_not_be_kept_is_refused(value, error, message):
    with pytest.raises(error, match=message):
        check_json(value, "metadata")
