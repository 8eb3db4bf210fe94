"""Whom runs are about, as indexes of lists know it."""


def tags_of_subject(subject: str | None) -> tuple[str, ...]:
    """What runs about somebody are found by; no search attribute has such a tag."""
    return () if subject is None else (f":subject={subject}",)
