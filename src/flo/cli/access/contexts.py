"""flo login, flo logout, flo context ..."""

import sys

import click

from flo.cli.access.profiles import (
    Profile,
    named_profile,
    read_profiles,
    write_profiles,
)
from flo.cli.app.command import CommandGroup, FloCommand
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import Columns, show, show_list
from flo.model.errors import Invalid

CONTEXT_DEFAULT = "default"

CONTEXT_COLUMNS: Columns[tuple[str, Profile, bool]] = {
    "CONTEXT": lambda one: one[0],
    "SERVER": lambda one: one[1].address,
    "NAMESPACE": lambda one: one[1].namespace or "",
    "TOKEN": lambda one: "yes" if one[1].token else "no",
    "IN USE": lambda one: "*" if one[2] else "",
}


@click.command("login", cls=FloCommand, examples=["flo login --token-file token.txt"])
@click.argument("name", default=CONTEXT_DEFAULT)
@pass_settings
def login(settings: GlobalSettings, name: str) -> None:
    """Keep a server and a token under NAME, and use them from now on.

    The server is that of --host, such as flo+tls://flo.example.com:9000. The token is read from the
    terminal without showing it, from standard input, or from --token-file. It is kept in a file
    that only you can read.
    """
    token = settings.given_token() or _asked()
    settings.token = token
    with settings.connect() as flo:
        flo.ping()
    profiles = read_profiles()
    profiles.contexts[name] = Profile(
        address=settings.address, token=token, ca=settings.ca, namespace=settings.namespace
    )
    profiles.current = name
    write_profiles(profiles)
    show(
        settings.format,
        {"context": name, "address": settings.address},
        text=f"Logged in to {settings.address} as context {name}",
        raw=name,
    )


@click.command("logout", cls=FloCommand, examples=["flo logout", "flo logout staging"])
@click.argument("name", required=False)
@pass_settings
def logout(settings: GlobalSettings, name: str | None) -> None:
    """Forget a context and its token; the one in use, if none is named."""
    profiles = read_profiles()
    name = name or profiles.current or CONTEXT_DEFAULT
    named_profile(profiles, name)
    del profiles.contexts[name]
    if profiles.current == name:
        profiles.current = None
    write_profiles(profiles)
    show(settings.format, {"context": name}, text=f"Forgot context {name}", raw=name)


@click.group("context", cls=CommandGroup, examples=["flo context list", "flo context use staging"])
def context() -> None:
    """Choose between the servers that you have logged in to."""


@context.command("use", examples=["flo context use staging"])
@click.argument("name")
@pass_settings
def use(settings: GlobalSettings, name: str) -> None:
    """Use the server and the token of NAME from now on."""
    profiles = read_profiles()
    profile = named_profile(profiles, name)
    profiles.current = name
    write_profiles(profiles)
    show(
        settings.format,
        {"context": name, "address": profile.address},
        text=f"Using context {name}: {profile.address}",
        raw=name,
    )


@context.command("list", examples=["flo context list"], aliases=["ls"])
@pass_settings
def list_contexts(settings: GlobalSettings) -> None:
    """List the contexts, without their tokens."""
    profiles = read_profiles()
    items = [(name, one, name == profiles.current) for name, one in profiles.contexts.items()]
    show_list(
        settings.format,
        items,
        CONTEXT_COLUMNS,
        none="no contexts: flo login makes one",
        cursor=None,
        to_value=lambda one: {
            "name": one[0],
            "address": one[1].address,
            "namespace": one[1].namespace,
            "current": one[2],
        },
    )


def _asked() -> str:
    if sys.stdin.isatty():
        token: str = click.prompt("Token", hide_input=True)
    else:
        token = sys.stdin.readline().strip()
    if not token:
        raise Invalid("expected a token, got nothing", code="token_required")
    return token
