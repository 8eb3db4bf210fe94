"""One attempt of a node: the order of calls, what failures are called, how it is cancelled."""

import asyncio

import pytest

from flo import Batch, BatchResult, FinalizeResult, RoleHandler
from flo.core.stable_hash import stable_hash
from flo.testing.handlers import run_handler


class Recorder(RoleHandler):
    """Notes each call; `fails` says where it raises what."""

    role = "probe"

    def __init__(self, **fails):
        self.calls = []
        self._fails = fails

    def _note(self, name):
        self.calls.append(name)
        if name in self._fails:
            raise self._fails[name]

    async def init(self, cfg):
        self._note("init")
        self.cfg = cfg

    async def load_input(self, input_ref, input_inline):
        self._note("load_input")
        return {"input_ref": input_ref, "input_inline": input_inline}

    async def iter_batches(self, loaded):
        self._note("iter_batches")
        yield Batch(batch_uid="b1", payload={"n": 1})
        yield Batch(batch_uid="b2", payload={"n": 2})

    async def process_batch(self, batch, ctx):
        self._note("process_batch")
        ctx.on_cleanup(lambda: self.calls.append("cleanup"))
        return BatchResult(success=True, metrics={"n": batch.payload["n"]})

    async def finalize(self, ctx):
        self._note("finalize")
        return FinalizeResult(metrics={"all": 2}, artifacts_ref={"file": "x"})


class Fails(RoleHandler):
    """Its second batch ends as it is told."""

    role = "probe"

    def __init__(self, result):
        self._result = result
        self.seen = []

    async def iter_batches(self, loaded):
        for uid in ("b1", "b2", "b3"):
            yield Batch(batch_uid=uid)

    async def process_batch(self, batch, ctx):
        self.seen.append(batch.batch_uid)
        return self._result if batch.batch_uid == "b2" else BatchResult(success=True)


# ── the order of calls, and what is told ──────────────────────────────────────────────────────────


async def test_the_order_of_calls():
    handler = Recorder()

    run = await run_handler(handler, attempt_epoch=3)

    assert handler.calls == [
        "init",
        "load_input",
        "iter_batches",
        "process_batch",
        "process_batch",
        "finalize",
        "cleanup",
        "cleanup",
    ]
    assert (
        handler.cfg.items()
        >= {
            "task_id": "test",
            "node_id": "probe",
            "attempt_epoch": 3,
            "worker_id": "test-worker",
            "role": "probe",
        }.items()
    )
    assert [(result.batch_uid, result.metrics) for result in run.results] == [
        ("b1", {"n": 1}),
        ("b2", {"n": 2}),
    ]
    assert (run.status, run.finalized, run.artifacts_ref) == (
        "finished",
        {"all": 2},
        {"file": "x"},
    )


async def test_the_defaults_make_one_batch_of_the_input():
    class Plain(RoleHandler):
        role = "plain"

    run = await run_handler(Plain(), input_inline={"a": 1})

    (result,) = run.results
    payload = {"input_ref": {}, "input_inline": {"a": 1}}
    assert result.batch_uid == stable_hash({"payload": payload})
    assert (result.metrics, run.finalized) == ({"processed": 1}, {})


async def test_a_handler_may_return_nothing_at_the_end():
    class Quiet(RoleHandler):
        role = "quiet"

        async def finalize(self, ctx):
            return None

    run = await run_handler(Quiet())

    assert (run.status, run.finalized) == ("finished", {})


async def test_the_reference_of_a_batch_is_kept():
    class Refers(RoleHandler):
        role = "refers"

        async def process_batch(self, batch, ctx):
            return BatchResult(success=True, artifacts_ref={"path": "/a"})

    run = await run_handler(Refers())

    assert run.results[0].artifacts_ref == {"path": "/a"}


async def test_progress_and_completion_that_a_handler_writes_itself():
    class Writes(RoleHandler):
        role = "writes"

        async def process_batch(self, batch, ctx):
            ref = await ctx.artifacts.upsert_partial(batch.batch_uid, {"half": True})
            assert ref == {"task_id": "test", "node_id": "writes", "batch_uid": batch.batch_uid}
            with pytest.raises(ValueError, match="batch_uid"):
                await ctx.artifacts.upsert_partial("", {})
            await ctx.artifacts.mark_complete({"total": 1})
            return BatchResult(success=True)

    run = await run_handler(Writes())

    assert [meta for _, meta in run.progress] == [{"half": True}]
    assert run.finalized == {"total": 1}


# ── failures ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("place", ["init", "load_input", "iter_batches", "finalize"])
@pytest.mark.parametrize(
    ("error", "permanent"),
    [
        (TypeError("x"), True),
        (ValueError("x"), True),
        (KeyError("x"), True),
        (RuntimeError("x"), False),
        (OSError("x"), False),
    ],
)
async def test_an_error_outside_of_batches_fails_the_node(place, error, permanent):
    run = await run_handler(Recorder(**{place: error}))

    assert (run.status, run.reason_code, run.permanent) == ("failed", "unexpected_error", permanent)
    assert not [result for result in run.results if result.reason_code]
    assert repr(error) in run.error


@pytest.mark.parametrize(("error", "permanent"), [(ValueError("x"), True), (OSError("x"), False)])
async def test_an_error_in_a_batch_fails_the_batch_and_then_the_node(error, permanent):
    run = await run_handler(Recorder(process_batch=error))

    (batch,) = run.results
    assert (batch.batch_uid, batch.reason_code, batch.permanent) == (
        "b1",
        "unexpected_error",
        permanent,
    )
    assert (run.status, run.reason_code, run.permanent) == ("failed", "unexpected_error", permanent)


