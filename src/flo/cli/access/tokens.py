"""flo token ..."""

import re
import time

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.derive import list_command, plain_command
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import Columns, show, time_text
from flo.cli.app.say import say
from flo.client.access.new_token import NewToken
from flo.model.access.tokens import ListTokens, RevokeToken, TokenView

UNITS_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}

TOKEN_COLUMNS: Columns[TokenView] = {
    "NAME": lambda token: token.name,
    "ROLE": lambda token: token.role,
    "NAMESPACES": lambda token: ",".join(token.namespaces) or "all",
    "ONLY": lambda token: ",".join(token.only) or "all",
    "STATUS": lambda token: token.status,
    "LAST USED": lambda token: time_text(token.last_used_at_ms) or "-",
    "EXPIRES": lambda token: time_text(token.expires_at_ms) or "never",
}


class Expiry(click.ParamType[int]):
    """How long from now, such as 90d, 12h or 30m: the moment in milliseconds."""

    name = "duration"

    def convert(self, value: object, param: object, ctx: object) -> int:
        """From text, unless it is a moment already."""
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"([1-9][0-9]{0,5})([mhdw])", str(value))
        if match is None:
            raise click.BadParameter(f"expected a time such as 90d, 12h or 30m, got {value!r}")
        return time.time_ns() // 1_000_000 + int(match[1]) * UNITS_MS[match[2]]


EXPIRES = click.option(
    "--expires",
    "expires_at_ms",
    type=Expiry(),
    metavar="TIME",
    help="When it ends by itself, as 90d, 12h or 30m from now.  [default: never]",
)


@click.group(
    "token",
    cls=CommandGroup,
    examples=["flo token list"],
)
def token() -> None:
    """Let people and programs in, each with a role of its own.

    A token is shown once, when it is made; the server keeps only its hash. Roles: admin, developer,
    operator, invoker, worker, viewer, and those of flo.toml.
    """


@token.command(
    "create",
    examples=[
        "flo token create deployer --role developer --expires 90d",
        "flo token create mailer --role worker --namespace shop --only 'send-*'",
    ],
)
@click.argument("name")
@click.option("--role", required=True, metavar="ROLE", help="What it may do.")
@click.option(
    "--in",
    "namespaces",
    multiple=True,
    metavar="NAMESPACE",
    help="Where, as a name or as team-*, like --namespace; may be given several times.  "
    "[default: everywhere]",
)
@click.option(
    "--only",
    multiple=True,
    metavar="PATTERN",
    help="For which names, as send-*; may be given several times.  [default: all]",
)
@EXPIRES
@pass_settings
def create(
    settings: GlobalSettings,
    name: str,
    role: str,
    namespaces: tuple[str, ...],
    only: tuple[str, ...],
    expires_at_ms: int | None,
) -> None:
    """Make a token, and show it this once.

    With --namespace it is for that namespace alone, with --only for the names that fit.
    """
    if settings.namespace is not None:
        namespaces = (*namespaces, settings.namespace)
    with settings.connect() as flo:
        made = flo.tokens.create(
            name, role=role, namespaces=namespaces, only=only, expires_at_ms=expires_at_ms
        )
    _show(settings, made, "Created")


@token.command("rotate", examples=["flo token rotate ci", "flo token rotate ci --expires 90d"])
@click.argument("name")
@EXPIRES
@pass_settings
def rotate(settings: GlobalSettings, name: str, expires_at_ms: int | None) -> None:
    """Give a token another secret; the one before is refused at once."""
    with settings.connect() as flo:
        made = flo.tokens.rotate(name, expires_at_ms=expires_at_ms)
    _show(settings, made, "Rotated")


def _show(settings: GlobalSettings, made: NewToken, done: str) -> None:
    value = {"token": made.secret, "name": made.view.name, "role": made.view.role}
    show(
        settings.format,
        value,
        text=f"{done} token {made.view.name} ({made.view.role}):\n{made.secret}",
        raw=made.secret,
    )
    say("It is not shown again.", err=True)


token.add(
    list_command(
        "list",
        ListTokens,
        columns=TOKEN_COLUMNS,
        none="no tokens",
        examples=["flo token list", "flo token list --format json"],
    ),
    plain_command(
        "revoke",
        RevokeToken,
        "name",
        text="Revoked token: {name}",
        examples=["flo token revoke ci"],
        aliases=["rm", "delete"],
    ),
)
