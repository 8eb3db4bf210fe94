"""ActionWorker: takes the tasks of its actions, and calls their handlers."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import asdict

from flo.client.arguments.choices import one_of
from flo.client.arguments.durations import check_seconds
from flo.client.arguments.refusals import check_arguments
from flo.client.client import Flo
from flo.client.payloads.schema import Schema, schema_of
from flo.model.actions import (
    MAX_RETRIES_DEFAULT,
    RETRY_DELAY_MS_DEFAULT,
    TIMEOUT_MS_DEFAULT,
    ActionLimits,
    ActionView,
    RegisterAction,
)
from flo.model.errors import Conflict, Invalid, NotFound
from flo.model.ids import ActionName, Labels, Namespace, WorkerId, check_action_name
from flo.model.workers import CONCURRENCY_DEFAULT, Effect, HandlerInfo, WorkerType
from flo.worker.actions.claims import Claims
from flo.worker.actions.runner import TaskRunner
from flo.worker.base import BaseWorker
from flo.worker.described import info_of, within_length
from flo.worker.handler import BoundHandler, Handler, bind
from flo.worker.lifecycle import LifecyclePolicy, Work
from flo.worker.stuck import STUCK_TIMEOUT_S_DEFAULT

H = TypeVar("H", bound=Handler)


class HandlerSettings(NamedTuple):
    """What a worker wants of an action; None leaves it as it is."""

    timeout_ms: int | None = None
    max_retries: int | None = None
    retry_delay_ms: int | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    limits: ActionLimits | None = None
    secrets: list[str] | None = None


SETTINGS_DEFAULT = HandlerSettings(
    TIMEOUT_MS_DEFAULT, MAX_RETRIES_DEFAULT, RETRY_DELAY_MS_DEFAULT, "", secrets=[]
)


class ActionWorker(BaseWorker):
    """Registers, claims, performs, reports, and drains when it is told to.

        worker = ActionWorker()

        @worker.action("send-email")
        async def send_email(ctx: ActionContext, email: Email) -> dict[str, str]:
            ...
            return {"status": "sent"}

        worker.run()

    Handlers are async, or sync and then run in threads; flo.worker.handler says what they are
    called with, flo.worker.outcome what their results mean. Durations without a unit are seconds.
    """

    def __init__(
        self,
        address: str | Flo | None = None,
        *,
        namespace: Namespace | None = None,
        worker_id: WorkerId | None = None,
        machine_id: str | None = None,
        concurrency: int = CONCURRENCY_DEFAULT,
        action_timeout: float = 300.0,
        block_ms: int = 30_000,
        labels: Labels | None = None,
        metadata: dict[str, Any] | str | None = None,
        heartbeat_interval: float = 30.0,
        drain_timeout: float = 30.0,
        cancel_grace: float = 10.0,
        stuck_timeout: float = STUCK_TIMEOUT_S_DEFAULT,
        exit_when_stuck: bool = True,
        auto_touch: bool = False,
        blocking_limit: float = 1.0,
        log_level: str | None = None,
        build_id: str | None = None,
    ) -> None:
        """`action_timeout` is how long a handler may take at most, however long the `timeout_ms` of
        its action; `drain_timeout` is how long a worker that is told to stop waits for its
        handlers, `cancel_grace` how long a cancelled one may take to clean up. With `auto_touch`,
        leases are extended while handlers run, so that `timeout_ms` does not end them. A handler
        that blocks the event loop for `blocking_limit` is named in the log; 0 switches that off.
        `build_id` says which build of your code it runs; FLO_BUILD_ID does, too.

        When each place has been held for `stuck_timeout` by a handler that was told to stop and
        does not, the worker says so and, with `exit_when_stuck`, ends with WorkerStuck: whoever
        supervises it starts it again.
        """
        super().__init__(
            address,
            LifecyclePolicy(
                concurrency,
                block_ms,
                heartbeat_interval,
                drain_timeout,
                cancel_grace,
                stuck_timeout,
                exit_when_stuck,
            ),
            namespace=namespace,
            worker_id=worker_id,
            machine_id=machine_id,
            labels=labels,
            metadata=metadata,
            blocking_limit_s=blocking_limit,
            log_level=log_level,
            build_id=build_id,
        )
        check_seconds(action_timeout, "action_timeout", above_zero=True)
        self._action_timeout_s = action_timeout
        self._auto_touch = auto_touch
        self._handlers: dict[ActionName, BoundHandler] = {}
        self._settings: dict[ActionName, HandlerSettings] = {}
        self._infos: dict[ActionName, HandlerInfo] = {}

    def action(
        self,
        name: ActionName,
        *,
        timeout_ms: int | None = None,
        max_retries: int | None = None,
        retry_delay_ms: int | None = None,
        description: str | None = None,
        input_schema: Schema | None = None,
        output_schema: Schema | None = None,
        limits: ActionLimits | None = None,
        secrets: Sequence[str] | None = None,
        effect: Effect | str = Effect.UNSAFE,
    ) -> Callable[[H], H]:
        """Make the function below the handler of this action; see register_action."""

        def register(handler: H) -> H:
            self.register_action(
                name,
                handler,
                timeout_ms=timeout_ms,
                max_retries=max_retries,
                retry_delay_ms=retry_delay_ms,
                description=description,
                input_schema=input_schema,
                output_schema=output_schema,
                limits=limits,
                secrets=secrets,
                effect=effect,
            )
            return handler

        return register

    def register_action(
        self,
        name: ActionName,
        handler: Handler,
        *,
        timeout_ms: int | None = None,
        max_retries: int | None = None,
        retry_delay_ms: int | None = None,
        description: str | None = None,
        input_schema: Schema | None = None,
        output_schema: Schema | None = None,
        limits: ActionLimits | None = None,
        secrets: Sequence[str] | None = None,
        effect: Effect | str = Effect.UNSAFE,
    ) -> None:
        """What is given here is registered when the worker starts.

        What is not given stays as it was registered before, or gets its default. `effect` says what
        becomes of the world when the handler is called twice for one task: "none", "idempotent",
        "keyed" or "unsafe". The values of `secrets` are in `ctx.secrets`, by their names.
        """
        check_action_name(name)
        if name in self._handlers:
            raise Invalid(f"action {name!r} has a handler already")
        settings = HandlerSettings(
            timeout_ms,
            max_retries,
            retry_delay_ms,
            description,
            schema_of(input_schema, "input_schema"),
            schema_of(output_schema, "output_schema"),
            limits,
            None if secrets is None else sorted(set(secrets)),
        )
        check_arguments(RegisterAction(name=name, **_merged(settings, SETTINGS_DEFAULT)._asdict()))
        self._handlers[name] = bind(handler)
        self._infos[name] = info_of(name, handler, one_of(Effect, effect, "effect"))
        self._settings[name] = settings

    def _new_work(self) -> Work:
        if not self._handlers:
            raise Invalid("this worker has no handlers: register an action first")
        runner = TaskRunner(
            self._flo.workers,
            self.worker_id,
            self._flo.namespace,
            self._handlers,
            action_timeout_s=self._action_timeout_s,
            cancel_grace_s=self._policy.cancel_grace_s,
            auto_touch=self._auto_touch,
        )
        return Claims(
            self._flo.workers,
            self.worker_id,
            list(self._handlers),
            self._policy,
            self._announce,
            runner,
        )

    async def _announce(self) -> None:
        await asyncio.gather(*map(self._register_action, self._settings))
        infos = within_length([*self._infos.values()])
        await self._register(WorkerType.ACTION, list(self._handlers), handlers=infos)

    async def _register_action(self, name: ActionName) -> None:
        while not await self._has_settings(name):
            pass

    async def _has_settings(self, name: ActionName) -> bool:
        """Whether the action has the settings that are wanted; if not, others changed them."""
        try:
            action = await self._flo.actions.get(name)
            known, version = _settings_of(action), action.version
        except NotFound:
            known, version = None, 0
        settings = _merged(self._settings[name], known or SETTINGS_DEFAULT)
        if settings == known:
            return True
        try:
            await self._flo.actions.register(
                name, **settings._asdict(), if_changed=True, if_version=version
            )
        except Conflict as error:
            if error.code != "version_changed":
                raise
            return False
        return True


def _settings_of(action: ActionView) -> HandlerSettings:
    return HandlerSettings(
        action.timeout_ms,
        action.max_retries,
        action.retry_delay_ms,
        action.description,
        action.input_schema,
        action.output_schema,
        ActionLimits(**asdict(action.limits)) if action.limits is not None else None,
        action.secrets,
    )


def _merged(wanted: HandlerSettings, known: HandlerSettings) -> HandlerSettings:
    chosen = (old if new is None else new for new, old in zip(wanted, known, strict=True))
    return HandlerSettings._make(chosen)
