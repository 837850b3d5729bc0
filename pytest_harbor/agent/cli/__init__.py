"""Agents that are command line tools, run inside the task's environment.

Each is described by one :class:`pytest_harbor.agent.cli.entry.CliEntry`;
:class:`pytest_harbor.agent.cli.agent.CliAgent` does the rest.
"""
