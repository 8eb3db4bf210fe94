"""The HTTP routes that make the secret of a token: it is in the answer, and nowhere else."""

from typing import Annotated, TypeAlias

from litestar import post
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter
from msgspec import field
from msgspec.structs import asdict

from flo.core.tokens import digest_of, new_token
from flo.model.access.tokens import CreateToken, RotateToken, TokenView
from flo.model.base import Message
from flo.server.http.errors import refusals
from flo.server.http.gateway import EngineGateway

TokenPath: TypeAlias = Annotated[str, PathParameter(description="The token's name.")]


class NewTokenBody(Message):
    name: str
    role: str
    namespaces: list[str] = field(default_factory=list)
    """Where it may be used; everywhere if left out."""
    only: list[str] = field(default_factory=list)
    """The names that it may be used for; all if left out."""
    expires_at_ms: int | None = None


class RotationBody(Message):
    expires_at_ms: int | None = None


class NewTokenJson(TokenView):
    """A token that was made."""

    token: str
    """The secret: it is told this once."""


@post("/tokens", tags=["tokens"], status_code=201, responses=refusals(409, 413))
async def create_token(
    gateway: NamedDependency[EngineGateway], data: JSONBody[NewTokenBody]
) -> NewTokenJson:
    """Let somebody in: a token with a role, for some namespaces and names, or for all."""
    secret = new_token()
    view = await gateway.ask(CreateToken(**asdict(data), digest=digest_of(secret)))
    return NewTokenJson(**asdict(view), token=secret)


@post("/tokens/{name:str}/rotate", tags=["tokens"], status_code=200, responses=refusals(404, 413))
async def rotate_token(
    gateway: NamedDependency[EngineGateway], name: TokenPath, data: JSONBody[RotationBody]
) -> NewTokenJson:
    """Give a token another secret; the one before is refused at once."""
    secret = new_token()
    rotation = RotateToken(name=name, digest=digest_of(secret), expires_at_ms=data.expires_at_ms)
    return NewTokenJson(**asdict(await gateway.ask(rotation)), token=secret)


ROUTES = (create_token, rotate_token)
