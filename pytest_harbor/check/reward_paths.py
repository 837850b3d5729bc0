"""Whether a test script writes a reward whichever way it goes.

The script is walked as its shell would, with what is known of the reward on each way:
optimistic wherever the syntax does not tell, so that what is found is worth a look.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tree_sitter import Node

from pytest_harbor.check.shell import ShellScript, command_of, line_of, text_of, walk

States = frozenset[bool]
"""On the ways that lead here: the reward is written (True) or not yet (False)."""

_REWARD = re.compile(r"reward\w*\.(?:txt|json)", re.IGNORECASE)
_RUNS_TESTS = re.compile(
    r"pytest|unittest|/tests/|\bnpm (?:run )?test|cargo test|go test|make test|ctest|mvn |gradle"
)
_SEQUENCES = frozenset(
    {"program", "compound_statement", "subshell", "do_group", "redirected_statement", "pipeline"}
)
_NOWHERE: States = frozenset()


@dataclass(frozen=True, slots=True)
class RewardlessEnd:
    """A way out of the script on which no reward was written.

    Attributes:
        line: Where it ends.
        why: How.
    """

    line: int
    why: str


@dataclass(slots=True)
class _Walk:
    writes: Callable[[Node], bool]
    functions: dict[str, Node] = field(default_factory=dict)
    ends: list[RewardlessEnd] = field(default_factory=list)
    stops_on_error: bool = False
    in_condition: int = 0


def rewardless_ends(
    script: ShellScript, writes_by_itself: Iterable[str] = ()
) -> list[RewardlessEnd]:
    """The ways out of the script without a reward; none is reported twice.

    An ``exit`` with a number other than 0 is none of them: that is how a script says that
    there is no verdict.

    Args:
        script: The test script.
        writes_by_itself: Words that mean a program which writes the reward.
    """
    names = _reward_variables(script)
    marks = (*writes_by_itself, *(f"${name}" for name in names), *(f"${{{n}}}" for n in names))

    def writes(node: Node) -> bool:
        text = text_of(node)
        return bool(_REWARD.search(text)) or any(mark in text for mark in marks)

    known = _Walk(writes)
    for node in walk(script.root):
        if node.type == "function_definition" and (name := node.child_by_field_name("name")):
            known.functions[text_of(name)] = node
        elif node.type == "command" and _is_trap(node) and writes(node):
            return []
    first = script.source.split(b"\n", 1)[0]
    known.stops_on_error = first.startswith(b"#!") and b" -e" in first
    true, false = _run(script.root, frozenset({False}), known)
    if False in true | false:
        last = script.source.count(b"\n") + (not script.source.endswith(b"\n"))
        known.ends.append(RewardlessEnd(max(last, 1), "the script's end can be reached"))
    return list(dict.fromkeys(known.ends))


def _reward_variables(script: ShellScript) -> list[str]:
    """Variables that hold the path of a reward file."""
    found = []
    for node in walk(script.root):
        if node.type == "variable_assignment" and _REWARD.search(text_of(node)):
            name = node.child_by_field_name("name")
            found += [text_of(name)] if name else []
    return found


def _is_trap(node: Node) -> bool:
    return command_of(node).name == "trap"


def _run(node: Node, states: States, known: _Walk) -> tuple[States, States]:
    """What holds behind a statement, where it succeeds and where it fails."""
    if not states or node.type in ("comment", "function_definition"):
        return states, _NOWHERE if node.type == "comment" else states
    if node.type in _STATEMENTS:
        return _STATEMENTS[node.type](node, states, known)
    if node.type in _SEQUENCES:
        return _sequence(node, states, known)
    written = frozenset({True}) if known.writes(node) else states
    return written, written


def _sequence(node: Node, states: States, known: _Walk) -> tuple[States, States]:
    body = node.named_children[0] if node.named_children else node
    if node.type == "redirected_statement" and body.type == "list":
        # The parser hangs the redirection of a list's last command on the whole list.
        others = [child for child in node.named_children if child != body]
        return _list(body, states, known, any(known.writes(child) for child in others))
    if node.type in ("redirected_statement", "pipeline") and known.writes(node):
        return frozenset({True}), _NOWHERE
    true, false = states, _NOWHERE
    for child in node.named_children:
        if child.type.endswith("redirect"):
            continue
        true, false = _run(child, true | false, known)
        _stop_on_error(child, false, known)
    return true, false


def _stop_on_error(node: Node, failed: States, known: _Walk) -> None:
    """Under ``set -e`` tests that fail end the script then and there."""
    is_plain = node.type in ("command", "redirected_statement", "pipeline")
    if not (known.stops_on_error and is_plain and not known.in_condition and False in failed):
        return
    if _RUNS_TESTS.search(text_of(node)) and not known.writes(node):
        why = "under `set -e` tests that fail end the script here"
        known.ends.append(RewardlessEnd(line_of(node), why))


def _command(node: Node, states: States, known: _Walk) -> tuple[States, States]:
    command = command_of(node)
    if command.name in ("exit", "return"):
        _exit(command.plain[1:], node, states, known)
        return _NOWHERE, _NOWHERE
    if command.name == "set":
        _set(command.plain[1:], known)
    if known.writes(node):
        return frozenset({True}), _NOWHERE
    if command.words[:1] == ("exec",) and len(command.words) > 1:
        if False in states:
            why = "`exec` hands over to a program that is not known to write one"
            known.ends.append(RewardlessEnd(line_of(node), why))
        return _NOWHERE, _NOWHERE
    if command.name in known.functions:
        return _call(known.functions[command.name], states, known)
    if command.name in ("true", ":", "echo", "printf", "cd", "mkdir", "export", "set"):
        return states, states if command.name in ("cd", "mkdir") else _NOWHERE
    return (_NOWHERE, states) if command.name == "false" else (states, states)


def _exit(arguments: tuple[str, ...], node: Node, states: States, known: _Walk) -> None:
    status = arguments[0] if arguments else "$?"
    if False not in states or (status.isdigit() and int(status) != 0):
        return
    known.ends.append(RewardlessEnd(line_of(node), f"`exit {status}` is reached"))


def _set(arguments: tuple[str, ...], known: _Walk) -> None:
    for one in arguments:
        if one.startswith("-") and "e" in one.partition(" ")[0]:
            known.stops_on_error = True
        elif one.startswith("+") and "e" in one:
            known.stops_on_error = False


def _call(function: Node, states: States, known: _Walk) -> tuple[States, States]:
    body = function.child_by_field_name("body")
    if body is None or known.writes(body):
        return frozenset({True}), frozenset({True})
    without = {name: node for name, node in known.functions.items() if node != function}
    kept, known.functions = known.functions, without
    try:
        return _run(body, states, known)
    finally:
        known.functions = kept


def _list(
    node: Node, states: States, known: _Walk, last_writes: bool = False
) -> tuple[States, States]:
    left, right = node.named_children[0], node.named_children[-1]
    known.in_condition += 1
    true, false = _run(left, states, known)
    known.in_condition -= 1
    is_and = any(child.type == "&&" for child in node.children)
    reached = true if is_and else false
    then, other = _run(right, reached, known)
    if last_writes and reached:
        then, other = frozenset({True}), _NOWHERE
    return (then, other | false) if is_and else (true | then, other)


def _negated(node: Node, states: States, known: _Walk) -> tuple[States, States]:
    true, false = _run(node.named_children[-1], states, known)
    return false, true


def _if(node: Node, states: States, known: _Walk) -> tuple[States, States]:
    after: States = _NOWHERE
    condition = node.child_by_field_name("condition")
    head = node.children_by_field_name("condition") or ([condition] if condition else [])
    true, false = _condition(head, states, known)
    after |= _block(_inside(node, head), true, known)
    for clause in node.named_children:
        if clause.type == "elif_clause":
            conditions = [c for c in clause.named_children if c.type != "comment"][:1]
            true, false = _condition(conditions, false, known)
            after |= _block(_inside(clause, conditions), true, known)
        elif clause.type == "else_clause":
            after |= _block(clause.named_children, false, known)
            false = _NOWHERE
    return after | false, _NOWHERE


def _condition(nodes: list[Node], states: States, known: _Walk) -> tuple[States, States]:
    known.in_condition += 1
    true, false = states, states
    for node in nodes:
        if node.is_named:
            true, false = _run(node, true | false, known)
    known.in_condition -= 1
    return true, false


def _inside(node: Node, head: list[Node]) -> list[Node]:
    return [
        child
        for child in node.named_children
        if child not in head and child.type not in ("elif_clause", "else_clause")
    ]


def _block(nodes: Iterable[Node], states: States, known: _Walk) -> States:
    true, false = states, _NOWHERE
    for node in nodes:
        true, false = _run(node, true | false, known)
        _stop_on_error(node, false, known)
    return true | false


def _case(node: Node, states: States, known: _Walk) -> tuple[States, States]:
    after: States = _NOWHERE
    has_default = False
    for item in node.named_children:
        if item.type == "case_item":
            values = item.children_by_field_name("value")
            has_default |= any(text_of(value) == "*" for value in values)
            body = [child for child in item.named_children if child not in values]
            after |= _block(body, states, known)
    return after if has_default else after | states, _NOWHERE


def _loop(node: Node, states: States, known: _Walk) -> tuple[States, States]:
    """A loop is taken to run; its body may end the script only from within."""
    body = node.child_by_field_name("body")
    after = _block(body.named_children, states, known) if body else states
    return after | (_NOWHERE if True in after else states), _NOWHERE


_STATEMENTS: dict[str, Callable[[Node, States, _Walk], tuple[States, States]]] = {
    "command": _command,
    "list": _list,
    "negated_command": _negated,
    "if_statement": _if,
    "case_statement": _case,
    "for_statement": _loop,
    "while_statement": _loop,
    "c_style_for_statement": _loop,
}
