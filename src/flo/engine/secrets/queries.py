"""Queries about secrets; none of them has a value to tell."""

from flo.engine.context import Context
from flo.engine.lists.paging import page_of
from flo.engine.state import State
from flo.model.safety.secrets import ListSecrets, SecretPage, SecretView


def list_secrets(state: State, query: ListSecrets, context: Context) -> SecretPage:
    secrets = state.space(query.namespace).secrets
    names, cursor = page_of(secrets, query)
    views = [
        SecretView(
            name=name,
            version=(secret := secrets[name]).version,
            set_at_ms=secret.set_at_ms,
            by=secret.by,
            key_id=secret.key_id,
        )
        for name in names
    ]
    return SecretPage(items=views, cursor=cursor)
