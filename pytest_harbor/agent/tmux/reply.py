"""What the model is asked to answer, and how its answer is read."""

from __future__ import annotations

import json

from pydantic import BaseModel, Field, ValidationError

from pytest_harbor.result.trajectory_reader import problems_of

RULES = """\
You work in a terminal of a Linux machine. Below is what is to be done, and what the terminal \
shows. You see the terminal again after each of your answers.

Answer with one JSON object and nothing else:

{
  "analysis": "what you see, what is done, what is left",
  "plan": "what you do next, and what you expect of it",
  "commands": [{"keystrokes": "ls -la\\n", "duration": 0.5}],
  "task_complete": false
}

- "keystrokes" are typed as they are. A command runs only if they end with a newline. Keys are \
named as in tmux, each alone in its "keystrokes": "C-c", "C-d", "Escape", "Up".
- "duration" is how many seconds to wait before what comes next, 1 if left out, 60 at most. Wait \
little, and look again: "keystrokes" may be empty.
- Set "task_complete" to true, without commands, once you have seen that all is done. The \
terminal and what runs in it end then: a program that has to go on is started with setsid.
"""

_MAX_WAIT_SEC = 60.0


class Keys(BaseModel):
    """Keys to press, and how long to wait then."""

    keystrokes: str = ""
    duration: float = Field(default=1.0, ge=0)

    @property
    def wait_sec(self) -> float:
        """Seconds to wait, within bounds."""
        return min(self.duration, _MAX_WAIT_SEC)


class Reply(BaseModel):
    """One answer of the model's."""

    analysis: str = ""
    plan: str = ""
    commands: list[Keys] = []
    task_complete: bool = False

    @property
    def words(self) -> str:
        """What it says, without what it does."""
        return "\n\n".join(filter(None, (self.analysis, self.plan)))


def read_reply(text: str) -> Reply:
    """The answer in a text, which may have other words around it.

    Raises:
        ValueError: There is none; says what is wrong.
    """
    found = _first_object(text)
    if found is None:
        raise ValueError("it holds no JSON object")
    try:
        return Reply.model_validate(found)
    except ValidationError as error:
        raise ValueError("; ".join(problems_of(error))) from None


def _first_object(text: str) -> dict[str, object] | None:
    decoder = json.JSONDecoder(strict=False)
    start = text.find("{")
    while start >= 0:
        try:
            found, _ = decoder.raw_decode(text, start)
        except json.JSONDecodeError:
            found = None
        except RecursionError:
            return None
        if isinstance(found, dict) and found.keys() & Reply.model_fields.keys():
            return found
        start = text.find("{", start + 1)
    return None
