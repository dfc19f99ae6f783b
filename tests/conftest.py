"""What holds for every test."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A machine may be as slow as it likes: how long an example takes to make or to run says nothing.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")
