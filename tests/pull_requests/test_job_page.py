"""The summary for a job's page, read by GitHub's own Markdown."""

import html
from pathlib import Path

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options

from pytest_harbor.report.annotations import Annotation
from pytest_harbor.report.job_page import Outcome, TaskRow, code, job_page

GOLDEN = Path(__file__).parent / "golden" / "job_page.md"

HOSTILE = (
    "[a](https://evil.example)",
    "![a](https://evil.example/x.png)",
    "<img src=x onerror=alert(1)><script>alert(1)</script>",
    "https://evil.example www.evil.example WWW.evil.example a@evil.example",
    "@somebody #12 GH-12",
    "a | b |\n| --- |\n| c |",
    "`code` ``` **bold** ~~gone~~ $x$ :smile:",
    "</code><h1>big</h1><code>",
    "# head\n\n- list\n\n```\nfence\n",
    "&lt;b&gt; &#60;b&#62;",
    "\\| \\` \\",
    "‮turned \x1b[31m \x00 \ud800",
    "<!-- open",
    "[^1]\n\n[^1]: note",
    "[a]: https://evil.example",
    "x" * 10_000,
    "",
)


def row(name: str, *outcomes: Outcome, errors: int = 0, warnings: int = 0) -> TaskRow:
    return TaskRow(name, list(outcomes), errors, warnings)


TASKS = [
    row("tasks/good", Outcome("check"), Outcome("oracle", reward=1, seconds=3.2), Outcome("nop")),
    row(
        "tasks/bad",
        Outcome("check", "failed"),
        Outcome("oracle", "failed", 0.5, 70),
        Outcome("oracle", "passed", 1, 80),
        Outcome("nop", "error", None, 1),
        Outcome("mutant-1", "passed", 0, 1),
        errors=1,
        warnings=2,
    ),
    row("tasks/gpu", Outcome("check"), Outcome("oracle", "skipped")),
]
FINDINGS = [
    Annotation("warning", "tasks/bad/task.toml", None, "large-task", "120 MB", "large-task", "b"),
    Annotation("error", "tasks/bad/task.toml", 8, "unknown-field", "memroy", "unknown-field", "b"),
    Annotation("error", None, None, "nop: error in setup", "no engine answers", "failed", "b"),
]


def render(text: str) -> str:
    return cmarkgfm.github_flavored_markdown_to_html(text, Options.CMARK_OPT_UNSAFE)


def test_the_page() -> None:
    assert job_page(TASKS, FINDINGS, ["3 of 120 tasks changed since main"]) == GOLDEN.read_text()


def test_the_page_is_a_table_and_a_list() -> None:
    page = render(job_page(TASKS, FINDINGS))
    assert page.count("<tr>") == 4
    assert page.count("<li>") == 3
    assert page.count("<table>") == 1


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text(text: str) -> None:
    finding = Annotation("error", text or None, 1, text, text, text, text)
    rows = [row(text, Outcome(text)), row("b", Outcome("check"))]
    page = render(job_page(rows, [finding], [text]))
    for tag in ("<a ", "<a>", "<img", "<script", "<h1", "<del", "<pre", "<section"):
        assert tag not in page
    assert page.count("<tr>") == 3
    assert page.count("<li>") == 1
    assert page.count("<code>") == page.count("</code>") == (7 if text else 6)
    assert page.isprintable() or "\n" in page
    assert "\x1b" not in page
    assert "‮" not in page


def test_code_is_read_as_it_was_written() -> None:
    text = "a_b*c [d](e) <f> `g` | h & i @j #k ~l $m www.n.o http://p"
    shown = html.unescape(render(code(text)).replace("<!-- -->", ""))
    assert shown == f"<p><code>{text}</code></p>\n"


def test_a_page_that_would_be_too_large_says_what_it_lacks() -> None:
    many = [row(f"tasks/{n:05}", Outcome("check")) for n in range(900)]
    findings = [Annotation("error", "x" * 90, n, "t", "ü" * 400, "c", f"{n}") for n in range(900)]
    page = job_page(many, findings, limit=100_000)
    assert 90_000 < len(page.encode()) <= 100_000
    assert render(page).count("<li>") < 900
    assert f"Left out, for the page's size: {900 - render(page).count('<li>')} findings." in page
    small = job_page(many, findings, limit=20_000)
    assert len(small.encode()) <= 20_000
    assert "rows" in small
    assert "900 findings" in small


def test_failed_tasks_come_first() -> None:
    page = job_page(TASKS, [])
    assert page.index("bad") < page.index("gpu") < page.index("good")


def test_many_agents_share_a_column() -> None:
    agents = [Outcome(f"agent{n}", "failed" if n == 8 else "passed", 0.5) for n in range(9)]
    page = job_page([row("t", *agents)], [])
    assert "| Others | Reward |" in page
    assert "❌ 3 of 4 | 0.5 |" in page


def test_the_reward_is_that_of_who_was_to_solve_it() -> None:
    outcomes = [
        Outcome("oracle", reward=1),
        Outcome("nop", reward=0),
        Outcome("mutant-1", reward=0),
    ]
    assert "| 1 | 0.0 s |" in job_page([row("t", *outcomes)], [])
