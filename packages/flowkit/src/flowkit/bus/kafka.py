"""KafkaBus: FlowKit's topics without a broker.

The server carries what coordinator and workers say to each other; `flo pipeline bridge` mirrors it
to a broker. What a program sends to a status topic goes to the server, which fences it and counts
it once, as it does with all that comes over the bridge.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flo.model.pipelines.work import RecordPipelineEvent
from flowkit.core.config import CoordinatorConfig, WorkerConfig
from flowkit.protocol.messages import Envelope

if TYPE_CHECKING:
    from flowkit.db.handle import FlowDb


class KafkaBus:
    def __init__(
        self, cfg: CoordinatorConfig | WorkerConfig, db: "FlowDb | None" = None, **_: Any
    ) -> None:
        self.cfg = cfg
        self._db = db

    def topic_cmd(self, step_type: str) -> str:
        return self.cfg.topic_cmd(step_type)

    def topic_status(self, step_type: str) -> str:
        return self.cfg.topic_status(step_type)

    async def start(self) -> None:
        """There is nothing to connect to."""

    async def stop(self) -> None:
        """There is nothing to close."""

    async def send(
        self, topic: str, key: bytes | str | None, env: Envelope | Mapping[str, Any]
    ) -> None:
        """Take in an event that somebody says on a status topic; other topics are not carried."""
        envelope = Envelope.model_validate(env)
        if self._db is None or topic != self.topic_status(envelope.step_type):
            return
        payload = envelope.model_dump(mode="json")["payload"]
        await self._db.call(
            RecordPipelineEvent(
                id=envelope.task_id,
                node=envelope.node_id,
                kind=str(payload.pop("kind", "")),
                attempt_epoch=envelope.attempt_epoch,
                payload=payload,
                dedup_id=envelope.dedup_id,
            )
        )
