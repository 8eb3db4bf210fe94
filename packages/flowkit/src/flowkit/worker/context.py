"""RunContext, as in `flo`."""

from flo import RunContext as RunContext
