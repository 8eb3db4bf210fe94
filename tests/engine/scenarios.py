"""Makes up scenarios from a seed: mostly steps that make sense, now and then one that does not."""

from random import Random

from flo.engine.ticks import Tick
from flo.engine.workers.presence import Disconnect, LoseWorker
from flo.model.actions import (
    ActionLimits,
    DeleteAction,
    DisableAction,
    EnableAction,
    RegisterAction,
)
from flo.model.groups import (
    Ack,
    ClaimRecords,
    CreateGroup,
    DeleteGroup,
    GroupMode,
    GroupSettings,
    JoinGroup,
    LeaveGroup,
    Nack,
    PurgeDeadRecords,
    ReadGroup,
    RequeueDeadRecords,
    TouchRecords,
)
from flo.model.ids import run_id_of, stream_id_of
from flo.model.kv import (
    BeginTransaction,
    Check,
    CommitTransaction,
    Delete,
    DeleteJson,
    DeleteKey,
    ExpireKey,
    Increment,
    IncrementKey,
    Put,
    PutKey,
    ReadInTransaction,
    RollbackTransaction,
    SetJson,
    Transact,
)
from flo.model.namespaces import CreateNamespace, DeleteNamespace
from flo.model.runs import (
    Cancel,
    Claim,
    Complete,
    Fail,
    Invoke,
    PurgeDeadRuns,
    RequeueDeadRuns,
    Touch,
)
from flo.model.streams import (
    AlterStream,
    Append,
    CreateStream,
    DeleteStream,
    NewRecord,
    Retention,
    TrimStream,
)
from flo.model.workers import (
    INLINE_WORKER_ID,
    DeregisterWorker,
    DrainWorker,
    Heartbeat,
    HeldTask,
    RegisterWorker,
    ResumeWorker,
)
from given import ANNA, BORIS, DEFAULT, Later

ACTIONS = ["send", "print", "fold"]
WORKERS = [ANNA, BORIS, "clara-7"]
STREAMS = ["orders", "clicks"]
GROUPS = ["billing", "audit"]
KEYS = ["a", "b", "c", "number"]
LABELS = [
    None,
    None,
    {},
    {"gpu": True},
    {"gpu": 1},
    {"gpu": 1.0},
    {"gpu": "eu"},
    {"gpu": 1.5, "region": 0},
]
SCHEMAS = [*[None] * 6, {}, {"type": "object"}, {"type": "strnig"}]
SETTINGS = [
    GroupSettings(ack_timeout_ms=500, max_deliveries=2),
    GroupSettings(mode=GroupMode.KEY_SHARED, slots=3, ack_timeout_ms=2_000, max_deliveries=3),
    GroupSettings(mode=GroupMode.KEY_SHARED, redelivery_delay_ms=400, max_deliveries=1),
    GroupSettings(mode=GroupMode.EXCLUSIVE, ack_timeout_ms=900, max_standbys=1),
    GroupSettings(no_ack=True),
]

LIMITS = [
    None,
    None,
    None,
    ActionLimits(concurrency_max=1),
    ActionLimits(concurrency_max=2, concurrency_key="{input.a}"),
    ActionLimits(concurrency_max=5, concurrency_key="{input.a}", max_per_second=3),
    ActionLimits(max_per_minute=9),
]


