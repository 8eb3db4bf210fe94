"""The table: opcode to request and reply type.

`many` marks the batch forms: the request is a list of words, the reply a list with one answer for
each, in order, and each is accepted or refused on its own.
"""

from typing import NamedTuple

from flo.model import actions, namespaces, runs, workers
from flo.model.base import Word

PROTOCOL_VERSION = 1
BATCH_LENGTH_MAX = 1_000


class Hello(Word):
    """The first thing a client says."""

    protocol: int
    client: str = ""


class Welcome(Word):
    """The first thing a server answers."""

    protocol: int
    server: str
    frame_length_max: int
    batch_length_max: int = BATCH_LENGTH_MAX


class Ping(Word):
    pass


class Operation(NamedTuple):
    opcode: int
    name: str
    request: type[Word]
    reply: type[Word]
    many: bool = False


OPERATIONS = (
    Operation(1, "hello", Hello, Welcome),
    Operation(2, "ping", Ping, runs.Nothing),
    Operation(10, "register_action", actions.RegisterAction, actions.Registered),
    Operation(11, "delete_action", actions.DeleteAction, runs.Nothing),
    Operation(12, "get_action", actions.GetAction, actions.ActionView),
    Operation(13, "list_actions", actions.ListActions, actions.ActionPage),
    Operation(14, "enable_action", actions.EnableAction, runs.Nothing),
    Operation(15, "disable_action", actions.DisableAction, runs.Nothing),
    Operation(20, "invoke", runs.Invoke, runs.Invoked),
    Operation(21, "invoke_many", runs.Invoke, runs.Invoked, many=True),
    Operation(22, "claim", runs.Claim, runs.Assigned),
    Operation(23, "complete", runs.Complete, runs.Accepted),
    Operation(24, "complete_many", runs.Complete, runs.Accepted, many=True),
    Operation(25, "fail", runs.Fail, runs.Accepted),
    Operation(26, "touch", runs.Touch, runs.Touched),
    Operation(27, "cancel", runs.Cancel, runs.Accepted),
    Operation(28, "requeue_dead", runs.RequeueDead, runs.Requeued),
    Operation(29, "purge_dead", runs.PurgeDead, runs.Purged),
    Operation(30, "get_run", runs.GetRun, runs.RunView),
    Operation(31, "wait_for_runs", runs.WaitForRuns, runs.Ended),
    Operation(32, "list_runs", runs.ListRuns, runs.RunPage),
    Operation(33, "list_dead", runs.ListDead, runs.RunPage),
    Operation(40, "register_worker", workers.RegisterWorker, workers.WorkerKnown),
    Operation(41, "heartbeat", workers.Heartbeat, workers.WorkerKnown),
    Operation(42, "drain_worker", workers.DrainWorker, workers.WorkerKnown),
    Operation(43, "deregister_worker", workers.DeregisterWorker, runs.Nothing),
    Operation(44, "get_worker", workers.GetWorker, workers.WorkerView),
    Operation(45, "list_workers", workers.ListWorkers, workers.WorkerPage),
    Operation(46, "await_news", workers.AwaitNews, workers.News),
    Operation(50, "create_namespace", namespaces.CreateNamespace, runs.Nothing),
    Operation(51, "delete_namespace", namespaces.DeleteNamespace, runs.Nothing),
    Operation(52, "get_namespace", namespaces.GetNamespace, namespaces.NamespaceView),
    Operation(53, "list_namespaces", namespaces.ListNamespaces, namespaces.NamespacePage),
)

BY_OPCODE = {operation.opcode: operation for operation in OPERATIONS}
BY_NAME = {operation.name: operation for operation in OPERATIONS}

HELLO = BY_NAME["hello"]
PING = BY_NAME["ping"]
