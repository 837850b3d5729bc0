"""A project without tasks pays nothing for the plugin."""

import sys

HEAVY = ("docker", "pydantic", "tomli", "requests", "pathspec", "filelock")


def test_a_run_without_tasks_loads_nothing_heavy(project):
    project.pytester.makepyfile(f"""
        import sys

        def test_modules():
            loaded = [name for name in {HEAVY!r} if name in sys.modules]
            assert "pytest_harbor.plugin.collect" in sys.modules
            assert loaded == []
        """)
    project.pytester.run(sys.executable, "-m", "pytest").assert_outcomes(passed=1)


def test_reading_tasks_loads_no_docker(project):
    project.task("hello")
    project.conftest("""
def pytest_collection_finish():
    import sys
    print("docker loaded:", "docker" in sys.modules)
""")
    result = project.pytester.run(sys.executable, "-m", "pytest", "--collect-only")
    result.stdout.fnmatch_lines(["*docker loaded: False*"])


def test_a_trial_loads_neither_asyncio_nor_readers_of_agents_logs(project):
    """They are for some agents; each worker would load them for its first trial."""
    code = (
        "import sys, pytest_harbor.plugin.trial_of_item; "
        "print([name for name in ('asyncio', 'pytest_harbor.result.agent_logs') "
        "if name in sys.modules])"
    )
    result = project.pytester.run(sys.executable, "-c", code)
    result.stdout.fnmatch_lines(["[[]]"])
