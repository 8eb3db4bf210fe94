"""A token that was made, with its secret."""

from typing import NamedTuple

from flo.model.access.tokens import TokenView


class NewToken(NamedTuple):
    """`secret` is told this once: the server keeps only its hash."""

    secret: str
    view: TokenView
