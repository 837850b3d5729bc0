"""SWE-agent 1.1.0, written after its documentation; its code is on a code host alone."""

from __future__ import annotations

from pytest_harbor.agent.cli.entry import CliEntry, Connection, Option, PipPackage

_SOURCE = "/installed-agent/swe-agent/source"

ENTRY = CliEntry(
    name="swe-agent",
    version="1.1.0",
    package=PipPackage(
        "sweagent",
        packages=("git",),
        python=((3, 11), (3, 14)),
        more=("litellm[mcp]",),  # without it, some versions of LiteLLM call no tools
        repository="https://github.com/SWE-agent/SWE-agent.git",
    ),
    binary="sweagent",
    connections={
        "openai": Connection({"OPENAI_API_KEY": "{key}"}, model="openai/{name}"),
        "anthropic": Connection({"ANTHROPIC_API_KEY": "{key}"}, model="anthropic/{name}"),
    },
    # It works on a repository alone, which it resets to its last commit before it begins.
    command=(
        'sweagent run --agent.model.name="$HARBOR_MODEL" --agent.model.api_base="$HARBOR_BASE_URL"'
        ' --problem_statement.path="$HARBOR_INSTRUCTION_FILE" --env.deployment.type=local'
        ' --env.repo.type=preexisting --env.repo.repo_name="$PWD"'
        f" --config={_SOURCE}/config/default.yaml --output_dir=/logs/agent/swe-agent-output"
        " --agent.model.per_instance_cost_limit=0 --agent.model.total_cost_limit=0"
        " {flags} < /dev/null"
    ),
    env={
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "SWE_AGENT_CONFIG_DIR": f"{_SOURCE}/config",
        "SWE_AGENT_TOOLS_DIR": f"{_SOURCE}/tools",
        "SWE_AGENT_TRAJECTORY_DIR": "/tmp/swe-agent-trajectories",
    },
    options={
        "per_instance_cost_limit": Option("--agent.model.per_instance_cost_limit={value}"),
        "total_cost_limit": Option("--agent.model.total_cost_limit={value}"),
        "max_input_tokens": Option("--agent.model.max_input_tokens={value}"),
        "temperature": Option("--agent.model.temperature={value}"),
        "top_p": Option("--agent.model.top_p={value}"),
        "completion_kwargs": Option("--agent.model.completion_kwargs={value}"),
    },
    before='mkdir -p "$SWE_AGENT_TRAJECTORY_DIR"',
    supports_mcp=False,
    supports_skills=False,
)