class ScenarioGenerator:
    """Makes up the next step of a scenario."""

    def __init__(self, seed):
        self.rng = Random(seed)
        self._steps = [
            (self._register_action, 10),
            (self._delete_action, 1),
            (self._enable, 5),
            (self._disable, 1),
            (self._create_namespace, 3),
            (self._delete_namespace, 2),
            (self._invoke, 60),
            (self._claim, 30),
            (self._complete, 12),
            (self._fail, 16),
            (self._touch, 3),
            (self._cancel, 4),
            (self._requeue, 3),
            (self._purge, 2),
            (self._register_worker, 6),
            (self._heartbeat, 1),
            (self._drain, 1),
            (self._deregister, 3),
            (self._disconnect, 3),
            (self._lose_worker, 3),
            (self._resume, 3),
            (self._claim_inside, 4),
            (self._deregister_inside, 2),
            (self._wait, 8),
            (lambda engine: Tick(), 8),
            *StreamNarrator(self).steps,
            *GroupNarrator(self).steps,
            *KeyNarrator(self).steps,
        ]

    def step(self, engine):
        makers, weights = zip(*self._steps, strict=True)
        return self.rng.choices(makers, weights)[0](engine)

    def _register_action(self, engine):
        return RegisterAction(
            name=self.any(ACTIONS),
            namespace=self.namespace(),
            timeout_ms=self.any([0, 500, 30_000]),
            max_retries=self.any([0, 1, 3]),
            retry_delay_ms=self.any([0, 0, 400]),
            input_schema=self.any(SCHEMAS),
            output_schema=self.any(SCHEMAS),
            if_changed=self.any([True, False]),
            limits=self.any(LIMITS),
        )

    def _delete_action(self, engine):
        return DeleteAction(name=self.any(ACTIONS), namespace=self.namespace())

    def _enable(self, engine):
        return EnableAction(name=self.any(ACTIONS), namespace=self.namespace())

    def _disable(self, engine):
        return DisableAction(name=self.any(ACTIONS), namespace=self.namespace())

    def _create_namespace(self, engine):
        return CreateNamespace(name=self.any([DEFAULT, "prod", "prod"]))

    def _delete_namespace(self, engine):
        name = self.any([DEFAULT, "prod", "prod"])
        return DeleteNamespace(name=name, force=self.any([True, True, False]))

    def _invoke(self, engine):
        return Invoke(
            action=self.any(ACTIONS),
            namespace=self.namespace(),
            input=self.any([b"", b"{}", b'{"a": 1}']),
            priority=self.any([10, 10, 10, 0, 200]),
            delay_ms=self.any([0, 0, 0, 700]),
            idempotency_key=self.any([None, None, None, "a", "b", "c"]),
            labels=self.any(LABELS),
        )

    def _claim(self, engine):
        return Claim(
            worker_id=self.any(WORKERS),
            namespace=self.namespace(),
            actions=self.rng.sample(ACTIONS, self.any([1, 2, 3])),
            max_tasks=self.any([1, 1, 3, 10]),
        )

    def _complete(self, engine):
        return Complete(**self._held(engine), output=self.any([b"{}", b"sent"]))

    def _fail(self, engine):
        retry, dead_letter = self.any([True, True, False]), self.any([True, False])
        return Fail(**self._held(engine), error="no", retry=retry, dead_letter=dead_letter)

    def _touch(self, engine):
        return Touch(**self._held(engine), extend_ms=self.any([100, 5_000]))

    def _cancel(self, engine):
        namespace = self.namespace()
        live = [*engine.state.space(namespace).runs]
        known = live if live and self.rng.random() < 0.8 else [self._run_id()]
        reason = self.any(["", "not needed"])
        return Cancel(run_id=self.any(known), namespace=namespace, reason=reason)

    def _requeue(self, engine):
        return RequeueDeadRuns(**self._dead(engine))

    def _purge(self, engine):
        return PurgeDeadRuns(**self._dead(engine))

    def _dead(self, engine):
        """Some dead letters: by name, now and then a wrong one, or whichever come first."""
        namespace, action = self.namespace(), self.any(ACTIONS)
        filed_under = engine.state.space(namespace).archive_name
        dead = [
            run_id
            for (place, run_id), run in engine.ended.items()
            if place == filed_under and run.action == action and run.dead_lettered
        ]
        if dead and self.rng.random() < 0.5:
            run_ids = self.rng.sample(dead, min(len(dead), self.any([1, 1, 3])))
        else:
            run_ids = self.any([None, None, None, [self._run_id()]])
        limit = self.any([1, 2, 100])
        return {"action": action, "namespace": namespace, "ids": run_ids, "limit": limit}

    def _register_worker(self, engine):
        return RegisterWorker(
            worker_id=self.any(WORKERS),
            namespace=self.namespace(),
            processes=ACTIONS[: self.any([0, 1, 3])],
            labels=self.any(LABELS),
            metadata=self.any([None, {"gpu": True, "disks": ["sda"]}]),
            incarnation=self.any(["", "a1", "a1", "b2"]),
            connection_bound=self.any([True, False]),
        )

    def _heartbeat(self, engine):
        return Heartbeat(worker_id=self.any(WORKERS), current_load=self.any([0, 3]))

    def _drain(self, engine):
        return DrainWorker(worker_id=self.any(WORKERS), namespace=self.namespace())

    def _deregister(self, engine):
        return DeregisterWorker(worker_id=self.any(WORKERS), namespace=self.namespace())

    def _disconnect(self, engine):
        return Disconnect(**self._connection(), since_ms=engine.now_ms)

    def _lose_worker(self, engine):
        return LoseWorker(**self._connection(), since_ms=engine.now_ms - self.any([0, 500]))

    def _resume(self, engine):
        connection = self._connection()
        held = engine.state.space(connection["namespace"]).held.get(connection["worker_id"], ())
        known = [run_id for run_id in held if self.rng.random() < 0.5]
        tasks = [HeldTask(run_id=run_id, attempt=self.any([1, 2])) for run_id in known]
        return ResumeWorker(**connection, held=tasks)

    def _connection(self):
        return {
            "worker_id": self.any(WORKERS),
            "namespace": self.namespace(),
            "incarnation": self.any(["", "a1", "b2"]),
        }

    def _claim_inside(self, engine):
        return Claim(worker_id=INLINE_WORKER_ID, namespace=self.namespace(), actions=ACTIONS)

    def _deregister_inside(self, engine):
        return DeregisterWorker(worker_id=INLINE_WORKER_ID, namespace=self.namespace())

    def _wait(self, engine):
        return Later(self.any([1, 1, 400, 1_000, 60_000]))

    def _held(self, engine):
        """A run and the worker that holds it; sometimes it is another, or has ended."""
        namespace = self.namespace()
        running = [
            run for run in engine.state.space(namespace).runs.values() if run.worker_id is not None
        ]
        if running and self.rng.random() < 0.9:
            run = self.any(running)
            run_id, worker_id, attempt = run.run_id, run.worker_id, run.attempt
        else:
            run_id = self._run_id()
            worker_id, attempt = self.any(WORKERS), self.any([0, 1, 2])
        return {
            "run_id": run_id,
            "worker_id": worker_id,
            "namespace": namespace,
            "attempt": self.any([0, attempt]),
        }

    def _run_id(self):
        return run_id_of(self.any(ACTIONS), self.any(range(1, 30)))

    def namespace(self):
        return self.any([DEFAULT, DEFAULT, DEFAULT, "prod"])

    def any(self, choices):
        return self.rng.choice(choices)


