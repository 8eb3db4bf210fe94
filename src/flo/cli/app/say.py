"""Prints text for people: whatever others have written can do nothing to the terminal."""

import click

from flo.core.printable import printable


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    click.echo(printable(text), err=err, nl=nl)
