"""The table of our options: one entry each, for the command line and the ini file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from pytest_harbor.plugin.benchmark_options import ROWS as BENCHMARK_ROWS
from pytest_harbor.plugin.best_of_options import ROWS as BEST_OF_ROWS
from pytest_harbor.plugin.ci_options import ROWS as CI_ROWS
from pytest_harbor.plugin.dataset_options import ROWS as DATASET_ROWS
from pytest_harbor.plugin.network_options import (
    endpoint,
    engine_name,
    host_entry,
    image_name,
    network_mode,
)
from pytest_harbor.plugin.option_values import (
    above_zero,
    assignment,
    finite,
    gateway_choice,
    image_template,
    keep_choice,
    model_name,
    non_empty,
    plain_name,
    tamper_choice,
    variable,
    variable_at_hand,
    whole_from_one,
)

COMMAND_AGENT = "command"
"""Name of the agent that runs ``--harbor-agent-command``."""


class Option(NamedTuple):
    """One option and its ini twin.

    Attributes:
        flag: The option's name on the command line.
        help: Help text of both.
        parse: Checks and converts one value.
        ini: pytest's type of the ini value.
        metavar: Name of the value in the help; None for a switch.
        parse_ini: Replaces ``parse`` for values of the ini file.
        bare: Value of an option that is given without one.
    """

    flag: str
    help: str
    parse: Callable[[str], Any] | None
    ini: Literal["string", "bool", "args", "int", "float"]
    metavar: str | None = None
    parse_ini: Callable[[str], Any] | None = None
    bare: str | None = None

    @property
    def name(self) -> str:
        """Name of the ini value and of the attribute of ``config.option``."""
        return self.flag.removeprefix("--").replace("-", "_")


OPTIONS = (
    Option(
        "--harbor-agent",
        "Agent that works on the tasks, repeatable: a built-in name, package.module:Class, "
        "or a name from an entry point (default: oracle)",
        plain_name,
        "args",
        "NAME",
    ),
    Option(
        "--harbor-agent-command",
        f"Shell command run in the environment as the agent named {COMMAND_AGENT!r}",
        non_empty,
        "string",
        "CMD",
    ),
    Option(
        "--harbor-model",
        "Model that the agents use, repeatable; the oracle and nop use none",
        model_name,
        "args",
        "PROVIDER/NAME",
    ),
    Option(
        "--harbor-agent-kwarg",
        "Keyword argument for the agents, repeatable; the value is read as JSON, else as "
        "True, False or None, else as text",
        assignment,
        "args",
        "KEY=VALUE",
    ),
    Option(
        "--harbor-agent-env",
        "Environment variable for the agents, repeatable; KEY alone, or a value ${VAR}, "
        "takes it from this process",
        variable_at_hand,
        "args",
        "KEY[=VALUE]",
        parse_ini=variable,
    ),
    Option(
        "--harbor-attempts",
        "Attempts per task, agent and model (default: 1)",
        whole_from_one,
        "int",
        "N",
    ),
    Option(
        "--harbor-threshold", "Reward at which a trial passes (default: 1.0)", finite, "float", "X"
    ),
    Option(
        "--harbor-reward-key",
        "Key of the reward that is held against the threshold (default: 'reward' where "
        "present, else every key)",
        non_empty,
        "string",
        "KEY",
    ),
    Option(
        "--harbor-tasks",
        "Tasks to keep, repeatable: a glob for the task's path below the root folder, its "
        "folder's name or its name (default: all)",
        non_empty,
        "args",
        "GLOB",
    ),
    Option(
        "--harbor-output",
        "Folder in which jobs are written (default: jobs in the root folder)",
        non_empty,
        "string",
        "DIR",
    ),
    Option(
        "--harbor-timeout-multiplier",
        "Multiply every time limit of a task (default: 1)",
        above_zero,
        "float",
        "X",
    ),
    *(
        Option(
            flag,
            f"Multiply the time limit of {what} (default: --harbor-timeout-multiplier)",
            above_zero,
            "float",
            "X",
        )
        for flag, what in (
            ("--harbor-agent-timeout-multiplier", "the agent"),
            ("--harbor-verifier-timeout-multiplier", "the verifier"),
            ("--harbor-setup-timeout-multiplier", "the agent's set-up"),
            ("--harbor-build-timeout-multiplier", "the environment's build and start"),
        )
    ),
    Option(
        "--harbor-resource-multiplier",
        "Multiply CPU, memory and disk of a task, not its GPUs (default: 1)",
        above_zero,
        "float",
        "X",
    ),
    Option(
        "--harbor-image",
        "Prebuilt image for every task's environment; {task} stands for the task's short name "
        "(default: the task's own image or Dockerfile)",
        image_template,
        "string",
        "TEMPLATE",
    ),
    Option(
        "--harbor-verifier-image",
        "Prebuilt image for the environment of every separate verifier, as --harbor-image",
        image_template,
        "string",
        "TEMPLATE",
    ),
    Option(
        "--harbor-ignore-dockerfile",
        "Build no Dockerfile: use the task's docker_image or --harbor-image, also with "
        "--harbor-rebuild; a verifier that has only a Dockerfile gets the environment's image",
        None,
        "bool",
    ),
    Option(
        "--harbor-ignore-separate-verifier",
        "Grade every task in the agent's environment, which the agent may have tampered with",
        None,
        "bool",
    ),
    Option(
        "--harbor-network",
        "What trials may reach: public, no-network or allowlist; a phase reaches only what its "
        "task allows, too (default: what the task allows). Of the command line and the ini file "
        "only what both allow; -o harbor_network=MODE replaces the ini file's",
        network_mode,
        "string",
        "MODE",
    ),
    Option(
        "--harbor-allow-host",
        "Host that trials may reach where their task allows it, repeatable: a name, *.suffix, an "
        "IP address or a CIDR network, without a port; means --harbor-network=allowlist. Of the "
        "command line's hosts and the ini file's only what both allow",
        host_entry,
        "args",
        "HOST",
    ),
    Option(
        "--harbor-deny-host",
        "Host that no trial reaches, repeatable, as --harbor-allow-host; adds to the ini file's",
        host_entry,
        "args",
        "HOST",
    ),
    Option(
        "--harbor-endpoint",
        "Server of the run's own that trials reach under every policy, as a model's API, "
        "repeatable; host.docker.internal is the engine's machine",
        endpoint,
        "args",
        "URL|HOST:PORT",
    ),
    Option(
        "--harbor-uplink",
        "The engine's network through which trials reach the outside (default: the run's own)",
        engine_name,
        "string",
        "NETWORK",
    ),
    Option(
        "--harbor-gateway-image",
        "Ready image of the gateway that restricts networks, for engines that cannot build it",
        image_name,
        "string",
        "IMAGE",
    ),
    Option(
        "--harbor-runtime",
        "The engine's runtime for the tasks' containers, as runsc (default: the engine's)",
        engine_name,
        "string",
        "NAME",
    ),
    Option(
        "--harbor-hardened",
        "Programs in containers may not gain rights by set-id bits; breaks sudo and su",
        None,
        "bool",
    ),
    Option(
        "--harbor-gateway",
        "Whether agents in containers call their model through the model gateway on this machine, "
        "which keeps the keys and records the calls: auto (those that can), on or off "
        "(default: auto)",
        gateway_choice,
        "string",
        "auto|on|off",
    ),
    Option(
        "--harbor-max-calls",
        "Model calls that one trial may make through the model gateway (default: no limit)",
        whole_from_one,
        "int",
        "N",
    ),
    Option(
        "--harbor-max-tokens",
        "Tokens, read and written, that one trial may take through the model gateway "
        "(default: no limit)",
        whole_from_one,
        "int",
        "N",
    ),
    Option(
        "--harbor-max-cost",
        "US dollars that one trial may cost at the model gateway; for models with a known price "
        "(default: no limit)",
        above_zero,
        "float",
        "USD",
    ),
    Option(
        "--harbor-prices",
        "TOML file with prices of models, which come before the known ones: a table "
        '["provider/model"] each, with input and output in US dollars per million tokens',
        non_empty,
        "string",
        "FILE",
    ),
    Option(
        "--harbor-isolate",
        "Grade every shared verifier in a fresh container made from the agent's files, in which "
        "what a verifier relies on comes from the image again",
        None,
        "bool",
    ),
    Option(
        "--harbor-isolate-except",
        "Tasks that --harbor-isolate leaves out since what the agent leaves running is graded, "
        "repeatable: a glob for the task's name, folder's name or path",
        non_empty,
        "args",
        "GLOB",
    ),
    Option(
        "--harbor-on-tamper",
        "What becomes of a trial with signs of tampering that were not undone: fail, or report "
        "them alone (default: report; fail with --harbor-isolate)",
        tamper_choice,
        "string",
        "report|fail",
    ),
    Option("--harbor-rebuild", "Build images again", None, "bool"),
    Option(
        "--harbor-allow-privileged",
        "Let a task's compose file ask for rights over this machine: privileged, mounts of "
        "the host, its namespaces and devices",
        None,
        "bool",
    ),
    Option(
        "--harbor-strict-collect",
        "A collect hook that fails is the task's fault, not only a line in the trial's log",
        None,
        "bool",
    ),
    *(
        Option(flag, f"After the run write {what}", non_empty, "string", "FILE")
        for flag, what in (
            ("--harbor-html", "a report of the job: one HTML file with nothing from outside"),
            ("--harbor-csv", "a table of the job's trials"),
            (
                "--harbor-jsonl",
                "the job's trials with their trajectories, as the verifiers library does",
            ),
            ("--harbor-json", "the job's numbers, each with what it counts and leaves out"),
        )
    ),
    Option(
        "--harbor-baseline",
        "Folder of an earlier job: show what got better, worse or flaky since, in the summary and "
        "the report",
        non_empty,
        "string",
        "JOB",
    ),
    Option(
        "--harbor-resume",
        "Go on with the latest job, or with JOB: what has a result in it is reported, and the rest "
        "run",
        non_empty,
        "string",
        "JOB",
        bare="latest",
    ),
    *(Option(*row) for row in (*CI_ROWS, *DATASET_ROWS, *BENCHMARK_ROWS, *BEST_OF_ROWS)),
    Option("--harbor-ignore-timeouts", "Let every phase take as long as it likes", None, "bool"),
    Option(
        "--harbor-strict",
        "Warnings about a task's files are errors of that task",
        None,
        "bool",
    ),
    Option(
        "--harbor-progress",
        "Whether a terminal shows which trials run and where each is: auto (not in CI, not with "
        "-qq or -s), on or off (default: auto)",
        gateway_choice,
        "string",
        "auto|on|off",
    ),
    Option(
        "--harbor-keep",
        "Keep the environments of failed trials, or of all, and print how to enter and remove them",
        keep_choice,
        "string",
        "failed|all",
        bare="failed",
    ),
)
