"""What is known of the secrets that were given out: whom must the server let in?"""

from enum import Enum, auto


class Standing(Enum):
    VALID = auto()
    """It was acknowledged that it lets its holder in."""
    REFUSED = auto()
    """It was acknowledged that it does so no longer."""
    UNKNOWN = auto()
    """Nobody knows: something was asked, and the answer never came."""


class SecretLedger:
    def __init__(self) -> None:
        self.standing: dict[str, Standing] = {}
        self.current: dict[str, str] = {}
        """The secret of each token that is there, as far as is known."""

    def gave(self, name: str, secret: str) -> None:
        """It was acknowledged that a token has this secret, and no other."""
        self.took(name)
        self.current[name] = secret
        self.standing[secret] = Standing.VALID

    def took(self, name: str) -> None:
        """It was acknowledged that a token is gone."""
        for secret in tuple(self.standing):
            if secret.startswith(f"flo_{name}/"):
                self.standing[secret] = Standing.REFUSED
        self.current.pop(name, None)

    def lost_sight(self, name: str, secret: str | None = None) -> None:
        """Something was asked of a token, and nobody knows what became of it."""
        if secret is not None:
            self.standing[secret] = Standing.UNKNOWN
        if (known := self.current.get(name)) is not None:
            self.standing[known] = Standing.UNKNOWN
