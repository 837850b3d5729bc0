"""Options of the command line, their ini twins, and what is refused."""

import dataclasses
import os
from pathlib import Path

import pytest

from pytest_harbor.plugin.benchmark_options import BenchmarkSettings
from pytest_harbor.plugin.network_options import NetworkSettings
from pytest_harbor.plugin.options import Settings, settings
from pytest_harbor.task.overrides import TaskOverrides


@pytest.fixture
def resolved(project):
    """Resolve the settings of an inner run."""

    def resolve(*args: str) -> Settings:
        config = project.pytester.parseconfigure("-p", "no:hypothesispytest", *args)
        return settings(config)

    return resolve


def test_defaults(resolved, project):
    found = resolved()
    assert found == Settings(
        agents=("oracle",),
        agent_command=None,
        models=(),
        agent_kwargs={},
        agent_env={},
        missing_env=(),
        attempts=1,
        threshold=1.0,
        reward_key=None,
        tasks=(),
        output=project.path / "jobs",
        overrides=TaskOverrides(),
        timeout_multiplier=1.0,
        agent_timeout_multiplier=1.0,
        verifier_timeout_multiplier=1.0,
        setup_timeout_multiplier=1.0,
        build_timeout_multiplier=1.0,
        resource_multiplier=1.0,
        network=NetworkSettings(),
        uplink=None,
        gateway_image=None,
        runtime=None,
        hardened=False,
        isolate=False,
        isolate_except=(),
        on_tamper="report",
        rebuild=False,
        allow_privileged=False,
        strict_collect=False,
        ignore_timeouts=False,
        strict=False,
        keep=None,
        model_gateway="auto",
        max_calls=None,
        max_tokens=None,
        max_cost_usd=None,
        prices=None,
        benchmark=BenchmarkSettings(retries=0),  # as the suite's conftest.py has it
    )
    assert BenchmarkSettings().retries == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.attempts = 2


def test_secrets_among_keywords_are_known(resolved):
    found = resolved(
        "--harbor-agent-kwarg=api_key=s3cr3t-1",
        '--harbor-agent-kwarg=config={"hosts": [{"token": "s3cr3t-2", "name": "a"}]}',
        "--harbor-agent-kwarg=api_key_env=HOST_KEY",
        "--harbor-verifier-kwarg=api_key=s3cr3t-3",
    )
    assert found.keyword_secrets == ("s3cr3t-1", "s3cr3t-2", "s3cr3t-3")


CASES = [
    ("isolate_except", "server-*", "isolate_except", ("server-*",)),
    ("on_tamper", "fail", "on_tamper", "fail"),
    ("agent", "nop", "agents", ("nop",)),
    ("agent_command", "echo ok", "agent_command", "echo ok"),
    ("model", "openai/gpt-5", "models", ("openai/gpt-5",)),
    ("agent_kwarg", "turns=3", "agent_kwargs", {"turns": 3}),
    ("agent_env", "KEY=value", "agent_env", {"KEY": "value"}),
    ("attempts", "3", "attempts", 3),
    ("threshold", "0.5", "threshold", 0.5),
    ("threshold", "0", "threshold", 0.0),
    ("reward_key", "lines", "reward_key", "lines"),
    ("tasks", "hello-*", "tasks", ("hello-*",)),
    ("timeout_multiplier", "2", "timeout_multiplier", 2.0),
    ("timeout_multiplier", "2", "agent_timeout_multiplier", 2.0),
    ("agent_timeout_multiplier", "3", "agent_timeout_multiplier", 3.0),
    ("verifier_timeout_multiplier", "3", "verifier_timeout_multiplier", 3.0),
    ("setup_timeout_multiplier", "3", "setup_timeout_multiplier", 3.0),
    ("build_timeout_multiplier", "0.5", "build_timeout_multiplier", 0.5),
    ("resource_multiplier", "1.5", "resource_multiplier", 1.5),
    ("keep", "all", "keep", "all"),
    ("progress", "off", "progress", "off"),
    ("image", "acme/{task}:1", "overrides", TaskOverrides(image="acme/{task}:1")),
    ("verifier_image", "x:{task}", "overrides", TaskOverrides(verifier_image="x:{task}")),
    ("network", "no-network", "network", NetworkSettings("no-network")),
    ("network", "public", "network", NetworkSettings()),
    ("allow_host", "*.A.example.", "network", NetworkSettings("allowlist", ("*.a.example",))),
    ("deny_host", "10.0.0.0/8", "network", NetworkSettings(denied=("10.0.0.0/8",))),
    ("endpoint", "a.example:81", "network", NetworkSettings(endpoints=("a.example:81",))),
    ("endpoint", "https://a.example/v1", "network", NetworkSettings(endpoints=("a.example:443",))),
    ("uplink", "my_net-1", "uplink", "my_net-1"),
    ("gateway_image", "acme.example/gateway:1", "gateway_image", "acme.example/gateway:1"),
    ("runtime", "runsc", "runtime", "runsc"),
]


