"""Queries about consumer groups: what is pending, and what is dead."""

from flo.engine.context import Context
from flo.engine.dead_letters import page_of_dead
from flo.engine.groups.lookups import found_dead, pending_wanted
from flo.engine.groups.rules import group_of
from flo.engine.lists.paging import page_of, parse_number
from flo.engine.state import ConsumerGroupState, State, StreamState
from flo.engine.streams.rules import named_stream
from flo.model.groups import (
    ConsumerView,
    DeadRecordPage,
    DeadRecordView,
    GetGroup,
    GroupPage,
    GroupView,
    ListDeadRecords,
    ListGroups,
    ListPending,
    PendingPage,
    PendingView,
)
from flo.model.ids import GroupName, Namespace, StreamName


def get_group(state: State, query: GetGroup, context: Context) -> GroupView:
    group = group_of(state, query)
    stream = state.spaces[query.namespace].streams[query.stream]
    return _group_view(query.namespace, query.stream, stream, query.group, group)


def list_groups(state: State, query: ListGroups, context: Context) -> GroupPage:
    stream = named_stream(state.space(query.namespace), query.stream)
    names, cursor = page_of(stream.groups, query)
    views = [
        _group_view(query.namespace, query.stream, stream, name, stream.groups[name])
        for name in names
    ]
    return GroupPage(items=views, cursor=cursor)


def list_pending(state: State, query: ListPending, context: Context) -> PendingPage:
    group = group_of(state, query)
    stream = state.spaces[query.namespace].streams[query.stream]
    wanted = pending_wanted(group, query)
    views: list[PendingView] = []
    for sequence in wanted[: query.limit]:
        record = context.records.record(stream.number, sequence)
        if record is None:
            break
        delivery = group.backlog.deliveries[sequence]
        assert delivery.consumer is not None
        assert delivery.delivered_at_ms is not None
        assert delivery.until_ms is not None
        views.append(
            PendingView(
                stream_id=record.stream_id,
                consumer=delivery.consumer,
                deliveries=delivery.deliveries,
                delivered_at_ms=delivery.delivered_at_ms,
                until_ms=delivery.until_ms,
            )
        )
    more = len(wanted) > len(views)
    return PendingPage(items=views, cursor=views[-1].stream_id if views and more else None)


def list_dead(state: State, query: ListDeadRecords, context: Context) -> DeadRecordPage:
    group_of(state, query)
    if query.cursor is not None:
        parse_number(query.cursor)
    dead, cursor = page_of_dead(found_dead(state, query, context), query.limit)
    views = [
        DeadRecordView(record=one.record, deliveries=one.deliveries, died_at_ms=one.at_ms)
        for one in dead
    ]
    return DeadRecordPage(items=views, cursor=cursor)


def _group_view(
    namespace: Namespace,
    stream_name: StreamName,
    stream: StreamState,
    name: GroupName,
    group: ConsumerGroupState,
) -> GroupView:
    held = group.backlog.held
    pending = sum(len(sequences) for sequences in held.values())
    return GroupView(
        name=name,
        stream=stream_name,
        namespace=namespace,
        settings=group.settings,
        created_at_ms=group.created_at_ms,
        lag=stream.next - group.next,
        pending=pending,
        waiting=len(group.backlog) - pending,
        dead=group.dead_count,
        consumers=[
            ConsumerView(
                name=consumer,
                joined_at_ms=joined_at_ms,
                pending=len(held.get(consumer, ())),
                is_chosen=consumer == group.chosen,
            )
            for consumer, joined_at_ms in sorted(group.consumers.items())
        ],
    )
