"""The global flags: the server, the namespace, the format of what is shown.

They may stand before the subcommand or after it; of two, the later wins. A subcommand that has a
flag of the same name keeps it for itself.
"""

import os
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from flo.cli.access.profiles import Profile
    from flo.client.blocking import BlockingFlo
    from flo.client.payloads.codec import PayloadCodec
    from flo.model.declare.operation import Command, Query, R

HOST_DEFAULT = "127.0.0.1"
PORT_DEFAULT = 9000
RAW_FLAG = "--raw"
"""A payload is sent as it is."""
RAW_KEY = "flo.cli.raw"
UTC_KEY = "flo.cli.utc"


class Format(StrEnum):
    TEXT = "text"
    """For people."""
    JSON = "json"
    """For programs: an array of objects for a list, an object otherwise."""
    RAW = "raw"
    """For shells: the bare value, or one in a line."""


class GlobalSettings:
    """What the global flags say."""

    host: str | None = None
    port: int | None = None
    namespace: str | None = None
    format: Format = Format.TEXT
    key_file: str | None = None
    token_file: str | None = None
    ca: str | None = None
    token: str | None = None
    """What `flo login` has been given."""

    @property
    def address(self) -> str:
        """Flags, else the environment, else the context in use, else the default."""
        if self.host is not None or self.port is not None:
            return _join(self.host, self.port)
        if (profile := self.profile()) is not None:
            return profile.address
        return _join(os.environ.get("FLO_ENDPOINT"), os.environ.get("FLO_PORT"))

    def profile(self) -> "Profile | None":
        """The context in use, unless flags or the environment name a server."""
        named = (self.host, self.port, *map(os.environ.get, ("FLO_ENDPOINT", "FLO_PORT")))
        if any(one is not None for one in named):
            return None
        from flo.cli.access.profiles import current_profile

        return current_profile()

    def given_token(self) -> str | None:
        """The token of --token-file, else of the environment."""
        if self.token_file is None:
            return self.token or os.environ.get("FLO_TOKEN")
        try:
            return Path(self.token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            from flo.model.errors import Invalid

            message = f"cannot read the token in {self.token_file}"
            raise Invalid(message, code="invalid_token_file") from error

    def client_settings(self) -> dict[str, Any]:
        """What a client is made with, besides the address."""
        profile = self.profile()
        token, ca, namespace = self.given_token(), self.ca, self.namespace
        if profile is not None:
            token = token or profile.token
            ca = ca or profile.ca
            namespace = namespace or os.environ.get("FLO_NAMESPACE") or profile.namespace
        return {"namespace": namespace, "token": token, "ca": ca, "codec": self._codec()}

    def connect(self) -> "BlockingFlo":
        from flo.client.blocking import BlockingFlo

        return BlockingFlo(self.address, **self.client_settings())

    def _codec(self) -> "PayloadCodec | None":
        key_file = self.key_file or os.environ.get("FLO_PAYLOAD_KEYS")
        if not key_file:
            return None
        from flo.client.payloads.codec import AesCodec

        return AesCodec.from_file(key_file)

    def call(self, message: "Command[R] | Query[R]") -> "R":
        """Connect, and send one operation."""
        with self.connect() as flo:
            return flo.call(message)


pass_settings = click.make_pass_decorator(GlobalSettings, ensure=True)


class GlobalOption(click.Option):
    """A flag that is kept in the Settings under its own name."""

    def __init__(self, names: Iterable[str], **attributes: Any) -> None:
        attributes.setdefault("callback", _remember)
        super().__init__([*names], expose_value=False, **attributes)


def global_options(own: Iterable[click.Parameter]) -> list[click.Parameter]:
    """The global flags for a command, without the names that its own flags have taken."""
    taken = {name for param in own for name in (*param.opts, *param.secondary_opts)}
    options: list[click.Parameter] = []
    for setting, names, attributes in _FLAGS:
        if free := [name for name in names if name not in taken]:
            options.append(GlobalOption([setting, *free], **attributes))
    return options


def _remember(context: click.Context, option: click.Parameter, value: Any) -> None:
    if value is not None:
        assert option.name is not None
        setattr(context.ensure_object(GlobalSettings), option.name, value)


def _remember_format(context: click.Context, option: click.Parameter, value: str | None) -> None:
    _remember(context, option, None if value is None else _FORMATS[value])


def _remember_utc(context: click.Context, option: click.Parameter, is_utc: bool) -> None:
    if is_utc:
        context.meta[UTC_KEY] = True


def _choose_key(context: click.Context, key: str | None) -> None:
    if key is not None:
        from flo.client.session.chosen_keys import idempotency_key

        context.with_resource(idempotency_key(key))


def _join(host: str | None, port: int | str | None) -> str:
    """An address; a port in the host is not overruled by one beside it."""
    host = host or HOST_DEFAULT
    has_port = ":" in host.rpartition("]")[2]
    return host if has_port else f"{host}:{port or PORT_DEFAULT}"


_FORMATS = {"text": Format.TEXT, "table": Format.TEXT, "json": Format.JSON, "raw": Format.RAW}

_FLAGS: tuple[tuple[str, tuple[str, ...], dict[str, Any]], ...] = (
    (
        "host",
        ("-e", "--host", "--endpoint"),
        {
            "metavar": "ADDRESS",
            "help": "The server, as host or host:port.  [FLO_ENDPOINT; default: 127.0.0.1:9000]",
        },
    ),
    (
        "port",
        ("-p", "--port"),
        {
            "type": int,
            "metavar": "PORT",
            "help": "Its port, where the host does not say it.  [FLO_PORT]",
        },
    ),
    (
        "namespace",
        ("-n", "--namespace"),
        {"metavar": "NAME", "help": "The namespace.  [FLO_NAMESPACE; default: default]"},
    ),
    (
        "token_file",
        ("--token-file",),
        {"metavar": "FILE", "help": "A file with the token that lets you in.  [FLO_TOKEN]"},
    ),
    (
        "ca",
        ("--ca",),
        {
            "metavar": "FILE",
            "help": "Whom to trust over TLS (flo+tls://host:port).  [FLO_CA]",
        },
    ),
    (
        "idempotency_key",
        ("--idempotency-key",),
        {
            "callback": lambda context, option, value: _choose_key(context, value),
            "metavar": "KEY",
            "help": "Carry it out once, however often it is asked for with this key within a day.",
        },
    ),
    (
        "key_file",
        ("--decode-with",),
        {
            "metavar": "KEYFILE",
            "help": "Open payloads with these keys, and seal what is sent.  [FLO_PAYLOAD_KEYS]",
        },
    ),
    (
        "utc",
        ("--utc",),
        {
            "is_flag": True,
            "callback": _remember_utc,
            "help": "Show times in UTC, and not in the time of this machine.",
        },
    ),
    (
        "format",
        ("-o", "--format", "--output"),
        {
            "type": click.Choice(list(_FORMATS)),
            "callback": _remember_format,
            "metavar": "FORM",
            "help": "text (or table) for people, json for programs, raw for the bare value.",
        },
    ),
)