@pytest.mark.parametrize(("name", "text", "attribute", "expected"), CASES)
def test_command_line_and_ini_file_say_the_same(resolved, project, name, text, attribute, expected):
    option = f"--harbor-{name.replace('_', '-')}={text}"
    assert getattr(resolved(option), attribute) == expected
    quoted = f"'{text}'" if name in ("tasks", "agent_kwarg") else text
    project.ini(f"harbor_{name} = {quoted}")
    assert getattr(resolved(), attribute) == expected


@pytest.mark.parametrize("name", ["ignore_dockerfile", "ignore_separate_verifier"])
def test_switches_for_tasks(resolved, project, name):
    expected = TaskOverrides(**{name: True})
    assert resolved(f"--harbor-{name.replace('_', '-')}").overrides == expected
    project.ini(f"harbor_{name} = true")
    assert resolved().overrides == expected


@pytest.mark.parametrize(
    "name",
    ["rebuild", "allow_privileged", "strict", "strict_collect", "ignore_timeouts", "hardened"],
)
def test_switches(resolved, project, name):
    assert getattr(resolved(f"--harbor-{name.replace('_', '-')}"), name) is True
    project.ini(f"harbor_{name} = true")
    assert getattr(resolved(), name) is True
    assert getattr(resolved("-o", f"harbor_{name}=false"), name) is False


def test_native_toml_takes_native_values(resolved, project):
    (project.path / "pytest.toml").write_text("""
[pytest]
filterwarnings = ["default"]
harbor_agent = ["nop", "oracle"]
harbor_attempts = 2
harbor_threshold = 0.5
harbor_timeout_multiplier = 3
harbor_strict = true
harbor_keep = "failed"
""")
    found = resolved()
    assert (found.agents, found.attempts, found.threshold) == (("nop", "oracle"), 2, 0.5)
    assert (found.timeout_multiplier, found.strict, found.keep) == (3.0, True, "failed")


def test_the_command_line_outranks_addopts_and_the_ini_file(resolved, project, monkeypatch):
    project.ini("harbor_threshold = 0.1", "harbor_agent = ini")
    assert resolved().threshold == 0.1
    monkeypatch.setenv("PYTEST_ADDOPTS", "--harbor-threshold=0.2 --harbor-agent=nop")
    found = resolved()
    assert (found.threshold, found.agents) == (0.2, ("nop",))
    assert resolved("--harbor-threshold=0.3").threshold == 0.3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", 1),
        ("a=1.5", 1.5),
        ("a=true", True),
        ("a=True", True),
        ("a=None", None),
        ("a=null", None),
        ('a={"b": [1]}', {"b": [1]}),
        ("a=plain text", "plain text"),
        ("a=x=y", "x=y"),
        ("a=", ""),
    ],
)
def test_values_of_agent_kwargs(resolved, text, expected):
    assert resolved("--harbor-agent-kwarg", text).agent_kwargs == {"a": expected}


def test_agent_variables_come_from_this_process(resolved, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "s3cr3t-value")
    monkeypatch.delenv("UNSET", raising=False)
    specs = ["MY_TOKEN", "OTHER=${MY_TOKEN}", "SPARE=${UNSET:-spare}", "PLAIN=a${MY_TOKEN}"]
    found = resolved(*(f"--harbor-agent-env={spec}" for spec in specs))
    assert found.agent_env == {
        "MY_TOKEN": "s3cr3t-value",
        "OTHER": "s3cr3t-value",
        "SPARE": "spare",
        "PLAIN": "a${MY_TOKEN}",
    }
    assert "s3cr3t-value" not in repr(found)


@pytest.mark.parametrize("spec", ["MY_TOKEN", "KEY=${MY_TOKEN}"])
def test_a_missing_variable_is_named(project, spec):
    result = project.run(f"--harbor-agent-env={spec}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--harbor-agent-env: not set*MY_TOKEN; export it*"])


