"""flo event ..."""

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.derive import plain_command
from flo.model.plans import EmitEvent


@click.group(cls=CommandGroup, examples=["flo event emit payment.refunded"])
def event() -> None:
    """Say that something has happened."""


event.add(
    plain_command(
        "emit",
        EmitEvent,
        "name",
        text="Emitted event: {name} ({reply.results:result(s)} of {reply.plans:plan(s)} forgotten)",
        json=["name", "reply.plans", "reply.results"],
        examples=[
            "flo event emit payment.refunded",
            "flo event emit customer.deleted --namespace prod",
        ],
    ),
)
