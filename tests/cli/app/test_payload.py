import io
import sys

import pytest

from flo.cli.app.payload import read_object


@pytest.fixture
def invoke(shell, client):
    """The input that a run gets when this stands on the command line."""
    client.actions.register("send-email")

    def invoke(argument):
        printed = shell(f"flo action invoke send-email {argument} -o raw")
        assert printed.code == 0, printed.err
        return client.actions.status(printed.out.strip()).input

    return invoke


def test_the_input_is_the_text_itself(invoke):
    assert invoke("""'{"to": "ålice"}'""") == '{"to": "ålice"}'.encode()
    assert invoke("''") == b""


def test_without_an_input_it_is_empty(invoke):
    assert invoke("") == b""


def test_a_dash_reads_stdin(invoke, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\x00\xff")))

    assert invoke("- --raw") == b"\x00\xff"


def test_an_at_sign_reads_a_file(invoke, tmp_path):
    (tmp_path / "input.bin").write_bytes(b"\x00\xff")

    assert invoke(f"@{tmp_path}/input.bin --raw") == b"\x00\xff"


def test_bytes_that_are_no_text_pass_as_they_are(invoke):
    assert invoke("\udcff\udcfe --raw") == b"\xff\xfe"


def test_a_file_that_cannot_be_read_is_a_wrong_line(shell, tmp_path):
    printed = shell(f"flo action invoke send-email @{tmp_path}/none.json")

    assert printed.code == 2
    assert "none.json': No such file or directory [usage]\n" in printed.err


@pytest.mark.parametrize("labels", ["gpu", "[1]", '{"gpu":null}'])
def test_labels_that_are_no_object_are_a_wrong_line(shell, labels):
    printed = shell(f"flo action invoke send-email --labels '{labels}'")

    assert printed.code == 2
    assert """expected an object like {"gpu":true}""" in printed.err


@pytest.mark.parametrize(
    "text", ["a.json", "@a.json", '{"required": ["to"]}', ' {"required":["to"]}']
)
def test_an_object_is_the_text_itself_or_what_a_file_holds(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.json").write_text('{"required": ["to"]}')

    assert read_object(text, "a schema") == {"required": ["to"]}


def test_an_object_may_come_on_stdin(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{}")))

    assert read_object("-", "a schema") == {}


@pytest.mark.parametrize("text", ["{", "@list.json", "deep.json", "none.json"])
def test_what_is_no_object_is_a_wrong_line(shell, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "deep.json").write_text('{"a":' * 100_000)

    printed = shell(f"flo action register a --input-schema '{text}'")

    assert printed.code == 2
    assert "expected a JSON object" in printed.err or "none.json" in printed.err
