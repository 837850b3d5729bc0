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
