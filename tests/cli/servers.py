"""A real server and a worker for the shell, and workflows to deploy on them."""

import asyncio
import threading
from contextlib import contextmanager
from pathlib import Path

from flo.server.config import Durability, ServerConfig
from flo.server.server import Server
from flo.testing.clock import ManualClock

ORDER = """\
kind: Workflow
name: order
version: "1"
idempotency: optional
searchAttributes:
  - {name: customer, type: string, from: input.customer}
  - {name: amount, type: number, from: input.amount}
start:
  run: "@actions/charge"
  transitions: {success: approve, failure: flo.Failed}
steps:
  approve:
    waitForSignal: {type: approval, timeoutMs: 3600000, onTimeout: Rejected}
    transitions: {success: ship}
  ship:
    sleep: 0
    transitions: {success: flo.Completed}
terminals:
  Rejected: {status: failed}
output: '{"charged": "$.steps.start.output.charged", "by": "$.steps.approve.output.by"}'
"""

WAITS_FOR_EVER = ORDER.replace(", timeoutMs: 3600000, onTimeout: Rejected", "").replace(
    "terminals:\n  Rejected: {status: failed}\n", ""
)
"""The same with a fault that is only warned of."""

PAY = """
kind: Workflow
name: pay
version: "1"
plans:
  charge:
    selection: static-order
    executors:
      - name: stripe
        action: "@actions/charge-stripe"
        priority: 100
        breaker: {failure_threshold: 2, cooldown_ms: 30000}
        rate_limit: {max_per_second: 2, max_per_minute: 50}
      - name: adyen
        action: "@actions/charge-adyen"
        priority: 50
    cache: {ttl_ms: 60000, key: "{input.order}", invalidate_on: [prices-changed]}
start:
  run: "@plan/charge"
  transitions: {success: flo.Completed, failure: flo.Failed}
"""


class ServerClock(ManualClock):
    """A manual clock for a server in another thread: its timers fire there."""

    def call_at(self, at_ms, callback):
        self._loop = asyncio.get_running_loop()
        return super().call_at(at_ms, callback)

    def let_pass(self, by_ms):
        """Advance it, as the server sees it."""

        async def advance():
            self.advance(by_ms)

        asyncio.run_coroutine_threadsafe(advance(), self._loop).result()


@contextmanager
def running_server(clock=None):
    """A server in a thread of its own."""
    config = ServerConfig(
        port=0,
        http_port=0,
        metrics_port=-1,
        durability=Durability.EPHEMERAL,
        secret_keys=Path(__file__).with_name("secrets.keys"),
    )
    server = Server(config, clock)
    started = threading.Event()
    stopping = asyncio.Event()
    loops = []

    async def serve():
        loops.append(asyncio.get_running_loop())
        async with server:
            started.set()
            await stopping.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert started.wait(30)
    try:
        yield server
    finally:
        loops[0].call_soon_threadsafe(stopping.set)
        thread.join()


def until_asked(server, kind, namespace, name):
    """Return once a call waits for a change of this thing."""
    while (kind, namespace, name) not in server.shard._polls._queries:
        pass


@contextmanager
def worker_in_thread(client, actions, perform, also=()):
    """A worker in a thread of its own; `perform` does one task. It registers others `also`."""
    client.workers.register("worker-1", [*actions, *also], machine_id="host-01")
    enough = threading.Event()

    def work():
        while not enough.is_set():
            for task in client.workers.claim("worker-1", actions, block_ms=50).tasks:
                perform(task)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join()


def deploy_order(client):
    client.actions.register("charge", max_retries=0)
    client.workflows.create(ORDER)


def charge(client):
    """The first step of the oldest order that waits for it is done."""
    client.workers.complete(claimed(client, "charge").task_id, "anna", {"charged": 7})


def deploy_pay(client):
    for action in ("charge-stripe", "charge-adyen"):
        client.actions.register(action, max_retries=0)
    client.workflows.create(PAY)


def run_pay(client, value, *, fails=False):
    """A run of `pay` to its end; the first executor may fail, and then the second does it."""
    run = client.workflows.start("pay", value)
    if fails:
        client.workers.fail(claimed(client, "charge-stripe").task_id, "anna", "down")
    action = "charge-adyen" if fails else "charge-stripe"
    client.workers.complete(claimed(client, action).task_id, "anna", {"charged": 7})
    run.wait(30)


def claimed(client, action):
    """The next task of this action, in the hands of anna."""
    (task,) = client.workers.claim("anna", [action], block_ms=30_000).tasks
    return task
