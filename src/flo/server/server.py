"""Builds every part, starts them in order, stops them in reverse."""

import asyncio
import gc
import ipaddress
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

import structlog

from flo.aio.loops import loop_factory
from flo.engine.losses.rules import AcceptLoss
from flo.engine.workers.presence import expected_workers
from flo.model.errors import FloError
from flo.model.version import VERSION
from flo.server.audit.shard import AuditedShard
from flo.server.budget import MemoryBudget
from flo.server.config import Durability, ServerConfig
from flo.server.counts import Counts
from flo.server.hosts import AllowedHosts
from flo.server.inside.lazy_worker import LazyWasmWorker
from flo.server.inside.schema_checker import SchemaChecker
from flo.server.inside.triggers import Triggers
from flo.server.logs import INTERVAL_S, REPEATED_LINES, set_up_logs
from flo.server.machine_memory import default_budget, resident_length
from flo.server.metrics import Metrics
from flo.server.recovery import Recovery
from flo.server.router import Router
from flo.server.rpc.listener import Listener
from flo.server.store import open_store
from flo.server.upkeep import Upkeep
from flo.server.vault.door import MessageHandler, VaultDoor
from flo.server.vault.vault import Vault, load_keys
from flo.shard.clock import Clock, SystemClock
from flo.shard.loop import Shard
from flo.shard.replay import recover

if TYPE_CHECKING:
    from flo.server.http.routes.system import ServerInfo

DOOR_SHUT = -1
GARBAGE_THRESHOLDS = (50_000, 20, 50)
SWITCH_INTERVAL_S = 0.000_5
"""How long a busy loop may keep the interpreter from the thread that commits."""

_logger = structlog.get_logger("flo.server")


