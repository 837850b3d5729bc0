"""What every environment does, whatever it is made of."""

import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_harbor.environment.base import DownloadLimits, Environment
from pytest_harbor.errors import EnvironmentFault, TransferError, UnsupportedError
from pytest_harbor.task.network import NetworkPolicy

LOGS = ("/logs/agent", "/logs/verifier", "/logs/artifacts")


# Life


def test_stopping_twice_or_before_the_start_does_nothing(
    make_environment: Callable[[], Environment],
):
    made = make_environment()
    made.stop()
    made.start()
    made.stop()
    made.stop()


def test_a_stopped_environment_refuses_to_work(make_environment: Callable[[], Environment]):
    made = make_environment()
    made.start()
    made.stop()
    with pytest.raises(EnvironmentFault):
        made.exec(["true"])


def test_two_environments_share_no_name(make_environment: Callable[[], Environment]):
    assert make_environment().name != make_environment().name


def test_everybody_may_write_logs(environment: Environment):
    result = environment.exec(f"for d in {' '.join(LOGS)}; do touch $d/mine; done", user=4242)
    assert (result.exit_code, result.stderr) == (0, "")


def test_logs_are_there_for_a_download_before_any_command(
    make_environment: Callable[[], Environment], tmp_path: Path
):
    made = make_environment()
    try:
        made.start()
        report = made.download("/logs", tmp_path / "logs")
    finally:
        made.stop()
    assert report.complete
    assert sorted(p.name for p in (tmp_path / "logs").iterdir()) == [
        "agent",
        "artifacts",
        "verifier",
    ]


# Commands


@pytest.mark.parametrize("code", [0, 1, 3, 126, 127, 255])
def test_exit_code(environment: Environment, code: int):
    assert environment.exec(["sh", "-c", f"exit {code}"]).exit_code == code


def test_streams_are_apart_unless_merged(environment: Environment):
    command = "echo out; echo err >&2"
    apart = environment.exec(command)
    merged = environment.exec(command, merge_streams=True)
    assert (apart.stdout, apart.stderr, apart.output) == ("out\n", "err\n", "out\nerr\n")
    assert (merged.stdout, merged.stderr) == ("out\nerr\n", "")


def test_text_is_for_bash_and_a_list_for_no_shell(environment: Environment):
    assert environment.exec("a=(1 2); echo ${#a[@]} $HOME").stdout == "2 /root\n"
    assert environment.exec(["echo", "$HOME", "a b", "", "'"]).stdout == "$HOME a b  '\n"


def test_working_folder(environment: Environment, folder: str):
    environment.exec(["mkdir", "-p", folder])
    assert environment.workdir == "/work dir"
    assert environment.exec("pwd").stdout == "/work dir\n"
    assert environment.exec("pwd", cwd=folder).stdout == f"{folder}\n"


def test_variables_are_added_and_last_for_one_command(environment: Environment):
    show = "echo $FROM_SPEC:$MORE"
    value = "a b\n'\"$x=ä"
    assert environment.exec(show, env={"MORE": value}).stdout == f"1:{value}\n".replace("\n'", " '")
    assert environment.exec('printf %s "$MORE"', env={"MORE": value}).stdout == value
    assert environment.exec(show).stdout == "1:\n"


def test_user(environment: Environment):
    assert environment.default_user == "root"
    assert environment.exec(["id", "-un"]).stdout == "root\n"
    assert environment.exec(["id", "-un"], user="nobody").stdout == "nobody\n"
    assert environment.exec(["id", "-u"], user=0).stdout == "0\n"


def test_input_is_empty(environment: Environment):
    assert environment.exec(["cat"], timeout_sec=30).exit_code == 0


def test_output_goes_whole_to_the_sink(environment: Environment):
    sink = io.BytesIO()
    result = environment.exec("seq 100000", output=sink)
    assert sink.getvalue().split() == [str(n).encode() for n in range(1, 100_001)]
    assert result.output_bytes == len(sink.getvalue())
    assert result.stdout.endswith("99999\n100000\n")
    assert "\n1\n" not in result.stdout


def test_bytes_that_are_no_text_are_replaced(environment: Environment):
    sink = io.BytesIO()
    result = environment.exec(r"printf 'a\377b'", output=sink)
    assert result.stdout == "a\ufffdb"
    assert sink.getvalue() == b"a\xffb"


def test_missing_command_and_missing_folder(environment: Environment):
    assert environment.exec(["no-such-program"]).exit_code == 127
    assert environment.exec("no-such-program").exit_code == 127
    assert "no-such-program" in environment.exec("no-such-program").stderr
    missing = environment.exec(["true"], cwd="/no/such")
    assert missing.exit_code == 126
    assert "/no/such" in missing.stderr


def test_what_runs_too_long_is_killed(environment: Environment):
    result = environment.exec("echo begun; (sleep 9001 &); sleep 9002", timeout_sec=0.5)
    assert (result.timed_out, result.exit_code, result.stdout) == (True, None, "begun\n")
    left = environment.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout
    assert "sleep 900" not in left


