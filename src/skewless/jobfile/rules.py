"""What the keys of an operator must be to one another. The engine says the same, when it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from skewless.conditions import UNBOUNDED
from skewless.jobfile.reading import Section
from skewless.jobfile.text import meant
from skewless.operators.join_type import join_type

ROLES = ("r", "s", "t")
TIME = "the name of the event-time column"
UNLESS_UNBOUNDED = f'{TIME} (only within = "unbounded" can do without)'
STRATEGY_KEYS = ("strategy", "balance", "grouping")


def check_step(operator: str, step: Section, inputs: tuple[str, ...]) -> None:
    """Notes keys that do not go together."""
    for older in ("balance", "grouping"):
        if older in step and "strategy" in step:
            step.refuse(older, "left out where `strategy` is given")
    if operator in RULES:
        RULES[operator](step, inputs)


def _check_join(step: Section, inputs: tuple[str, ...]) -> None:
    within = step.get("within")
    _check_two_times(step, unbounded=within is UNBOUNDED, why=UNLESS_UNBOUNDED)
    how = join_type(step.get("how", "inner"))
    if "within" not in step.values or how is None:
        return
    ends = within if isinstance(within, tuple) else (within, within)
    for side, end, name in (("left", ends[1], "upper"), ("right", ends[0], "lower")):
        if side in how.unmatched and end is UNBOUNDED:
            step.refuse(
                "how",
                f'"inner" or a semi join where `within` has no {name} bound: as long as a partner '
                "may come at any time, no row is certain to have none",
            )


def _check_asof(step: Section, inputs: tuple[str, ...]) -> None:
    _check_two_times(step, unbounded=False, why=TIME)


def _check_two_times(step: Section, *, unbounded: bool, why: str) -> None:
    """`time` says it for both sides; `left_time` and `right_time` one by one."""
    given = [key for key in ("left_time", "right_time") if key in step]
    if "time" in step and given:
        step.refuse("time", f"left out where {', '.join(given)} says it, too")
    elif len(given) == 1:
        step.note_missing("right_time" if given == ["left_time"] else "left_time", why)
    elif "time" not in step and not given and not unbounded:
        if "within" in step and "within" not in step.values:
            return  # it may be meant to be unbounded
        step.note_missing("time", why)


def _check_join3(step: Section, inputs: tuple[str, ...]) -> None:
    within = step.get("within")
    bounds = list(within.values()) if isinstance(within, dict) else [within]
    if "time" not in step and any(bound not in (None, UNBOUNDED) for bound in bounds):
        step.note_missing("time", UNLESS_UNBOUNDED)
    conditions = step.get("on")
    if conditions is None or len(inputs) != 3:
        return
    found = step.values["on"] = [by_role(step, i, inputs) for i in range(len(conditions))]
    if None in found:
        return
    pairs = {"".join(sorted((c.left[0], c.right[0]))) for c in found}
    if len(pairs) < 2:
        step.refuse("on", "conditions that link all three inputs: between two pairs, or all three")
    elif isinstance(within, dict) and set(within) != pairs:
        step.refuse("within", f"one for each pair with a condition: {', '.join(sorted(pairs))}")


def by_role(step: Section, number: int, inputs: tuple[str, ...]) -> Any:
    """A condition whose columns begin with r, s or t, as the engine has it; None if it cannot be
    understood."""
    condition, path = step.values["on"][number], (*step.path, "on", number)
    if condition is None:
        return None  # what is wrong with it was told
    named = {}
    for side in ("left", "right"):
        name, _, column = getattr(condition, side).partition(".")
        role = role_of(name, inputs)
        if role is None:
            known = (*dict.fromkeys(inputs), *ROLES)
            message = f"`{name}` is none of the inputs: {', '.join(known)}{meant(name, known)}"
            if inputs.count(name) > 1:
                message = f"`{name}` is there several times: say r, s or t instead"
            step.text.note(path, message)
            continue
        named[side] = f"{role}.{column}"
    if len(named) < 2:
        return None
    if named["left"][0] == named["right"][0]:
        step.text.note(path, "a condition must be between two inputs; this one is on one alone")
        return None
    return replace(condition, **named)


def role_of(name: str, inputs: tuple[str, ...]) -> str | None:
    """Which of three inputs a name means; its own name goes before r, s and t."""
    if name in inputs:
        return ROLES[inputs.index(name)] if inputs.count(name) == 1 else None
    return name if name in ROLES else None


def _check_similarity(step: Section, inputs: tuple[str, ...]) -> None:
    if "within" in step and "window" in step:
        step.refuse("window", "left out where `within` is given")
    elif "within" not in step and "window" not in step:
        step.note_missing("within", "how far apart in time rows may be, or else `window`")
    unbounded = step.get("within") is UNBOUNDED
    if len(inputs) > 1:
        _check_two_times(step, unbounded=unbounded, why=UNLESS_UNBOUNDED)
        return
    if not {"time", "left_time"} & set(step.raw) and not unbounded:
        step.note_missing("time", UNLESS_UNBOUNDED)
    if "right_time" in step:
        step.refuse("right_time", "left out where there is one input")
    for key in ("late", "idle_after", "max_ahead", "within", "time"):
        if isinstance(step.get(key), tuple):
            step.refuse(key, "one, as there is one input")
    if isinstance(step.get("on"), tuple):
        step.refuse("on", "columns of the one input there is")


def _check_aggregate(step: Section, inputs: tuple[str, ...]) -> None:
    if "window" in step:
        if "time" not in step:
            step.note_missing("time", f"{TIME}, as there is a `window`")
        return
    for key in ("time", "late", "idle_after", "max_ahead"):
        if key in step:
            step.refuse(key, "left out where there is no `window`")


RULES: dict[str, Callable[[Section, tuple[str, ...]], None]] = {
    "join": _check_join,
    "asof_join": _check_asof,
    "join3": _check_join3,
    "similarity_join": _check_similarity,
    "aggregate": _check_aggregate,
}
