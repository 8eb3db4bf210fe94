import ast
from pathlib import Path

import flo.cli
from flo.cli.app.say import say

FOLDER = Path(flo.cli.__file__).parent
AS_IT_IS = {
    "app/say.py": "this is where text is made printable",
    "app/main.py": "a script of ours, for shells",
    "app/output.py": "--format raw",
    "stream/records.py": "--format raw",
    "kv/get.py": "--format raw",
}


def echoes(path):
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    return [call for call in calls if ast.unparse(call.func) in ("click.echo", "print")]


def test_what_others_have_written_does_nothing_to_the_terminal(capsys):
    say("a\x1b[2J\nb")

    assert capsys.readouterr().out == "a\\x1b[2J\nb\n"


def test_everything_that_is_printed_is_made_printable_but_what_is_asked_for_raw():
    found = {str(path.relative_to(FOLDER)): echoes(path) for path in FOLDER.rglob("*.py")}

    assert {name: len(calls) for name, calls in found.items() if calls} == dict.fromkeys(
        AS_IT_IS, 1
    )