def test_what_is_left_running_lives_on(environment: Environment):
    pid = environment.exec("sleep 9003 & echo $!").stdout.strip()
    environment.exec("sleep 9004", timeout_sec=0.3)
    assert environment.exec(f"kill -0 {pid}").exit_code == 0
    environment.exec(f"kill {pid}")


# Files into the environment


def test_upload_of_a_folder(environment: Environment, folder: str, tmp_path: Path):
    (tmp_path / "sub" / "empty").mkdir(parents=True)
    (tmp_path / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (tmp_path / "sub" / "ä b").write_bytes(b"\0\xff")
    (tmp_path / "sub" / "ä b").chmod(0o640)
    (tmp_path / "link").symlink_to("sub/ä b")
    environment.upload(tmp_path, folder, executable={"run.sh"})
    assert environment.exec([f"{folder}/run.sh"]).stdout == "ran\n"
    assert environment.exec(["readlink", f"{folder}/link"]).stdout == "sub/ä b\n"
    listed = environment.exec(["stat", "-c", "%a %u %g", f"{folder}/sub/ä b"]).stdout
    assert listed == "640 0 0\n"
    assert environment.exec(["test", "-d", f"{folder}/sub/empty"]).exit_code == 0
    assert environment.read(f"{folder}/sub/ä b") == b"\0\xff"


def test_upload_of_a_file(environment: Environment, folder: str, tmp_path: Path):
    (tmp_path / "one").write_text("1")
    environment.upload(tmp_path / "one", f"{folder}/deep/er")
    assert environment.read(f"{folder}/deep/er") == b"1"


def test_uploads_merge_and_replace_files(environment: Environment, folder: str, tmp_path: Path):
    environment.write(f"{folder}/old", "old")
    environment.write(f"{folder}/both", "old")
    (tmp_path / "both").write_text("new")
    environment.upload(tmp_path, folder)
    assert environment.read(f"{folder}/old") == b"old"
    assert environment.read(f"{folder}/both") == b"new"


def test_upload_keeps_owner_and_mode_of_the_folder_that_is_there(
    environment: Environment, folder: str, tmp_path: Path
):
    environment.exec(f"mkdir -p {folder} && chown 77 {folder} && chmod 1777 {folder}")
    (tmp_path / "file").write_text("")
    environment.upload(tmp_path, folder)
    assert environment.exec(["stat", "-c", "%u %a", folder]).stdout == "77 1777\n"


@pytest.mark.parametrize(
    "before",
    ["mkdir -p {0}; touch {0}/planted", "ln -s /etc {0}", "touch {0}", "true"],
    ids=["folder", "link", "file", "nothing"],
)
def test_a_replacing_upload_leaves_nothing_of_what_was_there(
    environment: Environment, folder: str, tmp_path: Path, before: str
):
    environment.exec("mkdir -p /contract; " + before.format(folder))
    (tmp_path / "mine").write_text("1")
    environment.upload(tmp_path, folder, replace=True)
    assert environment.exec(["ls", "-A", folder]).stdout == "mine\n"
    assert environment.exec(["test", "-e", "/etc/mine"]).exit_code == 1


def test_an_upload_can_make_other_folders_anew(
    environment: Environment, folder: str, tmp_path: Path
):
    environment.write(f"{folder}/stale/reward.txt", "1")
    environment.upload(tmp_path, f"{folder}/new", clear=[f"{folder}/stale"])
    shown = environment.exec(f"ls -A {folder}/stale; stat -c %a {folder}/stale").stdout
    assert shown == "777\n"
    assert environment.exec(["ls", folder]).stdout.split() == ["new", "stale"]


def test_upload_leaves_out_what_is_not_wanted(
    environment: Environment, folder: str, tmp_path: Path
):
    for name in ("keep", "drop"):
        (tmp_path / name).write_text(name)
    environment.upload(tmp_path, folder, include=lambda path: path.name != "drop")
    assert environment.exec(["ls", folder]).stdout == "keep\n"


def test_a_source_that_cannot_be_uploaded_is_named(
    environment: Environment, folder: str, tmp_path: Path
):
    with pytest.raises(TransferError, match="no-such"):
        environment.upload(tmp_path / "no-such", folder)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TransferError, match="pipe"):
        environment.upload(tmp_path, folder)


def test_write_and_read(environment: Environment, folder: str):
    environment.write(f"{folder}/a/file", "text\n", mode=0o700)
    environment.write(f"{folder}/a/bytes", b"\xff\0")
    assert environment.read(f"{folder}/a/file") == b"text\n"
    assert environment.read(f"{folder}/a/bytes") == b"\xff\0"
    assert environment.exec(["stat", "-c", "%a %u", f"{folder}/a/file"]).stdout == "700 0\n"


