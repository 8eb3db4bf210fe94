"""Workers that are silent for too long."""

from server.blackboard.conftest import EXPIRY_MS

ONE = {"label": "one"}


async def settled(board):
    """What was submitted is done."""
    await board.get("/workers")


async def test_a_worker_that_is_silent_is_unreachable_and_then_has_expired(board):
    worker_id = await board.worker()
    board.clock.advance(EXPIRY_MS * 2 // 3)
    assert board.pulse.state(worker_id) == "unreachable"
    board.clock.advance(EXPIRY_MS // 3)
    await settled(board)
    assert board.pulse.state(worker_id) == "offline"
    await board.call(f"/workers/{worker_id}/ping", status=404)


async def test_every_call_is_a_sign_of_life(board):
    worker_id = await board.worker("echo")
    for _ in range(5):
        board.clock.advance(EXPIRY_MS - 1)
        await board.call(f"/workers/{worker_id}/ping", status=200)
    board.clock.advance(EXPIRY_MS - 1)
    await board.poll(worker_id)
    board.clock.advance(EXPIRY_MS - 1)
    await settled(board)
    await board.call(f"/workers/{worker_id}/ping", status=200)


async def test_the_job_of_a_worker_that_has_expired_goes_to_another_under_another_id(board):
    worker_id = await board.worker("echo")
    await board.publish(ONE)
    await board.execute()
    (job,) = await board.poll(worker_id, "echo")
    board.clock.advance(EXPIRY_MS)
    other = await board.worker("echo")
    (again,) = await board.poll(other, "echo")
    assert (again["type"], again["stepLabel"]) == (job["type"], job["stepLabel"])
    assert again["jobId"] != job["jobId"]
    await board.push(job, 409)
    await board.push(again, 201)


async def test_one_that_was_heard_of_later_lives_longer(board):
    first = await board.worker()
    board.clock.advance(EXPIRY_MS // 2)
    second = await board.worker()
    board.clock.advance(EXPIRY_MS // 2)
    await settled(board)
    assert (board.pulse.state(first), board.pulse.state(second)) == ("offline", "online")
    board.clock.advance(EXPIRY_MS // 2)
    await settled(board)
    assert board.pulse.state(second) == "offline"


async def test_workers_that_a_server_knew_before_it_was_started_have_the_whole_time(board):
    worker_id = await board.worker()
    board.pulse.forget(worker_id)
    board.pulse.expect([worker_id])
    board.clock.advance(EXPIRY_MS - 1)
    await board.call(f"/workers/{worker_id}/ping", status=200)


async def test_a_pulse_that_is_stopped_lets_nobody_expire(board):
    worker_id = await board.worker()
    board.pulse.stop()
    board.clock.advance(EXPIRY_MS)
    await settled(board)
    assert [one["uuid"] for one in await board.get("/workers")] == [worker_id]
