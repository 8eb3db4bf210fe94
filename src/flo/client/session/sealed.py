"""A session whose payloads pass a codec: encoded before they are sent, decoded as they come in."""

import asyncio
from typing import Any

from flo.client.payloads.codec import PayloadCodec, check_sealable, recoded
from flo.client.session.session import Session
from flo.model.declare.operation import Command, Query, R
from flo.model.errors import FloError, Invalid


class CodecSession(Session):
    def __init__(self, *args: Any, codec: PayloadCodec, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._codec = codec

    def call(
        self,
        message: Command[R] | Query[R],
        *,
        timeout_s: float | None = None,
        once: bool = False,
    ) -> asyncio.Future[R]:
        check_sealable(message)
        sent = recoded(message, self._encode)
        sealed = super().call(sent, timeout_s=timeout_s, once=once)
        opened: asyncio.Future[R] = asyncio.get_running_loop().create_future()

        def answered(reply: asyncio.Future[R]) -> None:
            if opened.done():
                return
            if reply.cancelled():
                opened.cancel()
            elif (problem := reply.exception()) is not None:
                opened.set_exception(problem)
            else:
                self._hand_over(reply.result(), opened)

        def left(reply: asyncio.Future[R]) -> None:
            if reply.cancelled():
                sealed.cancel()

        sealed.add_done_callback(answered)
        opened.add_done_callback(left)
        return opened

    def _hand_over(self, reply: R, opened: asyncio.Future[R]) -> None:
        try:
            opened.set_result(recoded(reply, self._decode))
        except FloError as error:
            opened.set_exception(error)

    def _encode(self, payload: bytes) -> bytes:
        return self._tried(self._codec.encode, payload, "encoded")

    def _decode(self, payload: bytes) -> bytes:
        return self._tried(self._codec.decode, payload, "decoded")

    def _tried(self, recode: Any, payload: bytes, how: str) -> bytes:
        try:
            return bytes(recode(payload))
        except FloError:
            raise
        except Exception as error:  # what is inside is not to be told
            raise Invalid(
                f"a payload could not be {how} by the codec: {type(error).__name__}",
                code="codec_failed",
            ) from None