class StreamNarrator:
    def __init__(self, generator):
        self._rng, self._any, self._namespace = generator.rng, generator.any, generator.namespace
        self.steps = [
            (self._create, 1),
            (self._alter, 1),
            (self._delete, 1),
            (self._append, 16),
            (self._trim, 2),
        ]

    def _stream(self):
        return {"stream": self._any(STREAMS), "namespace": self._namespace()}

    def _create(self, engine):
        partitions = self._any([1, 4, 0])
        return CreateStream(**self._stream(), partitions=partitions, retention=self._retention())

    def _alter(self, engine):
        return AlterStream(**self._stream(), retention=self._retention())

    def _delete(self, engine):
        return DeleteStream(**self._stream())

    def _append(self, engine):
        count = self._any([1, 1, 2, 5])
        return Append(**self._stream(), records=[self._record() for _ in range(count)])

    def _record(self):
        return NewRecord(
            payload=bytes(self._any([0, 1, 30])),
            headers=self._any([None, None, {"trace": "t-1"}]),
            key=self._any([None, "k", "k", "l", "m", "n"]),
            partition=self._any([None, None, None, None, None, None, 0, 3]),
        )

    def _trim(self, engine):
        message = self._stream()
        stream = engine.state.space(message["namespace"]).streams.get(message["stream"])
        before = None
        if stream is not None and self._rng.random() < 0.3:
            sequence = self._rng.randint(0, stream.next)
            before = stream_id_of(self._any([stream.first_at_ms, stream.last_at_ms]), sequence)
        return TrimStream(
            **message,
            before=before,
            max_length=self._any([None, 0, 3, 20]),
            max_age_ms=self._any([None, None, 0, 1_000]),
            max_bytes=self._any([None, None, 40]),
            dry_run=self._any([False, False, True]),
        )

    def _retention(self):
        return self._any([Retention(), Retention(max_length=5), Retention(max_age_ms=0)])


