from flo.model.runs import Invoke
from flo.model.storage.caller import TIMER, Caller, Source
from flo.shard.inbox import TURN_MESSAGES, Inbox
from flo.shard.submission import Submission


def rpc():
    return Caller(source=Source.RPC, address="10.0.0.1")


def handed_in(inbox, caller, count=1, messages=1, namespace="default"):
    """So many submissions of a caller, numbered in their order."""
    made = []
    for _ in range(count):
        words = [Invoke(action="send", namespace=namespace)] * messages
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

    assert taken(inbox).index(one) <= 2 * TURN_MESSAGES


def test_a_batch_counts_as_many_messages():
    inbox, flooder, light = Inbox(), rpc(), rpc()
    handed_in(inbox, flooder, count=100, messages=TURN_MESSAGES)
    (one,) = handed_in(inbox, light)

    assert taken(inbox).index(one) <= 2


def test_many_who_send_much_do_not_add_up():
    inbox, light = Inbox(), rpc()
    for _ in range(50):
        handed_in(inbox, rpc(), count=500)
    taken(inbox, 6_000)  # each has had a turn
    (one,) = handed_in(inbox, light)

    assert taken(inbox).index(one) <= 2 * TURN_MESSAGES


def test_a_namespace_waits_for_two_turns_of_another_however_many_callers_that_has():
    inbox, light = Inbox(), rpc()
    for _ in range(200):
        handed_in(inbox, rpc(), count=10)
    (one,) = handed_in(inbox, light, namespace="other")

    assert taken(inbox).index(one) <= 2 * TURN_MESSAGES


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

    assert taken(inbox).index(one) <= 2 * TURN_MESSAGES


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
    inbox, flooder, light = Inbox(few_messages=10_000), rpc(), rpc()
    handed_in(inbox, flooder, count=1_000)
    (one,) = handed_in(inbox, light)

    assert taken(inbox).index(one) == 1_000
