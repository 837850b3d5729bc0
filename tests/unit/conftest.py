"""Settings of generated tests."""

from hypothesis import settings

# A busy machine is not a slow parser.
settings.register_profile("pytest-harbor", deadline=None)
settings.load_profile("pytest-harbor")