def test_read_refuses_all_but_small_regular_files(environment: Environment, folder: str):
    environment.exec(
        f"mkdir -p {folder}; cd {folder}; mkfifo pipe; ln -s /etc/passwd link; "
        "echo 12345 >big; mkdir folder; mknod device c 1 5"
    )
    for name, reason in {
        "pipe": "pipe",
        "link": "link",
        "folder": "folder",
        "device": "device",
    }.items():
        with pytest.raises(TransferError, match=reason):
            environment.read(f"{folder}/{name}")
    with pytest.raises(TransferError, match="6 bytes"):
        environment.read(f"{folder}/big", max_bytes=5)
    assert environment.read(f"{folder}/big", max_bytes=6) == b"12345\n"
    with pytest.raises(FileNotFoundError, match="missing"):
        environment.read(f"{folder}/missing")


# Files out of the environment


def test_download_of_a_folder(environment: Environment, folder: str, tmp_path: Path):
    environment.exec(
        f"mkdir -p {folder}/sub/empty; cd {folder}; echo 1 >one; echo 2 >sub/two; chmod 750 one"
    )
    report = environment.download(folder, tmp_path / "new" / "out")
    out = tmp_path / "new" / "out"
    assert report.files == ("one", "sub/two")
    assert (report.complete, dict(report.skipped)) == (True, {})
    assert (out / "one").read_text() == "1\n"
    assert (out / "sub" / "empty").is_dir()
    assert (out / "one").stat().st_mode & 0o777 == 0o750


def test_download_of_a_file(environment: Environment, folder: str, tmp_path: Path):
    environment.write(f"{folder}/name", "x")
    report = environment.download(f"{folder}/name", tmp_path / "other")
    assert report.files == ("other",)
    assert (tmp_path / "other").read_text() == "x"


def test_download_of_nothing(environment: Environment, tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        environment.download("/no/such", tmp_path)


def test_download_writes_regular_files_only(environment: Environment, folder: str, tmp_path: Path):
    environment.exec(
        f"mkdir -p {folder}; cd {folder}; echo 1 >one; ln -s /etc/passwd link; ln -s / root; "
        "ln one hard; mkfifo pipe; mknod device c 1 5; cp /bin/true suid; chmod 6755 suid; "
        "touch $'bad\\nname'"
    )
    report = environment.download(folder, tmp_path)
    assert {"link", "root", "pipe", "device"} <= set(report.skipped)
    assert any("name" in name and "\n" not in name for name in report.skipped)
    assert not [path for path in tmp_path.rglob("*") if path.is_symlink()]
    assert (tmp_path / "suid").stat().st_mode & 0o7000 == 0
    assert (tmp_path / "suid").stat().st_uid == os.getuid()


@pytest.mark.parametrize("link_target", ["/", "/etc", "/proc/self", "../.."])
def test_a_folder_that_became_a_link_is_not_followed(
    environment: Environment, folder: str, tmp_path: Path, link_target: str
):
    environment.exec(f"mkdir -p /contract; ln -s {link_target} {folder}")
    for source in (folder, f"{folder}/"):
        report = environment.download(source, tmp_path / "out")
        assert report.files == ()
        assert list(report.skipped.values()) == ["link"]


def test_download_stops_at_its_limits(environment: Environment, folder: str, tmp_path: Path):
    environment.exec(f"mkdir -p {folder}; cd {folder}; truncate -s 1T huge; echo 1 >a")
    limits = DownloadLimits(total_bytes=1000, files=10)
    report = environment.download(folder, tmp_path / "one", limits=limits)
    assert not report.complete
    assert not (tmp_path / "one" / "huge").exists()
    environment.exec(f"rm {folder}/huge; touch {folder}/{{1..50}}")
    report = environment.download(folder, tmp_path / "two", limits=limits)
    assert not report.complete
    assert len(report.files) <= 10
    assert environment.exec(["true"]).exit_code == 0


def test_download_filters_what_passes(environment: Environment, folder: str, tmp_path: Path):
    environment.write(f"{folder}/log", "the secret word")
    environment.download(
        folder,
        tmp_path,
        filter_data=lambda source: io.BytesIO(source.read().replace(b"secret", b"******")),
    )
    assert (tmp_path / "log").read_text() == "the ****** word"


def test_download_does_not_write_through_a_link_on_this_machine(
    environment: Environment, folder: str, tmp_path: Path
):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    target = tmp_path / "target"
    target.mkdir()
    (target / "sub").symlink_to(outside)
    (target / "file").symlink_to(outside / "file")
    environment.write(f"{folder}/sub/file", "theirs")
    environment.write(f"{folder}/file", "theirs")
    report = environment.download(folder, target)
    assert (outside / "file").read_text() == "mine"
    assert (target / "file").read_text() == "theirs"
    assert report.files == ("file",)


# Network


def test_the_policy_that_holds_can_be_set_again(environment: Environment) -> None:
    environment.set_network_policy(NetworkPolicy("no-network"))
    environment.expect_network_policy(NetworkPolicy("no-network"))
    assert list(environment.refused_connections()) == []


def test_a_policy_that_the_box_was_not_made_for_is_refused(environment: Environment) -> None:
    with pytest.raises(UnsupportedError):
        environment.set_network_policy(NetworkPolicy())
