"""Which controls a registration runs: the suite's own, as the hypothesis changes them."""

from __future__ import annotations

from collections.abc import Mapping

from harness.suite import Suite
from prereg.errors import InputError
from prereg.near import unknown
from prereg.registration import ControlChanges, Hypothesis
from prereg.resolved import ControlSpec, StatisticSpec


def controls_of(
    hypothesis: Hypothesis, chosen: Suite, statistics: Mapping[str, StatisticSpec]
) -> tuple[ControlSpec, ...]:
    """The controls that decide something for a judged statistic, as the registration changes them.

    Comparators ride along where a control runs anyway; `controls.add` asks for more.
    """
    by_name = {control.name: control for control in chosen.controls}
    changes = ControlChanges() if isinstance(hypothesis.controls, str) else hypothesis.controls
    for name in (*changes.add, *(dropped.control for dropped in changes.drop)):
        if name not in by_name:
            raise unknown(
                f"no control {name!r} in suite {chosen.name}",
                name,
                tuple(by_name),
                code="registration.unknown-control",
            )
    if hypothesis.subjects.mode == "within":
        _check_within(hypothesis, changes, statistics)
    used = {
        control
        for judged in hypothesis.judged().values()
        for control, role in statistics[judged.statistic].roles[judged.kind].items()
        if role in ("must-pass", "must-fail")
    }
    models = hypothesis.subjects.controls
    for name in changes.add:
        if by_name[name].named and name not in models:
            raise InputError(
                f"controls.add: {name}, and no model for it",
                expected=f"a model under subjects.controls.{name}: {by_name[name].by}",
                fix="name the model there; the control then runs without being added",
                code="registration.control-without-model",
            )
    kept = (used | set(changes.add) | set(models)) - {dropped.control for dropped in changes.drop}
    return tuple(
        control
        for control in chosen.controls
        if control.name in kept and (not control.named or control.name in models)
    )


def _check_within(
    hypothesis: Hypothesis, changes: ControlChanges, statistics: Mapping[str, StatisticSpec]
) -> None:
    """Within one model no control may bring in what only a pair could be compared with."""
    known = {
        control
        for judged in hypothesis.judged().values()
        for control, role in statistics[judged.statistic].roles[judged.kind].items()
        if role != "not-applicable"
    }
    for place, names in (
        ("subjects.controls", hypothesis.subjects.controls),
        ("controls.add", changes.add),
    ):
        for name in names:
            if name not in known:
                raise InputError(
                    f"{place}: {name}, within one model",
                    expected=f"a control that applies there: {', '.join(sorted(known)) or 'none'}",
                    fix="leave it out, or name another model under subjects.others",
                    code="registration.control-of-pairs",
                )
