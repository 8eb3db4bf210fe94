"""How every test is run: hypothesis draws the same values each time and keeps none of them."""

import signal

from hypothesis import settings

settings.register_profile("flo", deadline=None, derandomize=True, database=None)
settings.load_profile("flo")

# A job started in the background ignores SIGINT and so does what it starts; with a handler here,
# the processes that tests start begin with the default one.
signal.signal(signal.SIGINT, signal.default_int_handler)
