"""Bodies about workflows: publishing a definition, and starting and showing an execution."""

from typing import Any

import msgspec

from flo.compat.neops.body import Body, Number


class PublishBody(Body):
    """A definition, and how it is published; a bare definition is one too."""

    workflow: msgspec.Raw = msgspec.Raw()
    dry_run: bool | None = None
    increment: bool | None = None


class PublishAnswer(Body, omit_defaults=True):
    version: str
    bump: str | None
    floor: str | None
    findings: list[dict[str, Any]]
    id: str | None = None
    status: str | None = None
    would_status: str | None = None
    dry_run: bool | None = None


class PublishRefusal(Body):
    status_code: int
    error: str
    message: str
    hint: str
    suggested_version: str | None = None
    findings: list[dict[str, Any]] = msgspec.field(default_factory=list)


class DefinitionAnswer(Body):
    id: str
    package: str
    name: str
    major_version: int
    minor_version: int
    patch_version: int
    workflow_definition: dict[str, Any]
    created_at: str
    updated_at: str
    deleted_at: str | None = None


class ExecuteOn(Body):
    ids: list[Number] | None = None
    query: str | None = None


class ExecuteBody(Body):
    workflow: str
    execute_on_parameters: ExecuteOn = msgspec.field(default_factory=ExecuteOn)
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    workflow_execution_id: str | None = None


class ExecutionAnswer(Body):
    uuid: str
    workflow_id: str
    workflow_name: str
    status: str
    created_at: str
    updated_at: str
    reason: str | None = None
    finished_at: str | None = None
