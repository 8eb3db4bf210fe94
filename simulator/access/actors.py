"""Administrators who make, rotate and revoke tokens, and guests who come with them."""

import random
from typing import Any

from flo.client.session.session import Session
from flo.core.tokens import digest_of
from flo.model.access.tokens import CreateToken, ListTokens, RevokeToken, RotateToken
from flo.model.actions import ListActions, RegisterAction
from flo.model.errors import FloError, Forbidden, Unauthenticated, Unavailable
from simulator.access.ledger import SecretLedger, Standing
from simulator.actors.actor import SimulatedActor
from simulator.checks.invariants import Invariant
from simulator.world import World

NAMES = 4
NAMESPACE = "shop"
KNOWN_CODES = ("token_exists", "token_not_found", "token_invalid")


class SimulatedAdministrator(SimulatedActor):
    """The only one who changes the tokens whose names begin with its own."""

    def __init__(
        self, world: World, rng: random.Random, name: str, secret: str, ledger: SecretLedger
    ) -> None:
        super().__init__(world, rng, name, NAMESPACE)
        self._session = world.session(name, rng, token=secret)
        self._ledger = ledger
        self._made = 0
        self._operations = [*[self._create] * 4, *[self._rotate] * 2, self._revoke, self._list]

    def _some_name(self) -> str:
        return f"{self.name}-{self._rng.randrange(NAMES)}"

    def _new_secret(self, name: str) -> str:
        self._made += 1
        return f"flo_{name}/{self._made}"

    async def _create(self) -> None:
        name = self._some_name()
        secret = self._new_secret(name)
        command = CreateToken(name=name, role="viewer", digest=digest_of(secret))
        if await self._change(name, command, secret):
            self._ledger.gave(name, secret)

    async def _rotate(self) -> None:
        name = self._some_name()
        secret = self._new_secret(name)
        if await self._change(name, RotateToken(name=name, digest=digest_of(secret)), secret):
            self._ledger.gave(name, secret)

    async def _revoke(self) -> None:
        name = self._some_name()
        if await self._change(name, RevokeToken(name=name), None):
            self._ledger.took(name)

    async def _change(self, name: str, command: Any, secret: str | None) -> bool:
        """Whether it was acknowledged."""
        kind = type(command).__name__
        self._ledger.lost_sight(name, secret)
        try:
            await self._session.call(command)
        except Unavailable as error:
            self._refused(kind, error)
            return False
        except FloError as error:
            self._refused(kind, error, *KNOWN_CODES)
            if secret is not None:
                self._ledger.standing[secret] = Standing.REFUSED
            if error.code == "token_not_found":
                self._ledger.took(name)
            return False
        self._did(kind, name)
        return True

    async def _list(self) -> None:
        try:
            page = await self._session.call(ListTokens(limit=1_000))
        except FloError as error:
            self._refused("ListTokens", error, *KNOWN_CODES)
        else:
            self._did("ListTokens", len(page.items))


class SimulatedGuest(SimulatedActor):
    """Comes with whatever secret it can get hold of, and keeps coming with it."""

    def __init__(self, world: World, rng: random.Random, name: str, ledger: SecretLedger) -> None:
        super().__init__(world, rng, name, NAMESPACE)
        self._ledger = ledger
        self._sessions: dict[str, Session] = {}
        self._operations = [*[self._read] * 5, self._write]

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()
        await super().close()

    async def _read(self) -> None:
        await self._try(ListActions(namespace=NAMESPACE))

    async def _write(self) -> None:
        """A viewer may not: nothing of it is ever in the log."""
        await self._try(RegisterAction(name="forged", namespace=NAMESPACE))

    async def _try(self, message: Any) -> None:
        secrets = list(self._ledger.standing)
        if not secrets:
            return
        secret = self._rng.choice(secrets[-20:])
        before = self._ledger.standing[secret]
        answer = await self._asked(secret, message)
        after = self._ledger.standing[secret]
        self._did(type(message).__name__, answer)
        if before is not after or isinstance(answer, Unavailable):
            return
        hold = self._world.checks.hold
        was_let_in = not isinstance(answer, Unauthenticated)
        if before is Standing.REFUSED:
            hold(Invariant.ONLY_VALID_TOKENS, not was_let_in, secret, answer)
        elif before is Standing.VALID:
            hold(Invariant.ONLY_VALID_TOKENS, was_let_in, secret, answer)
            if isinstance(message, RegisterAction):
                is_refused = isinstance(answer, Forbidden)
                hold(Invariant.ROLES_KEPT, is_refused, secret, answer)

    async def _asked(self, secret: str, message: Any) -> object:
        """The answer to a message that is sent with this secret."""
        session = self._sessions.get(secret)
        if session is None:
            if len(self._sessions) > NAMES:
                await self._sessions.pop(next(iter(self._sessions))).close()
            session = self._world.session(self.name, self._rng, token=secret)
            self._sessions[secret] = session
        try:
            return await session.call(message)
        except FloError as error:
            return error