class GroupNarrator:
    def __init__(self, generator):
        self._rng, self._any, self._namespace = generator.rng, generator.any, generator.namespace
        self.steps = [
            (self._create, 6),
            (self._delete, 1),
            (self._join, 8),
            (self._leave, 2),
            (self._read, 30),
            (self._ack, 8),
            (self._nack, 16),
            (self._touch, 2),
            (self._claim, 2),
            (self._requeue, 4),
            (self._purge, 3),
        ]

    def _group(self, engine):
        """A group that is there, mostly."""
        namespace = self._namespace()
        known = [
            (stream, group)
            for stream, found in engine.state.space(namespace).streams.items()
            for group in found.groups
        ]
        if not known or self._rng.random() < 0.1:
            known = [(self._any(STREAMS), self._any(GROUPS))]
        stream, group = self._any(known)
        return {"stream": stream, "group": group, "namespace": namespace}

    def _consumer(self, engine, message):
        """One that has joined, mostly."""
        stream = engine.state.space(message["namespace"]).streams.get(message["stream"])
        group = stream.groups.get(message["group"]) if stream is not None else None
        joined = sorted(group.consumers) if group is not None else []
        return self._any(joined if joined and self._rng.random() < 0.9 else WORKERS)

    def _create(self, engine):
        return CreateGroup(
            stream=self._any(STREAMS),
            group=self._any(GROUPS),
            namespace=self._namespace(),
            settings=self._any(SETTINGS),
            start=self._any(["0-0", "0-0", "$", "1-0"]),
        )

    def _delete(self, engine):
        return DeleteGroup(**self._group(engine))

    def _join(self, engine):
        return JoinGroup(**self._group(engine), consumer=self._any(WORKERS))

    def _leave(self, engine):
        return LeaveGroup(**self._group(engine), consumer=self._any(WORKERS))

    def _read(self, engine):
        message = self._group(engine)
        return ReadGroup(
            **message,
            consumer=self._consumer(engine, message),
            limit=self._any([1, 1, 3, 10]),
            worker_id=self._any([None, ANNA]),
        )

    def _ack(self, engine):
        return Ack(**self._under_way(engine), worker_id=self._any([None, ANNA]))

    def _nack(self, engine):
        return Nack(
            **self._under_way(engine),
            consumer=self._any([None, None, *WORKERS]),
            delay_ms=self._any([None, None, 0, 700]),
            worker_id=self._any([None, ANNA]),
        )

    def _touch(self, engine):
        extend_ms = self._any([None, 5_000])
        return TouchRecords(
            **self._under_way(engine), consumer=self._any(WORKERS), extend_ms=extend_ms
        )

    def _claim(self, engine):
        return ClaimRecords(
            **self._group(engine),
            consumer=self._any(WORKERS),
            min_idle_ms=self._any([0, 0, 300]),
            limit=self._any([1, 100]),
        )

    def _requeue(self, engine):
        return RequeueDeadRecords(**self._dead(engine))

    def _purge(self, engine):
        return PurgeDeadRecords(**self._dead(engine))

    def _under_way(self, engine):
        """Some records that a group has in its backlog, and now and then others."""
        message = self._group(engine)
        stream = engine.state.space(message["namespace"]).streams.get(message["stream"])
        group = stream.groups.get(message["group"]) if stream is not None else None
        known = [*group.backlog.deliveries] if group is not None else []
        if known and self._rng.random() < 0.9:
            sequences = self._rng.sample(known, min(len(known), self._any([1, 2, 5])))
        else:
            sequences = [self._rng.randint(0, 40)]
        return {**message, "ids": [stream_id_of(1, sequence) for sequence in sequences]}

    def _dead(self, engine):
        """Some dead letters of a group that has any, mostly."""
        message, ids = self._group(engine), None
        known = [one for one in engine.dead_records if one.namespace == message["namespace"]]
        if known and self._rng.random() < 0.9:
            address = self._any(known)
            message["stream"], message["group"], _ = address.name.split("/")
            ids = self._any([None, [stream_id_of(1, address.number)]])
        return {**message, "ids": ids, "limit": self._any([1, 2, 100])}


