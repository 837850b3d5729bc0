"""Tests marked ``docker`` need an engine.

Without one they are skipped, or fail where PYTEST_HARBOR_REQUIRE_DOCKER=1 says that
one must be there: in CI a suite that skips them all must not look like a success.
"""

import functools
import os

import pytest


@functools.cache
def why_no_engine() -> str | None:
    import docker
    from docker.errors import DockerException

    try:
        client = docker.from_env(timeout=10)
    except DockerException as error:
        return str(error)
    try:
        client.ping()
    except (DockerException, OSError) as error:
        return str(error)
    finally:
        client.close()
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("docker") is None:
        return
    reason = why_no_engine()
    if reason is None:
        return
    message = f"no container engine answers: {reason}"
    if os.environ.get("PYTEST_HARBOR_REQUIRE_DOCKER") == "1":
        pytest.fail(message, pytrace=False)
    pytest.skip(message)