class Service(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...


_Service = TypeVar("_Service", bound=Service)


class Server:
    """One process's server; `port` and the like tell which ports it has really taken."""

    shard: Shard
    port: int = DOOR_SHUT
    http_port: int = DOOR_SHUT
    metrics_port: int = DOOR_SHUT
    blackboard_port: int = DOOR_SHUT

    def __init__(
        self,
        config: ServerConfig,
        clock: Clock | None = None,
        *,
        accept_loss: bool = False,
        give_up: Callable[[FloError], None] = lambda problem: None,
    ) -> None:
        """`give_up` is told why it cannot go on, and has to stop it."""
        self.config = config
        self._accept_loss = accept_loss
        self._give_up = give_up
        self._clock = clock or SystemClock()
        self._running = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._running.aclose()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    @property
    def address(self) -> str:
        """Where the RPC door is."""
        return _address(self.config.host, self.port)

    @property
    def http_url(self) -> str | None:
        """Where the HTTP API is; None if that door is shut."""
        if self.http_port == DOOR_SHUT:
            return None
        return f"http://{_address(self.config.host, self.http_port)}"

    def _blackboard_said(self) -> dict[str, str]:
        if self.blackboard_port == DOOR_SHUT:
            return {}
        return {"blackboard": _address(self.config.blackboard_host, self.blackboard_port)}

    async def stop(self) -> None:
        """Commit and answer what was submitted, then shut the doors and close the store."""
        await self._running.aclose()

    async def _start(self) -> None:
        metrics = Metrics()
        locked = self._running.enter_context(ExitStack())
        store = open_store(self.config, locked, accept_loss=self._accept_loss)
        log, snapshots, segments, loss = store
        self._running.push_async_callback(log.close)
        self._clock.put_forward(log.last_at_ms)  # the machine's time may have been put back
        started_at_ms = self._clock.now_ms()
        recovered = recover(log.read, snapshots, segments)
        _spare_the_garbage_collector()
        for complaint in recovered.damaged:
            _logger.error("snapshot_damaged", problem=complaint)
        checker = await self._run(SchemaChecker())
        self.shard = await self._run(
            Shard(
                recovered.state,
                log,
                self._clock,
                wait_for_log=self.config.durability is Durability.SYNC,
                watcher=metrics,
                elsewhere=checker,
            )
        )
        self.shard.volatile.worker_grace_ms = self.config.worker_grace_ms
        self.shard.volatile.execution_limits = self.config.execution_limits
        if loss is not None:
            await self.shard.ask(AcceptLoss(**loss._asdict()))
        upkeep = await self._run(
            Upkeep(self.shard, log, snapshots, segments, self._clock, self.config)
        )
        budget = self._budget(metrics)
        counts = Counts(self.shard, log, upkeep, budget)
        counts.show_in(metrics)
        metrics.work.begin(lambda: self.shard.state)
        concurrency = self.config.max_concurrent_executions
        wasm_worker = await self._run(LazyWasmWorker(self.shard, self._clock, concurrency))
        triggers = await self._run(Triggers(self.shard))
        router = VaultDoor(
            Router(AuditedShard(self.shard), wasm_worker, triggers),
            Vault(self.shard, partial(load_keys, self.config.secret_keys)),
        )
        inside = (upkeep, wasm_worker, triggers)
        recovery = await self._run(
            Recovery(self.shard, store, self._clock, self.config, inside, self._give_up)
        )
        recovery.listener = await self._open_doors(router, metrics, counts, budget, started_at_ms)
        # The doors stay open until the shard has answered everyone.
        self._running.push_async_callback(self.shard.stop)
        _logger.info(
            "server_started",
            version=VERSION,
            rpc=self.address,
            http=self.http_url,
            **self._blackboard_said(),
            data=str(self.config.data_dir) if snapshots else "memory",
            durability=self.config.durability.value,
            live_runs=counts.live_runs(),
            recovered_ms=self._clock.now_ms() - started_at_ms,
        )

    def _budget(self, metrics: Metrics) -> MemoryBudget:
        shard = self.shard
        return MemoryBudget(
            self.config.memory_budget_bytes or default_budget(),
            own_length=max(resident_length() - shard.state.length, 0),
            state_length=lambda: shard.state.length,
            space_length=lambda namespace: shard.state.space(namespace).length,
            now_ms=self._clock.now_ms,
            watcher=metrics,
        )

    async def _open_doors(
        self,
        router: MessageHandler,
        metrics: Metrics,
        counts: Counts,
        budget: MemoryBudget,
        started_at_ms: int,
    ) -> Listener | None:
        config, listener = self.config, None
        if config.port != DOOR_SHUT:
            listener = Listener(
                router,
                self._clock,
                metrics,
                config.host,
                config.port,
                worker_grace_ms=config.worker_grace_ms,
                budget=budget,
            )
            self.port = (await self._run(listener)).port
            listener.workers.expect(expected_workers(self.shard.state))
        if config.http_port != DOOR_SHUT or config.metrics_port != DOOR_SHUT:
            await self._open_http(router, metrics, counts, budget, started_at_ms)
        if listener is not None:
            listener.http_url = self.http_url
        if config.blackboard_port != DOOR_SHUT:
            await self._open_blackboard(router, metrics, counts, budget, started_at_ms)
        if not _is_loopback(config.host):
            _logger.warning(
                "open_to_the_network",
                host=config.host,
                advice="anyone who can reach these ports can use them: put a firewall before them",
            )
        return listener

    async def _open_http(
        self,
        router: MessageHandler,
        metrics: Metrics,
        counts: Counts,
        budget: MemoryBudget,
        started_at_ms: int,
    ) -> None:
        # Half of the time to start goes into importing this: whoever shuts the doors is spared it.
        from flo.server.http.doors import HttpDoor, MetricsDoor

        config = self.config
        info = self._info(counts, started_at_ms)
        hosts = AllowedHosts((config.host, *config.allowed_host.split(",")))
        if config.http_port != DOOR_SHUT:
            http = HttpDoor(
                router,
                info,
                metrics,
                config.host,
                config.http_port,
                hosts=hosts,
                budget=budget,
            )
            self.http_port = (await self._run(http)).port
        if config.metrics_port != DOOR_SHUT:
            door = MetricsDoor(metrics, config.host, config.metrics_port, hosts=hosts)
            self.metrics_port = (await self._run(door)).port

    async def _open_blackboard(
        self,
        router: MessageHandler,
        metrics: Metrics,
        counts: Counts,
        budget: MemoryBudget,
        started_at_ms: int,
    ) -> None:
        from flo.server.blackboard.door import BlackboardDoor, known_workers
        from flo.server.blackboard.pulse import WorkerPulse

        config = self.config
        namespace = config.blackboard_namespace
        pulse = WorkerPulse(router, self._clock, namespace, config.blackboard_expiry_ms)
        door = BlackboardDoor(
            router,
            pulse,
            self._info(counts, started_at_ms),
            metrics,
            config.blackboard_host,
            config.blackboard_port,
            namespace,
            AllowedHosts((config.blackboard_host, *config.allowed_host.split(","))),
            jobs_max=config.blackboard_max_jobs,
            budget=budget,
        )
        self.blackboard_port = (await self._run(door)).port
        pulse.expect(known_workers(self.shard.state, namespace))
        if not _is_loopback(config.blackboard_host):
            _logger.warning(
                "blackboard_open_to_the_network",
                host=config.blackboard_host,
                advice="its clients send no credentials: put a firewall before it",
            )

    def _info(self, counts: Counts, started_at_ms: int) -> "ServerInfo":
        from flo.server.http.routes.system import ServerInfo

        config = self.config
        return ServerInfo(
            version=VERSION,
            started_at_ms=started_at_ms,
            store="memory" if config.durability is Durability.EPHEMERAL else "sqlite",
            durability=config.durability.value,
            address=self.address,
            data_dir=_data_dir(config),
            now_ms=self._clock.now_ms,
            problem=lambda: self.shard.closed,
            counters=counts.all,
        )

    async def _run(self, service: _Service) -> _Service:
        await service.start()
        self._running.push_async_callback(service.stop)
        return service


def run(
    config: ServerConfig,
    *,
    accept_loss: bool = False,
    started: Callable[[Server], None] = lambda server: None,
) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code. `started` is told once it serves.

    What prevents a start is raised, and so is what the server cannot go on with.
    """
    set_up_logs(config.log_level, config.log_format)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(config, accept_loss, started))
    return 0


async def _serve(
    config: ServerConfig, accept_loss: bool, started: Callable[[Server], None]
) -> None:
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    stopping = asyncio.Event()
    problems: list[FloError] = []

    def give_up(problem: FloError) -> None:
        problems.append(problem)
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with Server(config, accept_loss=accept_loss, give_up=give_up) as server:
        started(server)
        await _told_to_stop(stopping)
        _logger.info("server_stopping")
    REPEATED_LINES.tell(all_of_them=True)
    _logger.info("server_stopped")
    if problems:
        raise problems[0]


async def _told_to_stop(stopping: asyncio.Event) -> None:
    """Wait for it; meanwhile say now and then how many log lines were left out."""
    while True:
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), INTERVAL_S)
            return
        REPEATED_LINES.tell()


def _spare_the_garbage_collector() -> None:
    """What was recovered stays: the collector need not look at it, nor often at the rest."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _data_dir(config: ServerConfig) -> str | None:
    if config.durability is Durability.EPHEMERAL:
        return None
    return str(Path(config.data_dir).resolve())


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
