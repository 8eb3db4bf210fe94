"""Consumer groups: what the machine knows of them."""

from flo.engine.due import GROUP
from flo.engine.feature import Feature
from flo.engine.groups import dead_letters, long_polls, lookups, observations, queries, reads, rules
from flo.engine.groups.events import (
    ConsumerChosen,
    ConsumerHeard,
    ConsumerJoined,
    ConsumerLeft,
    GroupCreated,
    GroupDeleted,
    LetterPurged,
    LetterRevived,
    RecordDied,
    RecordsAcked,
    RecordsDelivered,
    RecordsReleased,
    RecordsReturned,
    RecordsTouched,
)
from flo.engine.groups.snapshot import SNAPSHOT
from flo.model.groups import (
    Ack,
    ClaimRecords,
    CreateGroup,
    DeleteGroup,
    GetGroup,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    ListLetters,
    ListPending,
    Nack,
    PurgeLetters,
    ReadGroup,
    RequeueLetters,
    TouchRecords,
)

FEATURE = Feature(
    rules={
        CreateGroup: rules.decide_create,
        DeleteGroup: rules.decide_delete,
        JoinGroup: rules.decide_join,
        LeaveGroup: rules.decide_leave,
        ReadGroup: reads.decide_read,
        ClaimRecords: reads.decide_claim,
        Ack: rules.decide_ack,
        Nack: rules.decide_nack,
        TouchRecords: rules.decide_touch,
        RequeueLetters: dead_letters.decide_requeue,
        PurgeLetters: dead_letters.decide_purge,
    },
    folds={
        GroupCreated: rules.apply_created,
        GroupDeleted: rules.apply_deleted,
        ConsumerJoined: rules.apply_joined,
        ConsumerLeft: rules.apply_left,
        ConsumerChosen: rules.apply_chosen,
        RecordsDelivered: rules.apply_delivered,
        RecordsAcked: rules.apply_acked,
        RecordsReturned: rules.apply_returned,
        RecordsReleased: rules.apply_released,
        RecordsTouched: rules.apply_touched,
        RecordDied: dead_letters.apply_died,
        LetterRevived: dead_letters.apply_revived,
        LetterPurged: dead_letters.apply_purged,
    },
    queries={
        GetGroup: queries.get_group,
        ListGroups: queries.list_groups,
        ListPending: queries.list_pending,
        ListLetters: queries.list_letters,
    },
    lookups=lookups.LOOKUPS,
    long_polls=long_polls.LONG_POLLS,
    wakes=long_polls.WAKES,
    archives={
        RecordDied: dead_letters.archive_letter,
    },
    removals={
        LetterRevived: dead_letters.address_of,
        LetterPurged: dead_letters.address_of,
    },
    due={GROUP: rules.fall_due},
    observations={ConsumerHeard: observations.observe_heard},
    snapshot=SNAPSHOT,
)