def test_a_variable_missing_for_the_ini_file_counts_only_with_trials(project):
    project.ini("harbor_agent_env = MY_TOKEN")
    project.pytester.makepyfile("def test_x(): pass")
    project.run().assert_outcomes(passed=1)
    project.task("hello")
    result = project.run()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*tox.ini: harbor_agent_env: not set*MY_TOKEN*"])


REFUSED = [
    ("agent", "", "expected a name such as 'oracle'"),
    ("agent", "a::b", "got 'a::b'"),
    ("agent", "a[b]", "got 'a[b]'"),
    ("model", " ", "expected a name such as 'openai/gpt-5', got ' '"),
    ("agent_kwarg", "turns", "expected KEY=VALUE"),
    ("agent_kwarg", "1=2", "got '1=2'"),
    ("agent_env", "1=2", "got '1' as the name"),
    ("attempts", "0", "expected a whole number from 1, got"),
    ("attempts", "-3", "expected a whole number from 1, got"),
    ("threshold", "nan", "expected a finite number, got"),
    ("timeout_multiplier", "0", "expected a finite number above 0, got"),
    ("agent_timeout_multiplier", "-1", "expected a finite number above 0, got"),
    ("resource_multiplier", "inf", "expected a finite number above 0, got"),
    ("progress", "yes", "expected 'auto', 'on' or 'off', got 'yes'"),
    ("keep", "some", "expected 'failed' or 'all', got 'some'"),
    ("image", "acme/{name}", "unknown placeholder {name}; accepted is {task}"),
    ("image", "acme/{}", "unknown placeholder {}; accepted is {task}"),
    ("verifier_image", "acme/{task!r}", "unknown placeholder {task!r}; accepted is {task}"),
    ("verifier_image", "acme/{task", "expected '}'"),
    ("image", " ", "expected the name of an image"),
    ("network", "open", "expected public, no-network, allowlist, got 'open'"),
    ("allow_host", "https://a.example", "a URL; write only its host name"),
    ("allow_host", "a.*.b", "only *.suffix is accepted"),
    ("allow_host", "a.example:443", "a host with a port; write 'a.example': ports are no part"),
    ("deny_host", "[::1]:80", "a host with a port; write '::1': ports are no part"),
    ("allow_host", "999.1.1.1", "looks like an IPv4 address and is none"),
    ("deny_host", "10.0.0.1/8", "not a network"),
    ("endpoint", "ftp://a.example", "'ftp' is no scheme of an endpoint"),
    ("endpoint", "a.example", "an endpoint needs a port from 1 to 65535"),
    ("endpoint", "a.example:70000", "a number from 1 to 65535"),
    ("endpoint", "*.example:80", "an endpoint is one host, not '*.example'"),
    ("endpoint", "https://user:pw@a.example", "without a user and a password"),
    ("endpoint", "http://localhost:8000/v1", "write host.docker.internal for the engine's machine"),
    ("endpoint", "127.0.0.2:80", "nothing in a container reaches this machine's loopback"),
    ("endpoint", "[::1]:80", "write host.docker.internal"),
    ("uplink", "my net", "expected a name of letters, digits"),
    ("gateway_image", "a b", "expected the name of an image, got 'a b'"),
    ("runtime", "-x", "expected a name of letters, digits"),
    ("retry_wait", "ApiRateLimitError", "expected ERROR=SECONDS with a number from 0 to 86400"),
    ("retry_wait", "ApiRateLimitError=nan", "expected ERROR=SECONDS"),
    ("retry_wait", "9x=3", "expected the name of an error"),
    ("retry_wait", "ApiRatelimitErr=3", "did you mean ApiRateLimitError"),
    ("retry_include", "healthcheckerror", "did you mean HealthcheckError"),
    ("retry_exclude", "AgentSetupErr", "did you mean AgentSetupError"),
    ("hub", "https://me:pw@hub.example", "an account stands in the URL of hub.example, from"),
    ("hub", "https://token@hub.example/a", "is taken from the variable HARBOR_HUB_TOKEN"),
    ("registry", "https://me:pw@a.example/r.json", "an account stands in the URL of a.example"),
    ("registry", "https://me:pw@a.example/r.git", "a password stands in the URL of https://a.exa"),
]


