"""The flags that several commands on keys share."""

import click

from flo.cli.app.parameters import Either, Flag
from flo.cli.app.payload import Seconds

TRANSACTION_FLAG = click.Option(
    ["-t", "--txn", "transaction"],
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="As a part of this transaction: see flo kv begin.",
)
TRANSACTION = Either(
    "transaction", "-t", "--txn", argument="NUMBER", metavar="NUMBER", type=click.IntRange(min=1)
)
VERSION_FLAG = Flag("if_version", "--cas", type=click.IntRange(min=0), metavar="VERSION")
PATH_FLAG = Flag("path", metavar="PATH")
TTL_FLAG = Flag(
    "ttl_ms",
    "--ttl",
    type=Seconds(min=0, min_open=True),
    metavar="SECONDS",
    help="How long it stays, in seconds.  [default: for good]",
)
ROUTING_FLAG = click.Option(
    ["-r", "--routing-key"],
    metavar="KEY",
    expose_value=False,
    help="Accepted, but a namespace is in one place anyway.",
)
