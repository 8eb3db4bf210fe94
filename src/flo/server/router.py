"""Which shard a command belongs to."""

from collections.abc import Sequence

from flo.model.base import Word
from flo.shard.shard import Shard
from flo.shard.submission import Done, Submission


class Router:
    """The way in for every door. There is one shard yet; a namespace always lives on one."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def submit(self, words: Sequence[Word], done: Done) -> Submission:
        return self._shard.submit(words, done)

    async def ask(self, word: Word) -> Word:
        return await self._shard.ask(word)
