"""flo kv begin, commit, rollback: several changes from a shell, all or none of them."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import click

from flo.cli.app.command import FloCommand
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import count_text, show
from flo.cli.kv.options import routing_flag

F = TypeVar("F", bound=Callable[..., Any])

NUMBER = click.IntRange(min=1)


def which_transaction(command: F) -> F:
    """The transaction meant, as an argument or as a flag."""

    @wraps(command)
    def with_one(*args: Any, number: int | None, number_in_flag: int | None, **kwargs: Any) -> Any:
        chosen = {number, number_in_flag} - {None}
        if len(chosen) != 1:
            raise click.UsageError("name one transaction, as NUMBER or with --txn")
        return command(*args, transaction=chosen.pop(), **kwargs)

    flag = click.option(
        "-t",
        "--txn",
        "number_in_flag",
        type=NUMBER,
        metavar="NUMBER",
        help="The transaction, if not named before.",
    )
    argument = click.argument("number", metavar="[NUMBER]", type=NUMBER, required=False)
    return cast(F, argument(flag(with_one)))


@click.command("begin", cls=FloCommand, examples=["flo kv begin", "flo kv begin --format raw"])
@routing_flag
@pass_settings
def begin(settings: GlobalSettings) -> None:
    """Begin a transaction, and print its number.

    Commands that name it with --txn are kept until the commit, and nobody sees any of them before.
    It is forgotten when it is left alone for a minute. In a shell: `TXN=$(flo kv begin -o raw)`.
    """
    with settings.connect() as flo:
        begun = flo.kv.begin()
    number = begun.transaction
    show(settings.format, begun, text=f"Began transaction: {number}", raw=f"{number}")


@click.command("commit", cls=FloCommand, examples=["flo kv commit $TXN"])
@which_transaction
@pass_settings
def commit(settings: GlobalSettings, transaction: int) -> None:
    """Do all that was said in a transaction, or none of it.

    None of it if something that was read in the transaction has changed since.
    """
    with settings.connect() as flo:
        committed = flo.kv.commit(transaction)
    text = f"Committed {count_text(committed.changes, 'change')}"
    show(settings.format, committed, text=text, raw=f"{committed.version}")


@click.command("rollback", cls=FloCommand, examples=["flo kv rollback $TXN"])
@which_transaction
@pass_settings
def rollback(settings: GlobalSettings, transaction: int) -> None:
    """Forget all that was said in a transaction."""
    with settings.connect() as flo:
        flo.kv.rollback(transaction)
    value = {"transaction": transaction}
    text = f"Rolled back transaction: {transaction}"
    show(settings.format, value, text=text, raw=f"{transaction}")
