"""What must hold after every event, in sentences; each is counted whenever it is checked.

reference/   checks the events of the log, one by one, as they become durable
ledgers/     checks what clients and workers are answered against what is durable
audits/      checks the engine's own state and indexes by counting again
"""

from collections import Counter
from collections.abc import Callable
from enum import StrEnum


class Invariant(StrEnum):
    # What the log may say.
    RUNS_NUMBERED = "run numbers go up by one, and no run id comes twice"
    RUNS_OF_ACTIONS = "no run begins of an action that is not registered"
    ONE_RUN_PER_KEY = "the same idempotency key makes one run, for ever"
    ONE_LEASE = "a run is never held by two live leases"
    ATTEMPTS_COUNT_UP = "every claim is the next attempt"
    UNHEARD_IS_FREE = "a claim that nobody heard uses up no attempt"
    ATTEMPTS_BOUNDED = "the attempts of one life never exceed max_retries + 1"
    NOT_BEFORE_READY = "no run is claimed before its delay or its backoff is over"
    QUEUE_ORDER = "the highest priority is claimed first, and within it the longest ready"
    LABELS_MATCH = "a run goes to a worker that has its labels"
    WITHIN_REGISTRATION = (
        "a worker is given no more than its max_concurrency, and only actions it registered"
    )
    DRAINING_GETS_NOTHING = "a draining worker is given nothing"
    CODE_AS_SAID = "a worker is registered with the build and the handlers that it says it has"
    LEASE_LENGTH = "a lease lasts as long as the action or a touch says"
    TIMEOUT_KEPT = "a handler executes no longer than its timeout_ms, unless it is touched"
    CUT_OFF_ONLY = "only what the server executes itself is given back, and uses up no attempt"
    BACKOFF = "a retry waits for no less than the action's retry delay, unless its worker is gone"
    CLAIMED_FIRST = "no attempt ends that was not claimed"
    HOLDER_REPORTS = "only its holder ends an attempt; the result of a lost lease is refused"
    SINCE_RIGHT = "since when something is so is the place of the event that made it so"
    BREAKERS_TURN = "a breaker opens when it is closed, and half-opens when it is open"
    SECRETS_SEALED = "the value of a secret is in no event, row or answer but that of a claim"
    SECRETS_GIVEN = "a task comes with the values of the secrets that its action names, no others"
    AUDITED_ONCE = "an audited command, allowed or refused, is one entry, in its own append"
    EVENTS_HAVE_CALLERS = "every event in the log follows who caused it, counted once"
    ONE_CALL_ONE_EFFECT = "a request is carried out once, and noted with what it led to"
    LATE_REPORTS_KEPT = (
        "the first late report of an attempt is kept as its worker made it, and refused"
    )
    TIMES_AS_REPORTED = "an attempt took as long, and was held as long, as its worker says"
    DEFINITIONS_KEPT = "the text that a run followed is read by its digest while the run is kept"
    VERSIONS_MEAN_ONE_TEXT = "a version of a workflow never comes back with another text"
    ENDED_IS_FINAL = "nothing happens to a run that has ended"
    CANCEL_IS_FINAL = "what is cancelled is handed to nobody, and never ends otherwise"
    ONLY_THE_DEAD = "nothing but a dead letter is requeued or purged"
    DISABLED_TAKES_NOTHING = "no run begins of an action that is disabled"
    DISABLED_STAYS_SO = "an action is disabled until it is enabled, or deleted"
    SCHEMAS_OBEYED = "no run begins or completes with what its schema does not allow"
    NOT_LOST_EARLY = "no worker is lost before its grace period is over, but for another process"
    LOST_IN_TIME = "a grace period after its connection broke, a dead worker holds nothing"
    HELD_AS_SAID = "a worker that is back holds what it says, and nothing else"
    HEARD_IS_NOT_RELEASED = "no task is released as unheard that its worker has heard of"
    DRAIN_IS_KEPT = "a drain lasts as long as the worker's process, and no longer"
    TIMERS_NOT_EARLY = "no timer goes off early"
    TIMERS_NOT_LATE = "no timer goes off late while the server is up"
    TIME_GROWS = "the time of the log does not go back while a server lives"
    ARCHIVED_AT_END = "what ends is archived with the event that ended it, and nothing else is"
    DEAD_LEAVE_THE_ARCHIVE = "what is requeued or purged leaves the archive at that moment"
    FORGOTTEN = "nothing of a deleted namespace is seen in the one made anew"

    # What the log may say of streams and groups.
    STREAMS_NUMBERED = "no number of a stream or a group ever comes twice"
    SEQUENCES_GROW = "the ids of a stream grow, and its sequence skips nothing"
    RECORDS_AS_SENT = "a stored record is what somebody sent, and stored once"
    PARTITIONS_KEPT = "a key always chooses the same partition; one that is named is taken"
    TRIMS_BOUNDED = "a trim takes away what it is asked to, and nothing more"
    RECORDS_ACCOUNTED = "no record vanishes on its way through a group"
    CONSUMERS_JOINED = "only who has joined a group is given records"
    ONE_CONSUMER = "a record is in the hands of one consumer at a time"
    CHOSEN_ONE = "in mode exclusive only the chosen one gets records, and it is while it is heard"
    KEYS_APART = "in mode key_shared the records of a slot are with one consumer at a time"
    KEYS_STAY = "in mode key_shared a key stays with its consumer while that is there"
    KEY_ORDER = "in mode key_shared the records of a key come in the order of the stream"
    DELIVERIES_BOUNDED = "a record is handed out max_deliveries times, and then dies"
    NOT_BEFORE_DELAY = "no record is handed out before its delay is over"
    ACKED_IS_DONE = "what was acked is never handed out again"
    SETTLED_AS_ASKED = "no record is settled, given back or touched but as somebody asked"
    DEAD_LETTERS_KEPT = "a dead letter keeps all that was in it until it is requeued or purged"

    # What the log may say of failures.
    CODES_KEPT = "a failure keeps the code that its worker gave it, in its run and in its step"
    FINAL_AS_REPORTED = "a failure is retryable unless its worker wants no retry and no dead letter"

    # What the log may say of keys.
    VERSIONS_GROW = "versions only grow; only what changes at one moment shares one"
    WRITES_ASKED = "no key changes but as somebody asked, and counters add up"

    # What the log may say of workflows.
    WORKFLOWS_NUMBERED = "workflow runs are numbered one after the other"
    WORKFLOWS_DEPLOYED = "no workflow run begins of what is not deployed, or is disabled"
    STEPS_IN_ORDER = "no step begins before the one before it on its branch has ended"
    PAUSED_BEGINS_NOTHING = "while a run is paused it begins no step"
    SUBJECT_KEPT = "what a workflow run starts, and what repeats it, has its subject"
    CAUSES_TOLD = "a run that a workflow awaits says for which branch, step, visit and attempt"
    ONE_BRANCH_WAITS = "a run that a workflow awaits is awaited by one branch, once"
    OUTCOME_COUNTED_ONCE = "an outcome is counted once, by the branch that has waited for it"
    FINAL_IS_NOT_RETRIED = "what is not retryable is not retried by its step or its executor"
    OUTCOME_HEARD = "no branch waits for a run that has ended"
    CIRCLES_END = "a branch takes at most 256 steps without a wait for something outside"
    STEPS_BOUNDED = "a workflow run takes no more steps than its limits allow, in all and for long"
    SIGNALS_USED_ONCE = "a signal is used once, and none times out that is there"
    ROLLBACK_ORDER = "what was done is undone, the last first, before a run ends badly"
    ATTEMPTS_UNDONE = "an attempt that may have happened is undone if its step asks for that"
    WORKFLOWS_END_ONCE = "a workflow run ends once, and nothing happens in it afterwards"
    ENDS_IN_A_TERMINAL = "a workflow run ends in a terminal of its definition, as that says"
    PERMITS_BOUNDED = "no more runs of a key are under way than its workflow or action allows"
    RATES_BOUNDED = "in no second, minute or hour do more runs begin than their action allows"
    ONE_RUN_PER_RECORD = "the records that a trigger takes start one run each, or one together"
    SCHEDULES_FIRE_ONCE = "a schedule fires once for each of its times"

    # What the log may say of pipelines.
    PIPELINES_NUMBERED = "pipelines are numbered one after the other, and a key makes one"
    NODES_IN_ORDER = "a node is ready, runs and ends in this order, and ends once"
    READY_AS_SAID = "no node starts before what it waits for is there"
    ONE_WORKER_PER_NODE = "a node is with one worker at a time, and every start is the next epoch"
    NODE_LEASES_KEPT = "no node is taken from a worker before its lease is over"
    NODE_LIMITS_KEPT = "no more nodes run at a time than the limits allow"
    NODE_RETRIES_BOUNDED = "a node is tried again no more often than its policy says"
    BATCHES_STORED = "a batch is stored with the event that records it, and nothing else is"
    BATCHES_HANDED_ON = "a consumer is handed the batches of a source in order, and none twice"
    BATCH_OF_ITS_ATTEMPT = "only the attempt that has the node records batches of it"
    BATCH_DONE_ONCE = "a batch has one result in each consumer"
    NO_BATCH_SKIPPED = "a node finishes when every batch of its sources is done"
    METRICS_EXACT = "the metrics of a node are the sum over its recorded batches"
    ENDED_PIPELINES_REST = "nothing happens in a pipeline that has ended"
    PIPELINES_END_AS_SAID = "a pipeline ends when all its nodes have, and as it was told to"
    ONE_HOLDER = "an exclusive lock has one holder, and a shared one no other holder but readers"
    LOCKS_WHOLE = "a run asks for all its locks at once, and is granted all of them at once"
    LOCKS_FAIR = "nobody is granted a lock before who has waited longer, unless both share it"
    LOCK_TOKENS_GROW = "every grant has a higher token than those before it"
    LOCKS_KEPT = "locks are released when nothing is left undone, or by somebody who says why"
    LOCKED_BEFORE_EXECUTE = "nothing is executed before its run has its locks"
    UNDONE_OR_IN_LEDGER = "what was executed and is not pure is undone, or in the ledger"
    WAVES_DESCEND = "what was executed last is undone first"
    CLOSED_LEDGERS_REST = "nothing happens in a ledger that is closed"

    # What clients and workers may be answered.
    DURABLE_FIRST = "nothing is acknowledged before it is durable"
    INPUT_KEPT = "a run is handed out with the input it was made with"
    INPUTS_STORED = "the store has the large inputs of live and archived runs, and no others"
    ONE_MAKER = "at most one caller is answered that its invoke made a run"
    ONE_DELIVERY = "an attempt is handed out once, to the worker that claimed it"
    ANSWER_ORDER = "the tasks of one answer come with the highest priority first"
    RESULT_KEPT = "an acknowledged result is never lost or changed, nor is another accepted"
    REPEAT_ANSWERED = "a report that was accepted is not refused when it comes again"
    LEASE_HONOURED = "within its lease, a worker's report is accepted"
    ANSWERS_FRESH = "an answer is no older than its query, and nothing seen is unseen"
    PLACES_KEPT = "the server holds no more than it has places for, in all namespaces together"
    EXPLAINED = "nobody is told that there is no worker while one is there that could take the run"
    LISTS_WHOLE = "a list leaves nothing out, in order"
    DEAD_LISTED = "the list of dead letters shows the dead, and no others"
    DEAD_TREATED = "what is said to be requeued or purged is, and all that was to be"
    CANCELS_HEARD = "a worker that listens hears which of its tasks are cancelled, and of no others"
    WAITS_WAKE = "whoever waits for a run hears of its end"
    CLAIMS_WAKE = "no claim is sent home while there is work for it"
    POLLS_ANSWERED = "a claim that waits is answered when its time is over"
    REGISTRATION_KEPT = "a registered worker is known until it leaves"
    APPENDS_KEPT = "an acknowledged append is there, with its bytes and ids, until it is trimmed"
    READS_WHOLE = "a read by position shows every record that is kept, once and in order"
    READS_WAKE = "whoever waits for records or keys hears of them"
    DELIVERED_ONCE = "what a consumer is given was handed out to it, and is delivered once"
    NACKS_HEEDED = "what a consumer gives back, or asks more time for, is treated so"
    DEAD_LETTERS_TREATED = (
        "dead letters that are said to be requeued or purged are, and all that were to be"
    )
    GROUPS_SHOWN = "what is said of streams and groups is what the log says"
    WRITES_KEPT = "an acknowledged change of a key is in the log as it was asked for"
    CAS_HONOURED = "a change with a condition is made if it holds, and only then"
    TRANSACTIONS_WHOLE = "a transaction does all that is in it, or nothing"
    KEYS_FRESH = "a key is shown as it was since it was asked for"
    EXPIRED_UNSEEN = "a key that has expired is not seen"
    HISTORY_KEPT = "the history of a key is what was written"
    HISTORIES_WHOLE = "the history of a workflow run shows every outcome, once"
    STEPS_TOLD = "the steps of a workflow run show every call that had an outcome, once"
    ARCHIVE_REPLAYS = "an execution is found again from its archive: path, terminal and calls"
    SCANS_WHOLE = "a scan leaves nothing out, in order"
    REFUSALS_EXPLAINED = "nothing is refused without a reason the caller can know"

    # What the state of the engine may be.
    STATE_IS_THE_REFERENCE = "what is in the state is what the events of the log say"
    TALLIES_RIGHT = "counters equal a recount"
    HELD_RIGHT = "the index of holders equals a recount"
    KEYS_RIGHT = "every key of a live run leads to it"
    LISTS_RIGHT = "the indexes of lists equal a look at everything"
    MEMORY_COUNTED = "the memory that the state says it takes equals a recount"
    QUEUED_OR_DUE = (
        "every pending run is in its queue, waits for a permit, or has a due time: in one"
    )
    LEASES_DUE = "every lease has its due time, and nothing else has one"
    BACKLOG_RIGHT = "the indexes of a group's backlog equal a recount"
    PERMITS_RIGHT = "permits are with the runs that the log says have them, and none is left unused"
    DEAD_COUNTED = "the count of dead letters equals a recount"
    STORE_KEPT = "the store keeps what streams keep, and nothing of those that are gone"
    SNAPSHOT_IS_STATE = "a snapshot read back is the state it was taken of"
    REPLAY_IS_STATE = "the log replayed is the state, with a snapshot and without"

    # What must be true at the end.
    EVERY_RUN_ENDS = "once the faults are over, every run ends"
    EVERY_WORKFLOW_ENDS = "once the faults are over, every workflow run ends, or says what it needs"
    EVERY_PIPELINE_ENDS = "once the faults are over, every pipeline ends"
    EVERY_LEDGER_CLOSES = "once the faults are over, every run with blocks ends, and its locks too"
    EVERY_RECORD_SETTLES = "once the faults are over, every record of a group is settled or dead"
    ALL_ACCOUNTED_FOR = "ended and purged runs are all that were acknowledged"
    NO_ACCIDENT = "nothing fails that was not made to fail"


class Broken(AssertionError):
    def __init__(self, invariant: Invariant, evidence: tuple[object, ...]) -> None:
        super().__init__(f"{invariant.name}: {invariant}: {' '.join(map(str, evidence))}")
        self.invariant = invariant


class Checks:
    """Counts what is checked, and keeps the first that did not hold."""

    def __init__(self, on_broken: Callable[[], None] = lambda: None) -> None:
        self._on_broken = on_broken
        self.counts: Counter[Invariant] = Counter()
        self.broken: Broken | None = None

    def hold(self, invariant: Invariant, holds: bool, *evidence: object) -> None:
        """Go on if it holds; the evidence becomes text only if it does not."""
        self.counts[invariant] += 1
        if not holds:
            broken = Broken(invariant, evidence)
            self.broken = self.broken or broken
            self._on_broken()
            raise broken
