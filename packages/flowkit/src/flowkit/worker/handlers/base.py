"""What a handler is made of; the same classes as in `flo`."""

from flo import Batch, BatchResult, FinalizeResult, RoleHandler, RunContext

Handler = RoleHandler

__all__ = ["Batch", "BatchResult", "FinalizeResult", "Handler", "RoleHandler", "RunContext"]