async def test_a_handler_says_what_its_errors_are_called():
    class Classifies(Recorder):
        def classify_error(self, exc):
            return "bad_input", True

    run = await run_handler(Classifies(process_batch=OSError("x")))

    assert (run.reason_code, run.permanent) == ("bad_input", True)


async def test_an_error_of_classify_error_is_a_passing_one():
    class Stumbles(Recorder):
        def classify_error(self, exc):
            raise RuntimeError

    run = await run_handler(Stumbles(process_batch=ValueError("x")))

    assert (run.reason_code, run.permanent) == ("unexpected_error", False)


@pytest.mark.parametrize(
    ("result", "reason_code", "permanent"),
    [
        (BatchResult(success=False), "error", False),
        (BatchResult(success=False, permanent=True), "error", True),
        (BatchResult(success=False, reason_code="rate_limit"), "rate_limit", False),
        (
            BatchResult(success=False, reason_code="schema_mismatch", permanent=True),
            "schema_mismatch",
            True,
        ),
        (BatchResult(success=False, reason_code="cancelled"), "cancelled", False),
        (None, "unexpected_error", False),
        ({"success": True}, "unexpected_error", False),
    ],
    ids=str,
)
async def test_the_first_failed_batch_ends_the_attempt(result, reason_code, permanent):
    handler = Fails(result)

    run = await run_handler(handler)

    assert handler.seen == ["b1", "b2"]
    assert [(one.batch_uid, one.reason_code) for one in run.results] == [
        ("b1", None),
        ("b2", reason_code),
    ]
    assert (run.status, run.reason_code, run.permanent) == ("failed", reason_code, permanent)


async def test_metrics_that_cannot_be_written_fail_the_node():
    class Strange(RoleHandler):
        role = "strange"

        async def process_batch(self, batch, ctx):
            return BatchResult(success=True, metrics={"x": object()})

    run = await run_handler(Strange())

    assert (run.status, run.permanent) == ("failed", True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: BatchResult(success="yes"),
        lambda: BatchResult(success=True, metrics=None),
        lambda: BatchResult(success=True, artifacts_ref="x"),
        lambda: FinalizeResult(metrics=[1]),
        lambda: Batch(payload="x"),
        lambda: Batch(batch_uid=7),
    ],
)
def test_a_result_of_the_wrong_shape_is_refused_where_it_is_made(make):
    with pytest.raises(TypeError, match="expected"):
        make()


# ── cancellation ──────────────────────────────────────────────────────────────────────────────────


async def test_a_run_that_is_cancelled_before_it_began_calls_no_handler():
    handler = Recorder()

    run = await run_handler(handler, cancel_after=0, cancel_reason="user_request")

    assert (run.status, run.reason_code) == ("cancelled", "user_request")
    assert handler.calls == []


async def test_a_cancelled_run_ends_between_two_batches():
    class Endless(RoleHandler):
        role = "endless"

        async def iter_batches(self, loaded):
            number = 0
            while True:
                number += 1
                yield Batch(batch_uid=f"b{number}")

    run = await run_handler(Endless(), cancel_after=3)

    assert run.status == "cancelled"
    assert len(run.results) >= 3
    assert all(result.reason_code is None for result in run.results)


async def test_a_cancelled_run_that_waits_for_input_is_interrupted():
    closed = []

    class Waits(RoleHandler):
        role = "waits"

        async def iter_batches(self, loaded):
            try:
                yield Batch(batch_uid="b1")
                await asyncio.Event().wait()
            finally:
                closed.append(True)

    run = await run_handler(Waits(), cancel_after=1)

    assert (run.status, closed) == ("cancelled", [True])


async def test_a_handler_that_heeds_the_flag_ends_within_its_batch():
    class Heeds(RoleHandler):
        role = "heeds"

        async def iter_batches(self, loaded):
            yield Batch(batch_uid="b1")
            yield Batch(batch_uid="b2")

        async def process_batch(self, batch, ctx):
            if batch.batch_uid == "b2":
                self.told = await ctx.cancel_flag.wait()
                self.remaining = ctx.remaining_ms()
                self.reason = ctx.cancel_reason
                assert ctx.cancelled()
                assert ctx.cancel_flag
                await ctx.raise_if_cancelled()
            return BatchResult(success=True)

    handler = Heeds()
    run = await run_handler(handler, cancel_after=1, cancel_reason="user_request")

    assert (run.status, run.reason_code) == ("cancelled", "user_request")
    assert handler.reason == "user_request"
    assert 0 < handler.remaining <= 10_000


async def test_cancellable_gives_the_result_or_ends_with_the_run():
    class Sleeps(RoleHandler):
        role = "sleeps"

        async def iter_batches(self, loaded):
            yield Batch(batch_uid="b1")
            yield Batch(batch_uid="b2")

        async def process_batch(self, batch, ctx):
            if batch.batch_uid == "b1":
                assert await ctx.cancellable(asyncio.sleep(0, "slept")) == "slept"
                with pytest.raises(ZeroDivisionError):
                    await ctx.cancellable(self._divide())
            else:
                await ctx.cancellable(asyncio.Event().wait())
            return BatchResult(success=True)

        async def _divide(self):
            return 1 / 0

    run = await run_handler(Sleeps(), cancel_after=1)

    assert run.status == "cancelled"
    assert [result.batch_uid for result in run.results] == ["b1"]


async def test_a_handler_that_says_itself_that_it_is_cancelled():
    class Gives(RoleHandler):
        role = "gives"

        async def process_batch(self, batch, ctx):
            raise asyncio.CancelledError

    run = await run_handler(Gives())

    assert (run.status, run.reason_code) == ("cancelled", "cancelled")
