"""Bodies about function blocks: a registration, and the ids that a poll lists."""

from typing import Any, Final, Literal

from flo.compat.neops.body import Body, Number, Part, whole

RUN_ON: Final = ("global", "device", "interface", "group", "client")
BlockKind = Literal["configure", "facts", "check", "execute", "none"]


class BlockIdBody(Body):
    """A block, named by its parts."""

    name: Part
    package: Part
    major_version: Number
    minor_version: Number
    patch_version: Number

    @property
    def version(self) -> str:
        numbers = (self.major_version, self.minor_version, self.patch_version)
        return ".".join(str(whole(number, "version")) for number in numbers)

    @property
    def id(self) -> str:
        """`package/name:major.minor.patch`."""
        return f"{self.package}/{self.name}:{self.version}"


class RegisterBlockBody(BlockIdBody):
    description: str
    fb_type: BlockKind
    parameter_json_schema: dict[str, Any]
    result_data_json_schema: dict[str, Any]
    worker_id: str | None = None
    run_on: str | None = None
    markdown_help_text: str | None = ""
    deprecated: bool | None = None
    is_idempotent: bool | None = None
    is_pure: bool | None = None
    reversible: bool | None = None
    """Left out by workers older than 0.2.0b6: then it is not."""


class BlockAnswer(Body):
    id: str
    package: str
    name: str
    major_version: int
    minor_version: int
    patch_version: int
    run_on: str
    fb_type: str
    description: str
    markdown_help_text: str
    deprecated: bool
    parameter_json_schema: dict[str, Any]
    result_data_json_schema: dict[str, Any]
    is_idempotent: bool
    is_pure: bool
    reversible: bool
    created_at: str
    updated_at: str
    deleted_at: str | None = None
