"""What our tests and our users' tests import; it needs flo-runtime[server]."""

from flo.model.errors import needs_extra

with needs_extra("server", "flo.testing"):
    import sortedcontainers as _sortedcontainers  # noqa: F401
    import structlog as _structlog  # noqa: F401
