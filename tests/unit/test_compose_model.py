"""A resolved compose configuration, made the trial's own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_harbor.environment.docker.compose_cli import dump_model, parse_model
from pytest_harbor.environment.docker.compose_model import Settings, adjust, name_servers

VERIFIER_LOGS = "/private/logs/verifier"
SETTINGS = Settings(
    project="p",
    labels={"pytest-harbor": "1"},
    env={},
    log_paths={"/logs/verifier": VERIFIER_LOGS},
    task_folder=Path("/tasks/hello"),
    max_cpus=2.0,
)


def main_of(main: dict[str, Any], **settings: Any) -> dict[str, Any]:
    adjusted = adjust({"services": {"main": main}}, replace(SETTINGS, **settings))
    return adjusted.model["services"]["main"]


def test_gated_services_ask_the_given_servers_below_no_domain() -> None:
    model = {
        "services": {
            "main": {"dns": ["192.0.2.1"], "dns_search": ["corp.example"], "dns_opt": ["rotate"]},
            "alone": {"network_mode": "none"},
        }
    }
    name_servers(model, ["198.51.100.1"], ["timeout:1"])
    assert model["services"] == {
        "main": {"dns": ["198.51.100.1"], "dns_search": ["."], "dns_opt": ["timeout:1"]},
        "alone": {"network_mode": "none"},
    }


def test_nothing_that_parallel_trials_would_share_is_left() -> None:
    model = {
        "services": {
            "main": {"networks": {"back": None}, "volumes": []},
            "db": {"container_name": "db", "ports": [{"target": 1}], "profiles": ["x"]},
        },
        "networks": {"back": {"name": "fixed"}, "unused": {}},
        "volumes": {"data": {"name": "fixed"}},
    }
    adjusted = adjust(model, SETTINGS)
    db = adjusted.model["services"]["db"]
    assert not {"container_name", "ports", "profiles"} & set(db)
    assert adjusted.model["networks"]["back"]["name"] == "p_back"
    assert set(adjusted.model["networks"]) == {"back", "default"}
    assert adjusted.model["volumes"]["data"]["name"] == "p_data"
    assert len(adjusted.notes) == 2
    assert model["services"]["db"]["container_name"] == "db"


def test_everything_carries_the_labels_and_imitates_none() -> None:
    labels = {"pytest-harbor.run": "forged", "com.docker.compose.project": "forged", "mine": "1"}
    model = {
        "services": {"main": {"labels": labels}},
        "volumes": {"v": {"labels": labels}},
        "networks": {"default": {"labels": labels}},
    }
    adjusted = adjust(model, SETTINGS).model
    for thing in (
        adjusted["services"]["main"],
        adjusted["volumes"]["v"],
        adjusted["networks"]["default"],
    ):
        assert thing["labels"] == {"mine": "1", "pytest-harbor": "1"}


@pytest.mark.parametrize(
    ("main", "cpus", "memory"),
    [
        ({}, 1.5, "512m"),
        ({"cpus": 1, "mem_limit": "9"}, 1, "9"),
        ({"cpus": 24}, 2.0, "512m"),
    ],
)
def test_limits_of_the_task_unless_the_file_has_some(
    main: dict[str, Any], cpus: float, memory: str
) -> None:
    got = main_of(main, cpus=1.5, memory_mb=512)
    assert (got["cpus"], got["mem_limit"]) == (cpus, memory)


def test_limits_go_where_the_file_has_its_own() -> None:
    """Compose refuses the older keys beside the newer ones."""
    got = main_of({"deploy": {"resources": {"limits": {"cpus": 8}}}}, cpus=1.5, memory_mb=512)
    assert got["deploy"]["resources"]["limits"] == {"cpus": 2.0, "memory": "512m", "pids": 16_384}
    assert not {"cpus", "mem_limit", "pids_limit"} & set(got)


@pytest.mark.parametrize(
    ("wanted", "given_"), [(0, 16_384), (-1, 16_384), (64, 64), (10**9, 16_384)]
)
def test_processes_are_always_bounded(wanted: int, given_: int) -> None:
    assert main_of({"pids_limit": wanted})["pids_limit"] == given_


def test_mounts_of_the_task_become_copies_and_log_folders_volumes() -> None:
    mounts = [
        {"type": "bind", "source": "/tasks/hello/environment/a", "target": "/a"},
        {"type": "bind", "source": VERIFIER_LOGS, "target": "/out"},
        {"type": "bind", "source": "/srv", "target": "/srv"},
    ]
    adjusted = adjust({"services": {"main": {}, "db": {"volumes": mounts}}}, SETTINGS)
    (copied,) = adjusted.copies
    assert (copied.service, copied.target) == ("db", "/a")
    db, main = adjusted.model["services"]["db"], adjusted.model["services"]["main"]
    assert [mount["target"] for mount in db["volumes"]] == ["/out", "/srv"]
    assert main["volumes"][0]["target"] == "/logs/verifier"
    assert main["volumes"][0]["source"] == db["volumes"][0]["source"]


def test_a_volume_that_is_called_like_a_log_folder_is_the_tasks_own() -> None:
    mount = {"type": "volume", "source": "pytest-harbor-logs-other", "target": "/a"}
    assert main_of({"volumes": [mount]})["volumes"] == [mount]


def test_without_network_every_network_is_closed_and_names_go_nowhere() -> None:
    model = {
        "services": {"main": {"dns": ["8.8.8.8"]}, "db": {"network_mode": "bridge"}},
        "networks": {"default": {"driver_opts": {"com.docker.network.driver.mtu": "1"}}},
    }
    adjusted = adjust(model, replace(SETTINGS, network="none")).model
    network = adjusted["networks"]["default"]
    assert network["internal"]
    assert network["driver_opts"]["com.docker.network.bridge.inhibit_ipv4"] == "true"
    assert adjusted["services"]["main"]["dns"] == ["192.0.2.1"]
    assert adjusted["services"]["db"]["networks"] == {"default": None}


def test_main_alone_without_network_has_loopback_only() -> None:
    got = main_of({"networks": {"default": None}}, network="none")
    assert got["network_mode"] == "none"
    assert not {"networks", "dns"} & set(got)


def test_a_network_mode_of_the_task_stays() -> None:
    assert main_of({"network_mode": "none"})["network_mode"] == "none"


def test_there_is_one_main() -> None:
    got = main_of({"scale": 3, "deploy": {"replicas": 3}})
    assert "scale" not in got
    assert "replicas" not in got["deploy"]


_names = st.text(st.characters(codec="ascii", exclude_characters="$"), max_size=5)


@given(st.dictionaries(_names, st.text(st.sampled_from("a${}\\\"'"), max_size=8)))
def test_no_dollar_is_filled_in_a_second_time(env: dict[str, str]) -> None:
    """Compose halves each pair of dollar signs and leaves nothing else of them."""
    text = dump_model({"services": {"main": {"environment": env}}})
    assert text.replace("$$", "").count("$") == 0
    assert parse_model(text)["services"]["main"]["environment"] == env
