"""The report in a real browser: what can be done with it, and that no text of a job acts."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_harbor.report.page import write_report
from tests.report.large import fill_job

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAX_NODES = 6_000
MAX_FILE_BYTES = 40 * 1024**2
EVIL = (
    "</script><script>window.acted=1</script><img src=x onerror=window.acted=1>"
    "\"'`${window.acted=1}<svg onload=window.acted=1>"
    "\u2028\u2029\u202egnp\u2066\x00\x1b[31m\x9b]]>-->&lt;\ud800"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright import sync_api as api

    program = os.environ.get("PYTEST_HARBOR_BROWSER") or next(
        filter(None, map(shutil.which, NAMES)), None
    )
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is in the PATH")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Open a job's report; whatever the page complains of fails the test."""
    complaints: list[str] = []
    page = browser.new_page(viewport={"width": 1300, "height": 900})
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda one: one.url.startswith("file:") or complaints.append(one.url))

    def open_report(job: Any, **more: Any) -> Any:
        path = tmp_path / "report.html"
        write_report(job.path, path, **more)
        assert path.stat().st_size < MAX_FILE_BYTES
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_report
    page.close()
    assert complaints == []


def column(page: Any, number: int) -> list[str]:
    return page.eval_on_selector_all(
        ".body .row", f"rows => rows.map(row => row.children[{number}].textContent)"
    )


def test_trials_are_sorted_filtered_and_opened(job: Any, opened: Any) -> None:
    job.task("b", "Sort the <b>list</b>.")
    for name, reward in (("a", 0.5), ("b", 1.0), ("c", None), ("d", 0.0)):
        job.trial(f"{name}__aaaaaaa", reward, files={"verifier/test-stdout.txt": f"said {name}"})
    page = opened(job)
    reward = page.locator(".head button", has_text="Reward")
    reward.click()
    assert column(page, 0) == ["org/d", "org/a", "org/b", "org/c"]
    reward.click()
    assert column(page, 0) == ["org/b", "org/a", "org/d", "org/c"]
    page.fill("#filter", "org/ no valid")
    assert column(page, 0) == ["org/c"]
    page.fill("#filter", "nothing like it")
    assert page.locator(".empty").text_content() == "No trial matches."
    page.fill("#filter", "")
    page.select_option("#by-outcome", "failed")
    assert column(page, 0) == ["org/a", "org/d"]
    page.select_option("#by-outcome", "")
    page.locator(".body .row", has_text="org/b").click()
    page.wait_for_selector("dialog[open]")
    text = page.locator("dialog").inner_text()
    assert "Sort the <b>list</b>." in text
    assert "said b" in text
    page.keyboard.press("ArrowRight")
    page.locator("dialog h1", has_text="org/a").wait_for()
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0


def hostile_trial(job: Any) -> None:
    finding = {"code": EVIL, "level": "suspicious", "message": EVIL, "path": EVIL}
    call = {
        "tool_call_id": EVIL,
        "function_name": EVIL,
        "arguments": {"old_str": EVIL, "new_str": "x"},
    }
    step = {
        "source": EVIL,
        "message": EVIL,
        "reasoning_content": EVIL,
        "model_name": EVIL,
        "tool_calls": [call, {"function_name": EVIL, "arguments": {EVIL: EVIL}}],
        "observation": {"results": [{"content": EVIL}]},
    }
    refused = {"destination": EVIL, "port": 1, "protocol": EVIL, "count": 1}
    file_name = "".join(char for char in EVIL if char.isprintable() and char != "/")
    job.trial(
        "evil__aaaaaaa",
        0.5,
        agent=EVIL,
        model=(EVIL, EVIL),
        task_name=EVIL,
        verifier_result={"rewards": {EVIL: 0.5}},
        exception_info={"exception_type": EVIL, "exception_message": EVIL},
        own={"integrity": {"grading": EVIL, "findings": [finding], "left_running": [EVIL]}},
        files={
            "agent/trajectory.json": {"steps": [step]},
            f"agent/{file_name}": EVIL,
            f"artifacts/{file_name}.patch": f"+{EVIL}",
            "artifacts/manifest.json": [{"source": EVIL, "status": EVIL}],
            "verifier/test-stdout.txt": EVIL,
            "verifier/ctrf.json": {
                "results": {
                    "tests": [{"name": EVIL, "status": EVIL, "message": EVIL}],
                    "tool": {"name": EVIL},
                }
            },
            "network.json": {"phases": [{"phase": EVIL, "policy": EVIL, "refused": [refused]}]},
            "exception.txt": EVIL,
        },
    )


def test_hostile_text_in_every_field_is_shown_and_does_nothing(
    job: Any, make_job: Any, opened: Any
) -> None:
    hostile_trial(job)
    job.task("evil", EVIL)
    job.write("config.json", {"job_name": EVIL})
    before = make_job("before")
    hostile_trial(before)
    before.write("config.json", {"job_name": EVIL})
    page = opened(job, baseline=before.path)
    page.locator(".body .row").first.click()
    page.wait_for_selector("dialog[open]")
    page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true; })")
    page.wait_for_timeout(100)
    assert page.evaluate("window.acted") is None
    assert page.locator("img, iframe, dialog script").count() == 0
    shown = page.locator("body").inner_text()
    assert shown.count("<img src=x onerror=window.acted=1>") > 10
    assert not set("\u202e\u2028\x00\x1b\x9b") & set(shown)


@pytest.mark.parametrize(
    "size",
    [
        10,
        pytest.param(200, marks=pytest.mark.long),
        pytest.param(2000, marks=pytest.mark.long),
    ],
)
def test_a_job_of_any_size_is_a_small_page(
    job: Any, opened: Any, size: int, record_property: Any
) -> None:
    fill_job(job, size)
    page = opened(job)
    took = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    record_property("opened_ms", took)
    assert page.locator("#shown").text_content().replace("\u202f", "") == f"{size} trials"
    assert page.evaluate("document.querySelectorAll('*').length") < MAX_NODES
    assert page.locator(".body .row").count() < 60
    page.eval_on_selector("#table", "table => { table.scrollTop = table.scrollHeight; }")
    page.locator(".body .row").last.click()
    page.wait_for_selector("dialog[open] .step")
