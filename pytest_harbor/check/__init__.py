"""Static checks of a task: read, judged, never run.

One small module a family, and a table of them all in :mod:`pytest_harbor.check.registry`.
Standard library, pydantic's models of the task and a parser of shell scripts; no pytest, no
Docker.
"""
