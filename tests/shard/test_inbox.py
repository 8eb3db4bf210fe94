from flo.model.runs import Invoke
from flo.model.storage.caller import TIMER, Caller, Source
from flo.shard.batch import CROWDED_FILL, MESSAGES_MAX, CommitBatch
from flo.shard.inbox import FEW_WEIGHT, LATELY_WEIGHT, TURN_WEIGHT, Inbox
from flo.shard.submission import WEIGHT_LENGTH, Submission


def rpc():
    return Caller(source=Source.RPC, address="10.0.0.1")


def handed_in(inbox, caller, count=1, messages=1, namespace="default", length=0):
    """So many submissions of a caller, numbered in their order."""
    made = []
    for _ in range(count):
        words = [Invoke(action="send", namespace=namespace, input=bytes(length))] * messages
        made.append(Submission(words, lambda answers: None, caller))
        inbox.put(made[-1])
    return made


def taken(inbox, count=None):
    out = []
    while inbox and (count is None or len(out) < count):
        out.append(inbox.pop())
    return out


def test_while_few_wait_who_comes_first_is_served_first():
    inbox, anna, boris = Inbox(), rpc(), rpc()
    order = [*handed_in(inbox, anna), *handed_in(inbox, boris), *handed_in(inbox, anna)]

    assert taken(inbox) == order
    assert not inbox


def test_who_sends_little_waits_for_two_turns_of_who_sends_much():
    inbox, flooder, light = Inbox(), rpc(), rpc()
    handed_in(inbox, flooder, count=1_000)
    taken(inbox, 10)
    (one,) = handed_in(inbox, light)

    assert taken(inbox).index(one) <= 2 * TURN_WEIGHT


def test_a_batch_counts_as_many_messages():
    inbox, flooder, light = Inbox(), rpc(), rpc()
    handed_in(inbox, flooder, count=100, messages=TURN_WEIGHT)
    (one,) = handed_in(inbox, light)

    assert taken(inbox).index(one) <= 2


def test_a_long_message_counts_as_many():
    inbox, flooder, light = Inbox(), rpc(), rpc()
    handed_in(inbox, flooder, count=10, length=TURN_WEIGHT * WEIGHT_LENGTH)
    (one,) = handed_in(inbox, light)

    assert taken(inbox).index(one) <= 2


def served_beside_a_flood(inbox, flooder, light, rounds):
    """Take in turns: a light caller has one waiting at all times, a flooder very many."""
    handed_in(inbox, flooder, count=4 * FEW_WEIGHT, messages=TURN_WEIGHT)
    handed_in(inbox, light)
    for _ in range(rounds):
        one = inbox.pop()
        handed_in(inbox, one.caller, messages=len(one.messages))


def test_it_is_crowded_while_some_send_little_beside_one_who_sends_much():
    inbox, flooder, light = Inbox(), rpc(), rpc()
    assert not inbox.is_crowded

    served_beside_a_flood(inbox, flooder, light, LATELY_WEIGHT)
    assert inbox.is_crowded

    while inbox:
        inbox.pop()
    handed_in(inbox, flooder, count=LATELY_WEIGHT)
    taken(inbox)
    assert not inbox.is_crowded


def test_it_is_not_crowded_where_all_send_much():
    inbox, anna, boris = Inbox(), rpc(), rpc()
    for caller in (anna, boris):
        handed_in(inbox, caller, count=4 * FEW_WEIGHT)
    for _ in range(4 * LATELY_WEIGHT):
        handed_in(inbox, inbox.pop().caller)
        assert not inbox.is_crowded


def filled_batch(count):
    batch = CommitBatch()
    words = [Invoke(action="send")] * count
    batch.take(Submission(words, lambda answers: None, rpc()))
    return batch


def test_a_batch_that_is_full_for_others_takes_what_is_small():
    inbox, flooder, light = Inbox(), rpc(), rpc()
    served_beside_a_flood(inbox, flooder, light, LATELY_WEIGHT)
    full = filled_batch(round(MESSAGES_MAX * CROWDED_FILL))
    while inbox.pop().caller is flooder:
        pass
    assert inbox.has_one_for(CommitBatch())
    assert not inbox.has_one_for(full)
    assert inbox.pop().caller is flooder
    handed_in(inbox, light)

    assert inbox.has_one_for(full)
    assert not inbox.has_one_for(filled_batch(MESSAGES_MAX))
    assert inbox.pop().caller is light
    assert not inbox.has_one_for(full)


def test_where_all_send_much_a_full_batch_takes_nobody():
    inbox, flooder = Inbox(), rpc()
    handed_in(inbox, flooder, count=4 * FEW_WEIGHT)
    handed_in(inbox, rpc())

    assert inbox.has_one_for(filled_batch(MESSAGES_MAX - 1))
    assert not inbox.has_one_for(filled_batch(MESSAGES_MAX))
    assert not Inbox().has_one_for(CommitBatch())


def test_many_who_send_much_do_not_add_up():
    inbox, light = Inbox(), rpc()
    for _ in range(50):
        handed_in(inbox, rpc(), count=500)
    taken(inbox, 6_000)  # each has had a turn
    (one,) = handed_in(inbox, light)

    assert taken(inbox).index(one) <= 2 * TURN_WEIGHT


def test_a_namespace_waits_for_two_turns_of_another_however_many_callers_that_has():
    inbox, light = Inbox(), rpc()
    for _ in range(200):
        handed_in(inbox, rpc(), count=10)
    (one,) = handed_in(inbox, light, namespace="other")

    assert taken(inbox).index(one) <= 2 * TURN_WEIGHT


def test_those_who_send_little_do_not_keep_the_others_waiting_for_ever():
    inbox, flooder = Inbox(), rpc()
    much = handed_in(inbox, flooder, count=500)
    out = []
    for _ in range(1_000):
        handed_in(inbox, rpc())
        out += taken(inbox, 1)

    assert sum(one in much for one in out) >= 400


def test_what_one_caller_sends_stays_in_order():
    inbox, anna, boris = Inbox(), rpc(), rpc()
    of_anna, of_boris, out = [], [], []
    for _ in range(40):
        of_anna += handed_in(inbox, anna, count=7)
        of_boris += handed_in(inbox, boris, count=3)
        out += taken(inbox, 5)
    out += taken(inbox)

    assert [one for one in out if one.caller is anna] == of_anna
    assert [one for one in out if one.caller is boris] == of_boris


def test_requests_over_http_are_of_one_caller_if_they_come_from_one_address():
    inbox, light = Inbox(), rpc()
    for _ in range(300):
        handed_in(inbox, Caller(source=Source.HTTP, address="10.0.0.2"))
    (one,) = handed_in(inbox, light)

    assert taken(inbox).index(one) <= 2 * TURN_WEIGHT


def test_the_servers_own_go_first_when_many_wait():
    inbox, flooder = Inbox(), rpc()
    handed_in(inbox, flooder, count=500)
    (tick,) = handed_in(inbox, TIMER)

    assert taken(inbox, 1) == [tick]


def test_all_that_waits_can_be_told():
    inbox = Inbox()
    everyone = [*handed_in(inbox, rpc(), count=200), *handed_in(inbox, TIMER)]

    assert set(inbox) == set(everyone)


def test_the_control_first_come_first_served_lets_the_light_one_wait():
    inbox, flooder, light = Inbox(few_weight=10_000), rpc(), rpc()
    handed_in(inbox, flooder, count=1_000)
    (one,) = handed_in(inbox, light)

    assert taken(inbox).index(one) == 1_000
