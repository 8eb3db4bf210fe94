"""What a server must be told before others than this machine's user can reach it."""

import ipaddress

from flo.core.tokens import digest_of, new_token
from flo.model.access.tokens import CreateToken
from flo.model.errors import Invalid
from flo.server.config import AuthMode, ServerConfig
from flo.shard.loop import Shard

ADMINISTRATOR = "admin"


def asks_who(config: ServerConfig, *, has_tokens: bool) -> bool:
    """Whether callers are asked who they are; a server that would be open to others is refused."""
    is_on = config.auth is AuthMode.ON or (config.auth is AuthMode.AUTO and has_tokens)
    if config.blackboard_port != -1 and not is_loopback(config.blackboard_host):
        _refuse_blackboard(config)
    if is_loopback(config.host):
        return is_on
    lacks = [] if is_on else ["authentication"]
    if not config.has_tls and not config.insecure:
        lacks.append("TLS")
    if lacks:
        raise Invalid(
            f"whoever can reach {config.host} could use this server, without "
            f"{' and '.join(lacks)}. These two commands mend that:\n"
            f"  flo server init --data-dir {config.data_dir}\n"
            f"  flo server start --data-dir {config.data_dir} --host {config.host} "
            "--tls-cert cert.pem --tls-key key.pem\n"
            "The first makes the administrator's token; where something else does TLS before the "
            "server, --insecure starts it without.",
            code="not_secured",
            details={"lacks": lacks},
        )
    return is_on


def _refuse_blackboard(config: ServerConfig) -> None:
    if not config.insecure:
        raise Invalid(
            f"whoever can reach {config.blackboard_host} could use the blackboard: its clients "
            "send no tokens. Let it listen on 127.0.0.1, or start with --insecure",
            code="not_secured",
            details={"lacks": ["authentication"]},
        )


async def first_token(shard: Shard) -> str:
    """The administrator's token, made for a server that has none."""
    secret = new_token()
    await shard.ask(CreateToken(name=ADMINISTRATOR, role=ADMINISTRATOR, digest=digest_of(secret)))
    return secret


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
