from enum import StrEnum
from typing import Annotated, Any

import click
import msgspec
import pytest

from flo.cli.app.parameters import Argument, Either, Flag, build, by_flags, parameters_of
from flo.model.base import Message
from flo.model.declare.fields import Range, about
from flo.model.ids import Labels


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Paint(Message):
    """Paint a wall."""

    wall_id: Annotated[str, about("The wall.")]
    helpers: list[str] | None = None
    colour: Annotated[Colour, about("Which colour.")] = Colour.RED
    layers: Annotated[int, Range(1, 9), about("How many layers.")] = 2
    dry_ms: Annotated[int | None, Range(0, 10**12), about("How long it dries.")] = None
    gloss: Annotated[bool, about("Whether it shines.")] = False
    note: bytes = b""
    labels: Labels | None = None
    metadata: dict[str, Any] | None = None


class Sign(Message):
    wall: str
    name: str | None = None


def command(message, *given):
    return click.Command(
        "paint", params=[one for field in given for one in parameters_of(message, field)]
    )


def paint(line, *given, message=Paint):
    """The message that a command line means."""
    context = command(message, *given).make_context("paint", line.split())
    return build(message, context.params)


def option(*given):
    (found,) = command(Paint, *given).params
    return found


def test_what_must_be_given_is_an_argument_and_what_need_not_a_flag():
    assert paint("north", "wall_id", "layers") == Paint(wall_id="north")
    assert paint("north --layers 3", "wall_id", "layers") == Paint(wall_id="north", layers=3)


def test_an_argument_is_named_after_its_field_without_the_id():
    assert option("wall_id").metavar == "WALL"
    assert option(Argument("wall_id", "SIDE")).metavar == "SIDE"


def test_a_flag_may_have_other_names():
    for line in ("n -l 3", "n --layers 3"):
        assert paint(line, "wall_id", Flag("layers", "-l")).layers == 3
    assert paint("n --coats 3", "wall_id", Flag("layers", "--coats")).layers == 3


def test_the_flag_of_a_duration_leaves_its_unit_out():
    assert option("dry_ms").opts == ["--dry"]
    assert option("dry_ms").metavar == "MS"


def test_values_have_the_types_of_their_fields():
    line = 'n --colour blue --gloss --note hello --labels {"a":1} --metadata {"b":[]}'

    assert paint(line, "wall_id", "colour", "gloss", "note", "labels", "metadata") == Paint(
        wall_id="n",
        colour=Colour.BLUE,
        gloss=True,
        note=b"hello",
        labels={"a": 1},
        metadata={"b": []},
    )


def test_a_list_takes_as_many_as_there_are():
    assert paint("n", "wall_id", Argument("helpers", "NAME")).helpers is None
    assert paint("n ann bob", "wall_id", Argument("helpers", "NAME")).helpers == ["ann", "bob"]


def test_a_flag_that_must_be_given_says_so():
    with pytest.raises(click.MissingParameter) as raised:
        paint("", Flag("wall_id", "--wall"))

    assert raised.value.format_message() == "Missing option '--wall'."


@pytest.mark.parametrize(
    ("flag", "help"),
    [
        ("layers", "How many layers.  [1 to 9; default: 2]"),
        ("colour", "Which colour.  [default: red]"),
        ("dry_ms", "How long it dries.  [0 or more]"),
        ("gloss", "Whether it shines."),
        (Flag("layers", help="So many."), "So many."),
        (Flag("layers", default=5), "How many layers.  [1 to 9; default: 5]"),
    ],
)
def test_the_help_of_a_flag_says_what_the_declaration_says(flag, help):
    assert option(flag).help == help


def test_fields_are_spoken_of_as_flags():
    params = command(Paint, "dry_ms", Flag("layers", "-l")).params

    assert by_flags("Wait `dry_ms`, and `layers` of it.", params) == (
        "Wait --dry, and --layers of it."
    )


def test_a_parameter_beside_the_fields_is_taken_as_it_is():
    context = command(Paint, click.Option(["--dry-run"], is_flag=True)).make_context("paint", [])

    assert context.params == {"dry_run": False}


@pytest.mark.parametrize("line", ["north", "-w north", "--wall north", "north -w north"])
def test_a_name_is_an_argument_or_a_flag(line):
    assert paint(line, Either("wall", "-w"), message=Sign) == Sign(wall="north")


@pytest.mark.parametrize("line", ["", "north -w south"])
def test_a_name_is_one(line):
    with pytest.raises(click.UsageError, match="name one wall, as WALL or with --wall"):
        paint(line, Either("wall", "-w"), message=Sign)


@pytest.mark.parametrize(("line", "name"), [("n", None), ("n ann", "ann"), ("n -n ann", "ann")])
def test_what_need_not_be_named_is_named_once_at_most(line, name):
    given = ("wall", Either("name", "-n", error="say it once"))

    assert paint(line, *given, message=Sign).name == name
    with pytest.raises(click.UsageError, match="say it once"):
        paint("n ann -n ann", *given, message=Sign)


def test_any_struct_can_be_built_of_flags():
    class Point(msgspec.Struct):
        x: int = 0

    assert build(Point, {"x": 7}) == Point(7)
    assert build(Point, {"x": None}) == Point(0)
