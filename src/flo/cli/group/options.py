"""Which group and which consumer of it a command means: as arguments, or as flags.

flo stream group join orders billing worker-1
flo stream group join orders -g billing -c worker-1
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import click

from flo.cli.app.payload import read_payload
from flo.model.ids import StreamId

F = TypeVar("F", bound=Callable[..., Any])


def which_group(command: F) -> F:
    """The stream, and one of its groups."""

    @wraps(command)
    def with_group(*args: Any, group: str | None, group_in_flag: str | None, **kwargs: Any) -> Any:
        group = one_of(group, group_in_flag, "group", "GROUP")
        return command(*args, group=group, **kwargs)

    flag = click.option(
        "-g", "--group", "group_in_flag", metavar="NAME", help="The group, if not named before."
    )
    named = click.argument("group", metavar="[GROUP]", required=False)(flag(with_group))
    return cast(F, click.argument("stream")(named))


def which_consumer(command: F) -> F:
    """The stream, one of its groups, and one of the group's consumers."""

    @wraps(command)
    def with_consumer(
        *args: Any, consumer: str | None, consumer_in_flag: str | None, **kwargs: Any
    ) -> Any:
        consumer = one_of(consumer, consumer_in_flag, "consumer", "CONSUMER")
        return command(*args, consumer=consumer, **kwargs)

    flag = click.option(
        "-c",
        "--consumer",
        "consumer_in_flag",
        metavar="NAME",
        help="The consumer, if not named before.",
    )
    named = click.argument("consumer", metavar="[CONSUMER]", required=False)(flag(with_consumer))
    return cast(F, which_group(named))


ids_flag = click.option(
    "-i",
    "--ids",
    metavar="ID,...",
    required=True,
    help="The records, by their ids; - reads them from stdin, @ from a file.",
)


def read_ids(text: str) -> list[StreamId]:
    """Ids with commas or blanks between them."""
    ids = read_payload(text).decode(errors="replace").replace(",", " ").split()
    if not ids:
        raise click.UsageError("--ids: expected ids such as 1700000000000-1, got none")
    return ids


def one_of(name: str | None, name_in_flag: str | None, what: str, argument: str) -> str:
    match name, name_in_flag:
        case (str(one), None) | (None, str(one)):
            return one
        case (str(one), str(other)) if one == other:
            return one
        case _:
            raise click.UsageError(f"name one {what}, as {argument} or with --{what}")
