import io
import sys

import click
import pytest

from flo.cli.group.options import read_ids


@pytest.mark.parametrize(
    "line",
    [
        "join orders",
        "join orders billing",
        "join orders billing worker-1 -c worker-2",
        "join orders billing worker-1 -g audit",
        "info orders",
        "read orders -g billing",
        "touch orders -g billing -i 1-1",
    ],
)
def test_what_is_not_named_is_a_wrong_line(shell, line):
    printed = shell(f"flo stream group {line}")

    assert printed.code == 2
    assert "name one " in printed.err
    assert printed.err.endswith(f"See: flo stream group {line.split()[0]} --help\n")


@pytest.mark.parametrize("text", ["1-1,1-2", "1-1, 1-2", "1-1 1-2", ",1-1,,1-2,"])
def test_ids_have_commas_or_blanks_between_them(text):
    assert read_ids(text, "--ids") == ["1-1", "1-2"]


def test_ids_may_come_on_stdin_or_from_a_file(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"1-1\n1-2\n")))
    (tmp_path / "ids").write_text("1-1\n1-2\n")

    assert read_ids("-", "--ids") == read_ids(f"@{tmp_path}/ids", "--ids") == ["1-1", "1-2"]


@pytest.mark.parametrize("text", ["", " ", ","])
def test_no_ids_are_a_wrong_line(text):
    with pytest.raises(click.UsageError, match="expected ids such as 1700000000000-1, got none"):
        read_ids(text, "--ids")
