"""flo block test: one phase of a block, here and without a server."""

import asyncio
from typing import Any

import click

from flo.cli.app.command import FloCommand
from flo.cli.app.errors import REFUSED
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.payload import OBJECT
from flo.cli.blocks.register import dirs_option, found_in


@click.command(
    "test",
    cls=FloCommand,
    examples=[
        'flo block test network/set_vlan:1 \'{"device":7,"vlan":20}\' --dir blocks',
        'flo block test network/set_vlan:1 \'{"device":7,"vlan":20}\' --dir blocks --phase acquire',
    ],
)
@click.argument("reference", metavar="BLOCK")
@click.argument("parameters", type=OBJECT, required=False, metavar="[JSON]")
@dirs_option
@click.option(
    "-p",
    "--phase",
    type=click.Choice(["acquire", "execute", "rollback"]),
    default="execute",
    show_default=True,
    help="What to call.",
)
@click.option(
    "--context",
    type=OBJECT,
    metavar="JSON",
    help='The entities, as {"devices":[{"id":7}],"groups":[],"interfaces":[]}.',
)
@click.option("--entity", type=click.INT, metavar="ID", help="The entity that it is run for.")
@click.option("--result", type=OBJECT, metavar="JSON", help="For rollback: what execute returned.")
@pass_settings
def test(
    settings: GlobalSettings,
    reference: str,
    parameters: dict[str, Any] | None,
    dirs: tuple[str, ...],
    phase: str,
    context: dict[str, Any] | None,
    entity: int | None,
    result: dict[str, Any] | None,
) -> int:
    """Run one phase of a block in this process, with no server and no locks.

    What it does to the world, it does. It ends with 3 if the block has failed.
    """
    from flo.cli.app.output import show, to_json
    from flo.testing.blocks import find_block, run_block

    declared = find_block(found_in(dirs), reference)
    ran = asyncio.run(
        run_block(declared, parameters, context, phase=phase, entity_id=entity, result=result)
    )
    value = ran._asdict()
    show(settings.format, value, text=to_json(value), raw=to_json(ran.data, indent=0))
    return 0 if ran.success else REFUSED
