"""flo event ..."""

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import count_text, show


@click.group(cls=CommandGroup, examples=["flo event emit payment.refunded"])
def event() -> None:
    """Say that something has happened."""


@event.command(
    "emit",
    examples=[
        "flo event emit payment.refunded",
        "flo event emit customer.deleted --namespace prod",
    ],
)
@click.argument("name")
@pass_settings
def emit(settings: GlobalSettings, name: str) -> None:
    """Emit the event NAME: plans that name it in `invalidate_on` forget the results they keep.

    Only plans that keep results now can forget them; an event that none names changes nothing.
    """
    with settings.connect() as flo:
        emitted = flo.events.emit(name)
    value = {"name": name, "plans": emitted.plans, "results": emitted.results}
    forgotten = f"{count_text(emitted.results, 'result')} of {count_text(emitted.plans, 'plan')}"
    show(settings.format, value, text=f"Emitted event: {name} ({forgotten} forgotten)", raw=name)
