"""How every test is run: the dice of hypothesis always fall the same way, and nothing is kept."""

from hypothesis import settings

settings.register_profile("flo", deadline=None, derandomize=True, database=None)
settings.load_profile("flo")