class KeyNarrator:
    def __init__(self, generator):
        self._rng, self._any, self._namespace = generator.rng, generator.any, generator.namespace
        self.steps = [
            (self._put, 14),
            (self._delete, 3),
            (self._increment, 5),
            (self._expire, 3),
            (self._set_json, 3),
            (self._delete_json, 2),
            (self._transact, 4),
            (lambda engine: BeginTransaction(namespace=self._namespace()), 3),
            (self._commit, 3),
            (self._rollback, 1),
            (self._read, 2),
        ]

    def _key(self):
        return {"key": self._any(KEYS), "namespace": self._namespace()}

    def _put(self, engine):
        message = self._key()
        return PutKey(
            **message,
            value=self._any([b"", b"7", b"{}", b'{"a": [1]}']),
            ttl_ms=self._any([None, None, 300, 5_000]),
            if_version=self._version(engine, message),
            if_absent=self._any([False] * 6 + [True]),
            transaction=self._transaction(engine),
        )

    def _delete(self, engine):
        message = self._key()
        return DeleteKey(
            **message,
            if_version=self._version(engine, message),
            transaction=self._transaction(engine),
        )

    def _increment(self, engine):
        message = {"key": "number", "namespace": self._namespace()}
        transaction = self._transaction(engine)
        return IncrementKey(**message, delta=self._any([1, -5, 0]), transaction=transaction)

    def _expire(self, engine):
        return ExpireKey(**self._key(), ttl_ms=self._any([None, 300]))

    def _set_json(self, engine):
        return SetJson(**self._key(), document=b"[2]", path=self._any(["$", "$.a", "$.a[0]"]))

    def _delete_json(self, engine):
        return DeleteJson(**self._key(), path=self._any(["$", "$.a", "$.a[0]"]))

    def _transact(self, engine):
        message = self._key()
        version = self._version(engine, message)
        checks = [Check(key=message["key"], version=version)] if version is not None else []
        changes = [self._change() for _ in range(self._any([0, 1, 3]))]
        return Transact(namespace=message["namespace"], checks=checks, changes=changes)

    def _change(self):
        key = self._any(KEYS)
        ttl_ms = self._any([None, 300])
        put = Put(key=key, value=self._any([b"1", b"x"]), ttl_ms=ttl_ms)
        return self._any([put, Delete(key=key), Increment(key="number", delta=2)])

    def _commit(self, engine):
        return CommitTransaction(**self._open(engine))

    def _rollback(self, engine):
        return RollbackTransaction(**self._open(engine))

    def _read(self, engine):
        return ReadInTransaction(**self._open(engine), key=self._any(KEYS))

    def _open(self, engine):
        number = self._any([*engine.volatile.transactions] or [0])
        known = engine.volatile.transactions.get(number)
        namespace = known.namespace if known is not None else DEFAULT
        return {"transaction": number, "namespace": namespace}

    def _transaction(self, engine):
        return self._any([None, None, None, *engine.volatile.transactions])

    def _version(self, engine, message):
        known = engine.state.space(message["namespace"]).kv.get(message["key"], engine.now_ms)
        version = known.version if known is not None else 0
        return self._any([None, None, version, version, 1])
