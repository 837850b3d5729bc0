"""A box that is a compose project: ``main``, and the services that live beside it."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pytest_harbor.environment.base import Environment
from pytest_harbor.environment.docker import capabilities
from pytest_harbor.environment.docker.archive import UploadArchive
from pytest_harbor.environment.docker.attach import Deadline, DeadlinePassedError
from pytest_harbor.environment.docker.client import Engine
from pytest_harbor.environment.docker.compose_cli import (
    CONFIG_LIMIT_SEC,
    ComposeCli,
    dump_model,
    parse_model,
    require_compose,
)
from pytest_harbor.environment.docker.compose_guard import guarded
from pytest_harbor.environment.docker.compose_images import ImageMaker
from pytest_harbor.environment.docker.compose_model import (
    MAIN,
    Adjusted,
    Copied,
    Settings,
    adjust,
    base_file,
    name_servers,
)
from pytest_harbor.environment.docker.compose_policy import REMEDY, Refusal, refusals, ways_out
from pytest_harbor.environment.docker.compose_project import Project
from pytest_harbor.environment.docker.compose_service import ServiceEnvironment
from pytest_harbor.environment.docker.compose_service_keys import Grounds
from pytest_harbor.environment.docker.compose_source import SourceScan
from pytest_harbor.environment.docker.container import LOG_FOLDERS
from pytest_harbor.environment.docker.execution import CommandRunner
from pytest_harbor.environment.docker.image import content_hash, path_folders, target_platform
from pytest_harbor.environment.docker.kept import Kept, renamed_to_stay
from pytest_harbor.environment.docker.naming import container_name
from pytest_harbor.environment.docker.networked import NetworkedBox
from pytest_harbor.environment.docker.policies import means_for
from pytest_harbor.environment.docker.spec import ContainerSpec
from pytest_harbor.environment.docker.transfer import Transfer
from pytest_harbor.environment.kept import KeptBox
from pytest_harbor.errors import ComposeFileError, EnvironmentFault, EnvironmentStartError
from pytest_harbor.task.layout import AGENT_LOGS, ARTIFACTS_LOGS, TESTS_DIR, VERIFIER_LOGS

_UNSET = re.compile(r'The \\?"(\w+)\\?" variable is not set')
_LOG_VARIABLES = {
    "AGENT_LOGS": AGENT_LOGS,
    "VERIFIER_LOGS": VERIFIER_LOGS,
    "ARTIFACTS": ARTIFACTS_LOGS,
}


@dataclass(frozen=True, slots=True)
class ComposeSource:
    """Where a project comes from, and what it may do.

    Attributes:
        file: The compose file.
        build_folder: Its folder, which is also the build context of ``main``.
        task_folder: Files below it are the task's own.
        allow_privileged: Run it whatever it asks of the host.
        services_dir: Folder for the logs of the services beside ``main``.
        filter_data: Takes secrets out of those logs.
    """

    file: Path
    build_folder: Path
    task_folder: Path
    allow_privileged: bool = False
    services_dir: Path | None = None
    filter_data: Callable[[BinaryIO], BinaryIO] | None = None


class ComposeEnvironment(NetworkedBox):
    """The containers of a task's compose file; commands and files are ``main``'s."""

    def __init__(self, spec: ContainerSpec, source: ComposeSource, engine: Engine) -> None:
        self._project_name = container_name(spec.name_hint)
        main = f"{self._project_name}-{MAIN}-1"
        super().__init__(engine, main, spec, self._project_name)
        self._source = source
        self._project = Project(engine, self._project_name)
        self._folder: Path | None = None
        self._created = False
        self._kept = False
        self._main: Mapping[str, Any] = {}
        self._adjusted: Adjusted | None = None
        self._notes: list[str] = []

    @property
    def notes(self) -> Sequence[str]:
        """What was done otherwise than asked, one sentence each."""
        return (*self._notes, *(self._runner.notes if self._runner else ()))

    @property
    def default_user(self) -> str:
        """The user of ``main``."""
        return (self._main.get("Config") or {}).get("User") or "root"

    @property
    def workdir(self) -> str:
        """The task's folder, else the one of ``main``."""
        return self._spec.workdir or (self._main.get("Config") or {}).get("WorkingDir") or "/"

    @property
    def path_folders(self) -> Sequence[str]:
        """Those of ``main``."""
        return path_folders(self._main.get("Config") or {})

    @property
    def _memory_is_limited(self) -> bool:
        return bool((self._main.get("HostConfig") or {}).get("Memory"))

    @property
    def services(self) -> Sequence[str]:
        """Names of the services beside ``main``."""
        return tuple(self._adjusted.services) if self._adjusted else ()

    def service(self, name: str) -> Environment:
        """One of :attr:`services`; its first container where it has several."""
        self._runner_or_raise()
        for state in self._project.states():
            if state.service == name and name != MAIN:
                return ServiceEnvironment(self._engine, name, state)
        return super().service(name)

    # -- start ----------------------------------------------------------------------

    def start(self, *, timeout_sec: float | None = None) -> None:
        """Resolve and judge the file, have the images, create the containers, start them."""
        deadline = Deadline(timeout_sec)
        capabilities.check(self._engine, self._spec)
        require_compose()
        if self._is_gated:
            self._network.begin(deadline)
        self._folder = Path(tempfile.mkdtemp(prefix="pytest-harbor-compose-"))
        variables = self._variables()
        cli = ComposeCli(self._engine, self._project_name, variables)
        adjusted = self._adjusted = self._configuration(cli, deadline)
        self._notes += adjusted.notes
        guard = guarded(self._engine, self._spec, adjusted.model)
        maker = ImageMaker(
            self._engine, cli, self._spec, self._private, variables["MAIN_IMAGE_NAME"]
        )
        self._base = maker.ensure_all(adjusted.model, deadline)
        self._join_network(adjusted.model, deadline)
        file = self._private / "project.json"
        file.write_text(dump_model(adjusted.model))
        self._created = True  # before the request: an interrupt must not lose the containers
        self._compose(cli, file, deadline, "create", "--no-build", "--pull", "never")
        self._put_first_files(adjusted.copies)
        if self._is_gated:
            self._network.admit(self._project.networked(), attached=False)
            self._network.settle()
        if guard is not None:
            guard.require(deadline, self._spec.gateway_image)
        up = ("up", "--detach", "--no-build", "--pull", "never", "--no-recreate")
        self._compose(cli, file, deadline, *up)
        self._project.wait_until_ready(deadline)
        self._attach()

    @property
    def _is_gated(self) -> bool:
        """Each container has its way out beside the project's networks, which have none."""
        means = means_for(self._spec.network)
        return means in ("switched", "gateway") or (means == "public" and bool(self._spec.uplink))

    @property
    def _closing(self) -> str:
        """What becomes of the project's networks."""
        return "gated" if self._is_gated else means_for(self._spec.network)

    def _join_network(self, model: dict[str, Any], deadline: Deadline) -> None:
        if not self._is_gated:
            return
        image = str(model["services"][MAIN].get("image") or "")
        self._network.join(image, deadline)
        if self._network.dns:
            name_servers(model, self._network.dns, self._network.dns_options)

    @property
    def _private(self) -> Path:
        if self._folder is None:
            raise EnvironmentFault(f"{self._project_name} is not started")
        return self._folder

    def _log_paths(self) -> dict[str, str]:
        """Log folder in a container to its stand-in here, which is never made."""
        return {target: str(self._private / target.lstrip("/")) for target in LOG_FOLDERS}

    def _variables(self) -> dict[str, str]:
        """What a task's file may fill in (``format/environments-docker.md``, section 4)."""
        spec, folder = self._spec, self._source.build_folder
        values = {
            "MAIN_IMAGE_NAME": f"hb__{content_hash(folder, target_platform(self._engine))}",
            "CONTEXT_DIR": str(folder),
            "TEST_DIR": TESTS_DIR,
            "NETWORK_MODE": "none" if self._closing == "none" else "bridge",
        }
        if not spec.builds and spec.docker_image:
            values["PREBUILT_IMAGE_NAME"] = spec.docker_image
        if spec.cpus:
            values["CPUS"] = f"{self._granted_cpus():g}"
        if spec.memory_mb:
            values["MEMORY"] = f"{spec.memory_mb}M"
        stand_ins = self._log_paths()
        for name, target in _LOG_VARIABLES.items():
            values[f"HOST_{name}_PATH"] = stand_ins[target]
            values[f"ENV_{name}_PATH"] = target
        return {**spec.env, **values}

    def _granted_cpus(self) -> float:
        wanted = float(self._spec.cpus or 0)
        return min(wanted, float(self._engine.info.get("NCPU") or wanted))

    def _configuration(self, cli: ComposeCli, deadline: Deadline) -> Adjusted:
        """The configuration to run: as compose resolves it, judged, made the trial's own."""
        source, spec = self._source, self._spec
        scan = SourceScan(source.task_folder, source.build_folder, cli.environment)
        scan.scan(source.file)
        if not source.allow_privileged:
            self._require_none(scan.refusals)
        model = self._resolved(cli, deadline)
        grounds = Grounds(
            source.task_folder, frozenset(self._log_paths().values()), self._closing, spec.gpus
        )
        if not source.allow_privileged:
            self._require_none(refusals(model, grounds))
        if spec.is_restricted:
            remedy = "the task's network is restricted, which this would undo"
            self._require_none(ways_out(model, grounds), remedy)
        return adjust(model, self._settings())

    def _resolved(self, cli: ComposeCli, deadline: Deadline) -> dict[str, Any]:
        source = self._source
        base = self._private / "base.json"
        image = None if self._spec.builds else self._spec.docker_image
        base.write_text(json.dumps(base_file(source.build_folder, image)))
        limit = Deadline(deadline.within(CONFIG_LIMIT_SEC))
        try:
            finished = cli.run(
                ["config", "--format", "json"],
                [base, source.file],
                source.build_folder,
                limit,
                whole_output=True,
            )
        except DeadlinePassedError as error:
            raise ComposeFileError(
                f"{source.file}: compose did not come to an end with it within "
                f"{limit.timeout_sec:g} s and was stopped"
            ) from error
        if finished.status != 0:
            raise ComposeFileError(f"{source.file}: compose refuses it: {finished.words}")
        for name in sorted(set(_UNSET.findall(finished.errors))):
            self._notes.append(f"{source.file.name}: the variable {name} is not set: left empty")
        try:
            model = parse_model(finished.output)
        except ValueError as error:
            raise ComposeFileError(
                f"{source.file}: compose gives no readable configuration: {error}"
            ) from error
        if MAIN not in (model.get("services") or {}):
            raise ComposeFileError(f"{source.file}: no service {MAIN!r} is left in it")
        return model

    def _require_none(self, found: Sequence[Refusal], remedy: str = REMEDY) -> None:
        if found:
            lines = "\n".join(f"  {refusal}" for refusal in found)
            raise ComposeFileError(f"{self._source.file}: refused ({remedy}):\n{lines}")

    def _settings(self) -> Settings:
        spec = self._spec
        return Settings(
            project=self._project_name,
            labels=self._engine.labels(spec.labels),
            env=spec.env,
            log_paths=self._log_paths(),
            task_folder=self._source.task_folder,
            network=self._closing,
            restricted=spec.is_restricted,
            hardened=spec.hardened,
            runtime=spec.runtime,
            workdir=spec.workdir,
            cpus=self._granted_cpus() if spec.cpus else None,
            memory_mb=spec.memory_mb,
            gpus=spec.gpus,
            pids_limit=spec.pids_limit,
            max_cpus=float(self._engine.info.get("NCPU") or 0) or None,
        )

    def _compose(self, cli: ComposeCli, file: Path, deadline: Deadline, *arguments: str) -> None:
        try:
            finished = cli.run(arguments, [file], self._private, deadline)
        except DeadlinePassedError as error:
            raise self._project.out_of_time(deadline) from error
        if finished.status != 0:
            guilty = self._project.failures()
            words = _last_lines(finished.words)
            if "address pool" in words:
                words += (
                    "; remove networks that nobody uses with `docker network prune`, or give "
                    "the engine more default-address-pools"
                )
            raise EnvironmentStartError("\n".join(filter(None, [guilty, f"compose: {words}"])))

    def _put_first_files(self, copies: Sequence[Copied]) -> None:
        """Fill created containers before anything runs in them."""
        containers = {state.service: state.container for state in self._project.states()}
        for copied in copies:
            if copied.service in containers:
                with self._archive(containers[copied.service], copied.target) as archive:
                    if copied.source.exists():
                        archive.add_tree(copied.source, copied.target)
                    else:
                        archive.add_folder(copied.target, 0o755)
        self._main = self._engine.api.inspect_container(containers[MAIN])
        with self._archive(containers[MAIN], "/logs") as archive:
            for folder in LOG_FOLDERS:
                archive.add_folder(folder, 0o777)
            if self._spec.upload_dir is not None and not self._spec.builds:
                archive.add_tree(self._spec.upload_dir, self.workdir)

    @contextmanager
    def _archive(self, container: str, target: str) -> Iterator[UploadArchive]:
        with closing(UploadArchive()) as archive:
            yield archive
            Transfer(self._engine, container).put(archive, f"filling {target}")

    def _attach(self) -> None:
        for state in self._project.states():
            if state.service == MAIN:
                self._main = state.inspected
                self._name = str(state.inspected["Name"]).lstrip("/")
        self._runner = CommandRunner(self._engine, self._name, "sh")

    # -- end ------------------------------------------------------------------------

    def stop_main(self) -> None:
        """Stop every process of ``main``; its files stay, and so do the services."""
        self._runner_or_raise()
        with self._engine.errors(f"stopping {self._name}", EnvironmentFault):
            self._engine.api.stop(self._name, timeout=1)
        self._proved_alive = True

    def stop(self) -> None:
        """Save the services' logs, and remove the project unless it is kept."""
        self._runner = None
        self._close_image()
        try:
            if self._created and self._source.services_dir is not None:
                self._project.save_logs(self._source.services_dir, self._source.filter_data)
        finally:
            if self._created and not self._kept:
                self._project.remove()
                self._created = False
            if self._kept:
                self._network.let_go()
            else:
                self._network.leave()
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)

    def keep(self) -> KeptBox:
        """Leave the project running, under names that no sweep takes."""
        self._runner_or_raise()
        if not self._kept:
            with self._engine.errors(f"keeping {self._project_name}", EnvironmentFault):
                states = self._project.states()
            names = [str(state.inspected["Name"]).lstrip("/") for state in states]
            with renamed_to_stay(self._engine, names):
                self._keep_network()
            self._kept = True
            self._attach()
        return self._kept_box(self._keep_network(), self._project_name)

    def _keep_network(self) -> Kept:
        return self._network.keep() if self._is_gated else Kept()


def _last_lines(words: str, limit: int = 15) -> str:
    return "\n".join(words.splitlines()[-limit:])
