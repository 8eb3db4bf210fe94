from flo.wire.opcodes import BATCH_LENGTH_MAX, FORMS, PROTOCOL_VERSION, Welcome

ON_THE_WIRE = {
    1: "hello",
    2: "ping",
    10: "register_action",
    11: "delete_action",
    12: "get_action",
    13: "list_actions",
    14: "enable_action",
    15: "disable_action",
    20: "invoke",
    21: "invoke_many",
    22: "claim",
    23: "complete",
    24: "complete_many",
    25: "fail",
    26: "touch",
    27: "cancel",
    28: "requeue_dead_runs",
    29: "purge_dead_runs",
    30: "get_run",
    31: "wait_for_runs",
    32: "list_runs",
    33: "list_dead_runs",
    40: "register_worker",
    41: "heartbeat",
    42: "drain_worker",
    43: "deregister_worker",
    44: "get_worker",
    45: "list_workers",
    46: "await_notifications",
    50: "create_namespace",
    51: "delete_namespace",
    52: "get_namespace",
    53: "list_namespaces",
    60: "create_stream",
    61: "alter_stream",
    62: "delete_stream",
    63: "append",
    64: "append_many",
    65: "read_stream",
    66: "trim_stream",
    67: "get_stream",
    68: "list_streams",
    70: "create_group",
    71: "delete_group",
    72: "join_group",
    73: "leave_group",
    74: "read_group",
    75: "ack",
    76: "nack",
    77: "touch_records",
    78: "claim_records",
    79: "list_pending",
    80: "get_group",
    81: "list_groups",
    82: "list_dead_records",
    83: "requeue_dead_records",
    84: "purge_dead_records",
    100: "get_key",
    101: "put_key",
    102: "put_key_many",
    103: "delete_key",
    104: "get_keys",
    105: "scan_keys",
    106: "get_key_history",
    107: "increment_key",
    108: "expire_key",
    109: "get_json",
    110: "set_json",
    111: "delete_json",
    112: "transact",
    113: "begin_transaction",
    114: "commit_transaction",
    115: "rollback_transaction",
    116: "read_in_transaction",
}

OF_WORKFLOWS = {
    120: "create_workflow",
    121: "validate_workflow",
    122: "delete_workflow",
    123: "disable_workflow",
    124: "enable_workflow",
    125: "get_workflow",
    126: "list_workflows",
    130: "start_workflow",
    131: "start_workflow_many",
    132: "signal_workflow",
    133: "cancel_workflow",
    134: "pause_workflow",
    135: "resume_workflow",
    136: "rerun_workflow",
    137: "get_workflow_run",
    138: "wait_for_workflow",
    139: "list_workflow_runs",
    140: "get_history",
    141: "explain_workflow",
    150: "pause_schedule",
    151: "resume_schedule",
    152: "run_schedule",
    153: "get_schedule",
    154: "list_schedules",
    160: "get_plan",
    161: "emit_event",
}


def test_an_opcode_means_for_ever_what_it_once_meant():
    assert PROTOCOL_VERSION == 1
    now = {form.opcode: form.name for form in FORMS}

    assert now | ON_THE_WIRE | OF_WORKFLOWS == now


def test_no_opcode_and_no_name_is_given_twice():
    assert len({operation.opcode for operation in FORMS}) == len(FORMS)
    assert len({operation.name for operation in FORMS}) == len(FORMS)


def test_a_batch_form_says_what_its_single_form_says():
    by_name = {operation.name: operation for operation in FORMS}
    batches = [operation for operation in FORMS if operation.many]
    assert batches.pop().name == "report_batch_many"
    assert batches.pop().name == "start_workflow_many"

    assert [batch.name for batch in batches] == [
        "invoke_many",
        "complete_many",
        "append_many",
        "put_key_many",
    ]
    for batch in batches:
        single = by_name[batch.name.removesuffix("_many")]
        assert (batch.request, batch.reply) == (single.request, single.reply)


def test_a_batch_of_starts_says_what_one_start_says():
    by_name = {operation.name: operation for operation in FORMS}
    batch, single = by_name["start_workflow_many"], by_name["start_workflow"]

    assert batch.many
    assert (batch.request, batch.reply) == (single.request, single.reply)


def test_the_welcome_says_how_much_may_be_sent_at_once():
    welcome = Welcome(protocol=1, server="flo", frame_length_max=5)

    assert welcome.batch_length_max == BATCH_LENGTH_MAX
