"""The texts and numbers that documents hold, with their bounds."""

from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from flo.model.ids import DURATION_MS_MAX

ITEMS_MAX: Final = 10_000
COUNT_MAX: Final = 1_000_000
NAME_LENGTH_MAX: Final = 256
Duration: TypeAlias = Annotated[int, Meta(ge=0, le=DURATION_MS_MAX, extra={"kind": "duration"})]
"""Milliseconds; the document may also write `30s`, `5m`, `1h30m`, `7d`."""
PositiveDuration: TypeAlias = Annotated[
    int, Meta(ge=1, le=DURATION_MS_MAX, extra={"kind": "duration"})
]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=COUNT_MAX)]
JsonText: TypeAlias = Annotated[str, Meta(extra={"kind": "json"})]
"""JSON as text. The document may write it as text, or as plain YAML, which becomes such a text."""
PathText: TypeAlias = Annotated[str, Meta(extra={"kind": "path"})]
"""A path such as `$.input.customers`."""
TemplateText: TypeAlias = Annotated[str, Meta(extra={"kind": "template"})]
"""Text with places to fill: `charge:{input.customer_id}`."""
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=NAME_LENGTH_MAX)]