@pytest.mark.parametrize(("name", "text", "message"), REFUSED)
def test_refused_on_the_command_line(project, name, text, message):
    result = project.run(f"--harbor-{name.replace('_', '-')}={text}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"argument --harbor-{name.replace('_', '-')}: " in result.stderr.str()
    assert message in result.stderr.str()


@pytest.mark.parametrize(("name", "text", "message"), REFUSED)
def test_refused_in_the_ini_file(project, name, text, message):
    project.ini(
        f"harbor_{name} = '{text}'" if name in ("agent", "model") else f"harbor_{name} ={text}"
    )
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"tox.ini: harbor_{name}: " in result.stderr.str()
    assert message in result.stderr.str()


UNREADABLE = [
    ("attempts", "a whole number"),
    ("threshold", "a number"),
    ("strict", "true or false"),
    ("hardened", "true or false"),
    ("timeout_multiplier", "a number"),
]


@pytest.mark.parametrize(("name", "accepted"), UNREADABLE)
def test_words_for_numbers_and_switches_are_refused(project, name, accepted):
    told = f"harbor_{name}: expected {accepted}, got 'maybe'"
    by_option = project.run("-o", f"harbor_{name}=maybe")
    project.ini(f"harbor_{name} = maybe")
    by_file = project.run()
    for result, place in ((by_option, "-o "), (by_file, f"{project.path}/tox.ini: ")):
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert f"ERROR: {place}{told}" in result.stderr.str()
        assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()


def test_a_native_value_of_the_wrong_type_is_told_once_with_its_file(project):
    (project.path / "pytest.toml").write_text('[pytest]\nharbor_strict = "maybe"\n')
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.stderr.str().count("pytest.toml") == 1
    result.stderr.fnmatch_lines(["*pytest.toml: *'harbor_strict' expects a bool, got str: 'maybe'"])


def test_the_command_agent_needs_a_command(project):
    result = project.run("--harbor-agent=command")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*needs --harbor-agent-command*"])


@pytest.mark.parametrize("mode", ["public", "no-network"])
def test_hosts_beside_a_mode_that_has_none_are_refused(project, mode):
    told = f"*harbor_allow_host names hosts (a.example), and harbor_network is {mode}, both *;*"
    by_line = project.run("--harbor-allow-host=a.example", f"--harbor-network={mode}")
    project.ini("harbor_allow_host = a.example", f"harbor_network = {mode}")
    for result in (by_line, project.run()):
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([told])


def test_an_allowlist_needs_a_host(project):
    result = project.run("--harbor-network=allowlist")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*no host is named: add --harbor-allow-host=HOST, or*no-network*"])


TOGETHER = [
    ("no-network", "", "--harbor-allow-host=a.example", "no-network"),
    ("no-network", "", "--harbor-network=public", "no-network"),
    ("", "a.example", "--harbor-network=no-network", "no-network"),
    ("", "a.example", "--harbor-network=public", "allowlist a.example"),
    ("public", "", "--harbor-allow-host=a.example", "allowlist a.example"),
    ("", "*.example b.test", "--harbor-allow-host=a.example", "allowlist a.example"),
    ("", "a.example", "--harbor-allow-host=*.example", "allowlist a.example"),
    ("", "a.example", "--harbor-allow-host=b.example", "allowlist"),
    ("", "a.example", "--harbor-network=allowlist", "allowlist a.example"),
    ("allowlist", "", "--harbor-allow-host=a.example", "allowlist a.example"),
]


@pytest.mark.parametrize(("mode", "hosts", "option", "expected"), TOGETHER)
def test_the_command_line_lifts_no_restriction_of_the_ini_file(
    resolved, project, mode, hosts, option, expected
):
    restrict(project, mode, hosts)
    found = resolved(option, "-W", "ignore").network
    assert " ".join((found.mode, *found.allowed)) == expected
    written = option.partition("=")[2]
    in_words = written if option.startswith("--harbor-network") else f"allowlist {written}"
    parts = dict(found.policy.parts)
    assert parts["on the command line"] == in_words
    assert parts["in the ini file"].split()[:1] == [mode or "allowlist"]


def restrict(project, mode, hosts):
    given = {"network": mode, "allow_host": hosts}
    project.ini(*(f"harbor_{name} = {value}" for name, value in given.items() if value))


def test_a_wish_that_the_ini_file_does_not_grant_is_told_of(project):
    project.ini("harbor_network = no-network")
    project.pytester.makepyfile("def test_x(): pass")
    told = "*in the ini file no-network, on the command line allowlist a.example; together no-net*"
    granted = project.run("--harbor-network=no-network")
    granted.stdout.no_fnmatch_line("*the ini file and the command line*")
    project.run("--harbor-allow-host=a.example").stdout.fnmatch_lines([told])
    strict = project.run("--harbor-allow-host=a.example", "-W", "error")
    assert strict.ret == pytest.ExitCode.USAGE_ERROR
    strict.stderr.fnmatch_lines([told])


def test_an_error_that_only_an_agent_of_ones_own_can_raise_is_told_of(project):
    project.pytester.makepyfile("def test_x(): pass")
    given = ("--harbor-retry-include=OfMine", "--harbor-retry-wait=MyAgentSetupError=3")
    told = [f"*--harbor-retry-{one} is no error of pytest-harbor's; it has an effect only where*"
            for one in ("include: OfMine", "wait: MyAgentSetupError")]
    project.run(*given, "--harbor-retry-exclude=TrialError").stdout.fnmatch_lines(told)
    strict = project.run(*given, "-W", "error")
    assert strict.ret == pytest.ExitCode.USAGE_ERROR
    strict.stderr.fnmatch_lines(told[:1])


def test_an_overridden_ini_value_restricts_no_more(resolved, project):
    project.ini("harbor_network = no-network", "harbor_deny_host = b.example")
    overridden = ("-o", "harbor_network=public", "-o", "harbor_deny_host=")
    assert resolved(*overridden).network == NetworkSettings()
    project.ini("harbor_allow_host = a.example")
    found = resolved("-o", "harbor_allow_host=c.example", "--harbor-allow-host=c.example")
    assert found.network.allowed == ("c.example",)


def test_denied_hosts_of_ini_file_and_command_line_add_up(resolved, project):
    project.ini("harbor_deny_host = a.example b.example")
    found = resolved("--harbor-deny-host=c.example", "--harbor-deny-host=a.example")
    assert found.network.denied == ("a.example", "b.example", "c.example")


def test_a_refused_endpoint_does_not_show_what_its_url_holds(project):
    result = project.run("--harbor-endpoint=https://me:s3cr3t@a.example/v1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "s3cr3t" not in result.stderr.str() + result.stdout.str()


def test_keep_without_a_value_means_failed_and_takes_no_path(resolved, project):
    assert resolved("--harbor-keep").keep == "failed"
    project.task("hello")
    result = project.run("--harbor-keep", "tasks")
    result.stderr.fnmatch_lines(["*got 'tasks'; write the value behind an equals sign*"])


def test_output_is_found_from_where_it_was_written(resolved, project, monkeypatch):
    folder = project.path / "tasks"
    folder.mkdir()
    project.ini("harbor_output = out")
    monkeypatch.chdir(folder)
    assert resolved().output == project.path / "out"
    assert resolved("--harbor-output=mine").output == folder / "mine"
    assert resolved("--harbor-output=/tmp/x/../y").output == Path("/tmp/y")
    assert resolved("--harbor-output=~/z").output == Path(os.path.expanduser("~/z"))


def test_options_are_listed_with_their_ini_twins(project):
    shown = project.run("--help").stdout.str()
    assert "Harbor tasks:" in shown
    for name in ("agent", "agent-command", "keep", "verifier-timeout-multiplier"):
        assert f"--harbor-{name}" in shown
        assert f"harbor_{name.replace('-', '_')} (" in shown


def test_an_option_that_is_not_built_is_refused(project):
    result = project.run("--harbor-not-built")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*unrecognized arguments: --harbor-not-built*"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "prices.toml: the prices cannot be read: No such file or directory"),
        ('["openai/m"]\ninput = 1\n', "prices.toml:1: not a table of prices: *'output'*"),
        ("\n[openai\n", "prices.toml:2: not a table of prices: not TOML: *"),
    ],
)
def test_prices_that_cannot_be_read_are_one_error_with_file_and_line(project, text, said):
    if text is not None:
        (project.path / "prices.toml").write_text(text)
    run = project.run("--harbor-prices=prices.toml")
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines([f"*--harbor-prices: *{said}*"])


def test_prices_may_stand_in_the_ini_file(project, resolved):
    (project.path / "prices.toml").write_text('["openai/m"]\ninput = 1\noutput = 2\n')
    found = resolved("-o", "harbor_prices=prices.toml")
    assert found.prices == project.path / "prices.toml"
