"""The bytes of every event of blocks, as they are in every log."""

from flo.engine.blocks.events import (
    BlockDeleted,
    BlockRegistered,
    EntryAttempted,
    EntryExecuted,
    EntryOpened,
    EntryRollbackBegan,
    EntrySettled,
    LedgerClosed,
    LedgerEnded,
    LedgerOpened,
    LocksGranted,
    LocksReleased,
    LocksRequested,
    ResourcesAcquired,
)
from flo.engine.blocks.records import BlockRecord, Ledger, LedgerEntry
from flo.model.blocks.ledger import EntryState, LedgerState, UnsafeCause
from flo.model.blocks.names import LockMode

OF_RUN = {"namespace": "n", "run_id": "wfrun-1"}
ENTRY = LedgerEntry(
    number=1,
    branch="",
    step="s",
    visit=1,
    block="p/b:1.2.3",
    wave=1,
    job="block:p:b:1.2.3:execute-1",
    parameters=b"{}",
)

OF_BLOCKS = [
    (
        BlockRegistered(
            namespace="n",
            block=BlockRecord(package="p", name="b", version=(1, 2, 3), parameter_schema="{}"),
        ),
        b"\x91\x93\xafBlockRegistered\xa1n\xdc\x00\x12\xa1p\xa1b\x93\x01\x02\x03\xa0\xa0\xa6global\xa7execute\xc2\xa2{}\xc0\xc2\xc2\xc2\xce\x00\x04\x93\xe0\xa7requeue\x03\x00\x00",
    ),
    (
        BlockDeleted(namespace="n", block="p/b:1.2.3", at_ms=5),
        b"\x91\x94\xacBlockDeleted\xa1n\xa9p/b:1.2.3\x05",
    ),
    (
        LedgerOpened(
            namespace="n",
            ledger=Ledger(
                run_id="wfrun-1",
                workflow="w",
                family="wfrun-1",
                blocks={"s": "p/b:1.2.3"},
                acquiring=("block:p:b:1.2.3:acquire-1",),
                entity=("device", 7),
            ),
            at_ms=5,
        ),
        b"\x91\x94\xacLedgerOpened\xa1n\x9b\xa7wfrun-1\xa1w\xa7wfrun-1\xa9acquiring\xc0\x81\xa1s\xa9p/b:1.2.3\x91\xb9block:p:b:1.2.3:acquire-1\x80\xc0\x92\xa6device\x07\x90\x05",
    ),
    (
        ResourcesAcquired(**OF_RUN, job="j-1", locks={"k": LockMode.SHARED}, at_ms=5),
        b"\x91\x96\xb1ResourcesAcquired\xa1n\xa7wfrun-1\xa3j-1\x81\xa1k\xa6shared\x05",
    ),
    (
        LocksRequested(**OF_RUN, keys={"k": LockMode.EXCLUSIVE}, at_ms=5),
        b"\x91\x95\xaeLocksRequested\xa1n\xa7wfrun-1\x81\xa1k\xa9exclusive\x05",
    ),
    (
        LocksGranted(**OF_RUN, token=3, at_ms=5),
        b"\x91\x95\xacLocksGranted\xa1n\xa7wfrun-1\x03\x05",
    ),
    (
        LocksReleased(**OF_RUN, at_ms=5, keys=("k",), reason="r"),
        b"\x91\x96\xadLocksReleased\xa1n\xa7wfrun-1\x05\x91\xa1k\xa1r",
    ),
    (
        EntryOpened(**OF_RUN, entry=ENTRY, at_ms=5),
        b"\x91\x95\xabEntryOpened\xa1n\xa7wfrun-1\xdc\x00\x11\x01\xa0\xa1s\x01\xa9p/b:1.2.3\x01\xb9block:p:b:1.2.3:execute-1\xc4\x02{}\xa4open\xc0\xc2\xc4\x04null\xc4\x00\xc0\xc0\xc0\xc0\x05",
    ),
    (
        EntryAttempted(**OF_RUN, number=1, at_ms=5),
        b"\x91\x95\xaeEntryAttempted\xa1n\xa7wfrun-1\x01\x05",
    ),
    (
        EntryExecuted(**OF_RUN, number=1, outcome="success", at_ms=5, data=b"1"),
        b"\x91\x9a\xadEntryExecuted\xa1n\xa7wfrun-1\x01\xa7success\x05\xa4open\xc4\x011\xc4\x00\xc0",
    ),
    (
        EntryRollbackBegan(**OF_RUN, number=1, job="j-1", at_ms=5),
        b"\x91\x96\xb2EntryRollbackBegan\xa1n\xa7wfrun-1\x01\xa3j-1\x05",
    ),
    (
        EntrySettled(**OF_RUN, number=1, state=EntryState.RESOLVED, at_ms=5, error="e", note="n"),
        b"\x91\x98\xacEntrySettled\xa1n\xa7wfrun-1\x01\xa8resolved\x05\xa1e\xa1n",
    ),
    (
        LedgerEnded(**OF_RUN, cause=UnsafeCause.ROLLBACK_FAILED, at_ms=5),
        b"\x91\x95\xabLedgerEnded\xa1n\xa7wfrun-1\xafrollback_failed\x05",
    ),
    (
        LedgerClosed(**OF_RUN, state=LedgerState.FAILED_SAFE, at_ms=5),
        b"\x91\x95\xacLedgerClosed\xa1n\xa7wfrun-1\xabfailed_safe\x05",
    ),
]
