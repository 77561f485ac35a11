"""Property tests run the same examples every time, and are not timed: the machine may be busy."""

from hypothesis import settings

settings.register_profile("equivalence", derandomize=True, deadline=None)
settings.load_profile("equivalence")
