"""Which group, which consumer and which records a command means.

flo stream group join orders billing worker-1
flo stream group join orders -g billing -c worker-1
"""

import click

from flo.cli.app.parameters import Either
from flo.cli.app.payload import ReadFrom, read_payload
from flo.model.ids import StreamId

GROUP = ("stream", Either("group", "-g"))
CONSUMER = (*GROUP, Either("consumer", "-c"))


def read_ids(text: str, flag: str) -> list[StreamId]:
    """Ids with commas or blanks between them."""
    ids = read_payload(text).decode(errors="replace").replace(",", " ").split()
    if not ids:
        raise click.UsageError(f"{flag}: expected ids such as 1700000000000-1, got none")
    return ids


IDS = ReadFrom(read_ids, "id")
