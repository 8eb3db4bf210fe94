"""flo block ..."""

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.derive import list_command, plain_command
from flo.cli.app.output import Columns, aligned, counts_text, time_text, to_json
from flo.cli.blocks.register import register
from flo.cli.blocks.trial import test
from flo.model.blocks.blocks import BlockView, DeleteBlock, GetBlock, ListBlocks

BLOCK_COLUMNS: Columns[BlockView] = {
    "BLOCK": lambda block: block.block,
    "TYPE": lambda block: block.type,
    "RUNS ON": lambda block: block.run_on,
    "KIND": lambda block: _kind(block),
    "WORKERS": lambda block: len(block.workers),
    "JOBS": lambda block: counts_text(block.jobs),
    "DESCRIPTION": lambda block: block.description,
}


@click.group(
    cls=CommandGroup,
    examples=[
        "flo block list",
        "flo block show network/set_vlan:1",
    ],
)
def block() -> None:
    """See which function blocks there are, and try them."""


def _kind(block: BlockView) -> str:
    flags = {
        "pure": block.pure,
        "idempotent": block.idempotent,
        "reversible": block.reversible,
        "deprecated": block.deprecated,
    }
    return ", ".join(name for name, holds in flags.items() if holds)


def _details(block: BlockView) -> str:
    return aligned(
        {
            "Block": block.block,
            "Description": block.description,
            "Type": block.type,
            "Runs on": block.run_on,
            "Kind": _kind(block),
            "Timeout": f"{block.timeout_ms} ms" if block.timeout_ms else "none",
            "When its worker is lost": block.on_worker_lost,
            "Attempts": block.max_attempts,
            "Workers": ", ".join(block.workers) or "none",
            "Jobs": counts_text(block.jobs),
            "Registered": time_text(block.created_at_ms),
            "Changed": time_text(block.updated_at_ms),
            "Parameters": _schema(block.parameter_schema),
            "Result": _schema(block.result_schema),
        }
    )


def _schema(schema: dict[str, object] | None) -> str:
    return to_json(schema) if schema is not None else "anything"


block.add(
    list_command(
        "list",
        ListBlocks,
        columns=BLOCK_COLUMNS,
        none="no blocks",
        examples=["flo block list", "flo block list --format json"],
    ),
    plain_command(
        "show",
        GetBlock,
        "block",
        text=_details,
        raw="{reply.block}",
        examples=["flo block show network/set_vlan:1", "flo block show network/set_vlan:1.2.0"],
        aliases=["get"],
    ),
    plain_command(
        "delete",
        DeleteBlock,
        "block",
        text="Deleted block: {block}",
        examples=["flo block delete network/set_vlan:1.2.0"],
    ),
    register,
    test,
)
