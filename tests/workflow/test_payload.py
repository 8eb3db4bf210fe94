import pytest

from flo.workflow.payload import as_text, value_of


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        (b"", None),
        (b'{"a": [1, 2.5]}', {"a": [1, 2.5]}),
        (b"plain text", "plain text"),
        (b"\xff", "\N{REPLACEMENT CHARACTER}"),
        (b"[" * 100_000, "[" * 100_000),
    ],
)
def test_a_payload_is_json_or_else_text(payload, value):
    assert value_of(payload) == value


def test_what_is_no_text_is_shown_as_replaced():
    assert as_text(b"a\xff") == "a\N{REPLACEMENT CHARACTER}"
