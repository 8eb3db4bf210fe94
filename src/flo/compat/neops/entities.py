"""The entities of a job's context, as strict as the published worker reads them.

One field of a wrong type makes the worker throw away the whole answer of a poll, and the jobs in it
are lost; so a job is checked against these types before it is claimed. All fields but `id` may be
left out.
"""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from flo.compat.neops.body import Body, Number

EntityId: TypeAlias = Annotated[int, msgspec.Meta(ge=1)] | Annotated[float, msgspec.Meta(ge=1)]
ConnectionState: TypeAlias = Literal["AUTHFAILURE", "NEW", "NOSSH", "OK", "UNREACHABLE"]
InterfaceState: TypeAlias = Literal["ADMINISTRATIVE_SHUTDOWN", "DOWN", "ERROR_DISABLED", "UP"]
Objects: TypeAlias = list[dict[str, Any]] | None


class EntityReference(Body):
    id: EntityId


class PlatformEntity(Body):
    id: EntityId | None = None
    name: str | None = None
    short_name: str | None = None
    vendor: str | None = None


class DeviceEntity(Body):
    id: EntityId
    active_lock_counts: Number | None = None
    check_elements: Objects = None
    password: str | None = None
    checks: str | None = None
    config_versions: Objects = None
    connection_options: str | None = None
    connection_state: ConnectionState | None = None
    controller: EntityReference | None = None
    created_at: datetime | None = None
    current_configuration: str | None = None
    deleted_at: datetime | None = None
    device_execution: Objects = None
    device_execution_results: Objects = None
    devices: list[EntityReference] | None = None
    external_reference: str | None = None
    fact_elements: Objects = None
    facts: dict[str, Any] | None = None
    first_seen_at: datetime | None = None
    group_count: Number | None = None
    groups: list[EntityReference] | None = None
    hostname: str | None = None
    interface_count: Number | None = None
    interfaces: list[EntityReference] | None = None
    inventory_updated_at: datetime | None = None
    ip: str | None = None
    is_read_locked: bool | None = None
    is_write_locked: bool | None = None
    last_configuration: str | None = None
    model: str | None = None
    permission: Number | None = None
    permission_flags: list[str] | None = None
    platform: PlatformEntity | None = None
    serial: str | None = None
    software_release: str | None = None
    updated_at: datetime | None = None
    username: str | None = None
    vendor: str | None = None


class GroupEntity(Body):
    id: EntityId
    active_lock_counts: Number | None = None
    check_elements: Objects = None
    checks: dict[str, Any] | None = None
    created_at: datetime | None = None
    deleted_at: datetime | None = None
    device_count: Number | None = None
    device_group_execution_results: Objects = None
    devices: list[EntityReference] | None = None
    fact_elements: Objects = None
    facts: dict[str, Any] | None = None
    is_read_locked: bool | None = None
    is_write_locked: bool | None = None
    location: dict[str, Any] | None = None
    permission: Number | None = None
    permission_flags: list[str] | None = None
    role_permissions: Objects = None
    title: str | None = None
    updated_at: datetime | None = None
    name: str | None = None
    description: str | None = None


class InterfaceEntity(Body):
    id: EntityId
    name: str | None = None
    state: InterfaceState | None = None
    check_elements: dict[str, Any] | None = None
    checks: dict[str, Any] | None = None
    client_count: Number | None = None
    clients: list[EntityReference] | None = None
    config_versions: Objects = None
    created_at: datetime | None = None
    current_configuration: str | None = None
    deleted_at: datetime | None = None
    description: str | None = None
    device: EntityReference | None = None
    fact_elements: Objects = None
    facts: dict[str, Any] | None = None
    ifindex: Number | None = None
    interface: EntityReference | None = None
    interface_execution_results: Objects = None
    last_configuration: str | None = None
    name_sorting: str | None = None
    neighbor_for_deletion: dict[str, Any] | None = None
    permission: Number | None = None
    permission_flags: list[str] | None = None
    updated_at: datetime | None = None


class ContextBody(Body):
    """All three lists are required; they may be empty."""

    devices: list[DeviceEntity]
    device_groups: list[GroupEntity]
    interfaces: list[InterfaceEntity]
