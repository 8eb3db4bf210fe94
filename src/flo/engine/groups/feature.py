"""Consumer groups: what the machine knows of them."""

from flo.engine.due import GROUP
from flo.engine.feature import Feature
from flo.engine.groups import dead_letters, reads, rules
from flo.engine.groups.events import (
    ConsumerChosen,
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
from flo.model.groups import (
    Ack,
    ClaimRecords,
    CreateGroup,
    DeleteGroup,
    JoinGroup,
    LeaveGroup,
    ListLetters,
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
        ListLetters: dead_letters.list_letters,
    },
    archives={
        RecordDied: dead_letters.archive_letter,
    },
    removals={
        LetterRevived: dead_letters.address_of,
        LetterPurged: dead_letters.address_of,
    },
    due={GROUP: rules.fall_due},
)
