"""Tokens in a snapshot."""

from collections.abc import Iterable

from flo.engine.access.records import Token
from flo.engine.snapshot import Section, SnapshotPart
from flo.engine.state import State


class TokensPart(SnapshotPart):
    tokens: tuple[Token, ...]


def _dump(state: State) -> Iterable[TokensPart]:
    yield TokensPart(tokens=tuple(state.tokens.by_name.values()))


def _restore(state: State, part: TokensPart) -> None:
    for token in part.tokens:
        state.tokens.put(token)


SNAPSHOT = (Section(TokensPart, _dump, _restore),)
