import pytest

from flo.client.arguments.choices import one_if_any, one_of
from flo.model.errors import Invalid
from flo.model.groups import GroupMode


def test_a_word_chooses() -> None:
    assert one_of(GroupMode, "shared", "mode") is GroupMode.SHARED
    assert one_if_any(GroupMode, GroupMode.SHARED, "mode") is GroupMode.SHARED
    assert one_if_any(GroupMode, None, "mode") is None


def test_another_word_is_told_which_there_are() -> None:
    with pytest.raises(Invalid) as raised:
        one_of(GroupMode, "share", "mode")

    assert raised.value.message == (
        "expected mode as one of 'shared', 'exclusive', 'key_shared', got 'share'"
    )
