"""Breaking the grading takes no trial out of the rates."""

import pytest

pytestmark = pytest.mark.docker

# Shells that do nothing and succeed; the one that runs now must not be written to.
NO_SHELLS = "for s in bash sh; do cp /bin/true /tmp/$s; mv /tmp/$s /bin/$s; done"

KILLS = (
    "echo 'while :; do for p in /proc/[0-9]*; do grep -qsa {victim}"
    " && kill -9 ${{p#/proc/}}; done; done 2>/dev/null' > /tmp/k;"
    " (setsid bash /tmp/k >/dev/null 2>&1 &) ; sleep 0.3"
)


@pytest.mark.parametrize(
    ("tampering", "code"),
    [
        pytest.param(NO_SHELLS, "replaced-program", id="sh"),
        pytest.param(
            KILLS.format(victim="[t]ests/test.sh $p/cmdline"), "grading-disturbed", id="verifier"
        ),
        pytest.param(KILLS.format(victim="^sleep $p/comm"), "grading-disturbed", id="view"),
        pytest.param(
            f"{NO_SHELLS}; echo API Error: 401 invalid x-api-key; exit 1",
            "replaced-program",
            id="excuse",
        ),
    ],
)
def test_a_trial_whose_grading_the_agent_broke_counts_as_not_passed(
    make_task, run_tasks, tampering, code
):
    make_task()
    ran = run_tasks("tasks", f"--harbor-agent-command={tampering}")
    ran.run.assert_outcomes(failed=1)
    ran.run.stdout.no_fnmatch_line("ERROR *")
    result = ran.one()
    found = result["pytest_harbor"]["integrity"]["findings"]
    assert code in {one["code"] for one in found if one["level"] == "suspicious"}
    assert result["pytest_harbor"]["category"] == "reward"


def test_a_box_that_breaks_before_it_was_looked_at_is_looked_at(make_task, run_tasks):
    make_task(
        toml="""
        [[verifier.collect]]
        command = "true"
        """
    )
    ran = run_tasks("tasks", f"--harbor-agent-command={NO_SHELLS}", "--harbor-strict-collect")
    assert ran.one()["pytest_harbor"]["category"] == "reward"
