"""Secrets: values that only workers are given."""

from flo.client.noun import Noun
from flo.model.ids import LIST_LIMIT_DEFAULT
from flo.model.safety.secrets import (
    DeleteSecret,
    ListSecrets,
    RotateKey,
    SecretPage,
    SecretSet,
    SecretsResealed,
    SetSecret,
)


class Secrets(Noun):
    """What is set here is in `ctx.secrets` of the handlers whose actions name it."""

    async def set(self, name: str, value: str) -> SecretSet:
        """Set its value; nothing ever shows it again."""
        return await self._call(SetSecret(name=name, value=value))

    async def list(
        self, *, limit: int = LIST_LIMIT_DEFAULT, cursor: str | None = None
    ) -> SecretPage:
        return await self._call(ListSecrets(limit=limit, cursor=cursor))

    async def delete(self, name: str) -> None:
        await self._call(DeleteSecret(name=name))

    async def rotate_key(self) -> SecretsResealed:
        """Seal all of them, in every namespace, with the first key of the server's file."""
        return await self._session.call(RotateKey())
