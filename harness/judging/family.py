"""Members: what each bar and claim is judged on, one by one, from the registration alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from harness.judging.evidence import MAIN
from prereg.errors import InputError
from prereg.registration import Bar, Claim, Registration
from prereg.resolved import Estimator, StatisticSpec

Key = tuple[str, str | None, str | None, str | None, str]

UNPOOLED: tuple[Estimator, ...] = ("rare_mean", "bracket", "draws")
"""Estimators whose per-pair uncertainty a spread between seeds would hide."""


@dataclass(frozen=True, slots=True)
class Member:
    """One scalar that is judged: a statistic at a site, for a pair (or over seeds), in an arm."""

    statistic: str
    site: str | None
    pair: str | None
    arm: str | None
    seeds: tuple[str, ...] = ()
    """Labels of the pairs that are pooled; then `pair` is none."""

    def evidence_keys(self, case: str = MAIN) -> tuple[Key, ...]:
        """Keys of the evidence records it rests on: one, or one a seed."""
        pairs: tuple[str | None, ...] = self.seeds or (self.pair,)
        return tuple((self.statistic, self.site, pair, self.arm, case) for pair in pairs)

    def __str__(self) -> str:
        pair = "over " + ", ".join(self.seeds) if self.seeds else self.pair
        return ", ".join(part for part in (self.statistic, self.site, pair, self.arm) if part)


def members(registration: Registration) -> dict[str, tuple[Member, ...]]:
    """The members of every bar that does not abstain and every claim, by name, as registered.

    A claim has one member for each of its sites (if its statistic has sites) and pairs (none within
    one model); with `pool: seeds` one for each site.

    Raises:
        InputError: for a statistic that was not resolved or has no role for a control, a site,
            pair or arm that does not exist or stands twice, a pool of what cannot be pooled, and a
            p-valued claim that is not of kind `differs` and accepted `below` 1 - level.
    """
    return {
        name: _members(name, judged, registration)
        for name, judged in registration.claim.judged().items()
    }


def is_primary(judged: Bar | Claim) -> bool:
    """Whether a bar or claim decides the registration; bars always do."""
    return isinstance(judged, Bar) or judged.role == "primary"


def family_size(registration: Registration, family: Mapping[str, tuple[Member, ...]]) -> int:
    """m: the number of members of all primary bars and claims."""
    judged = registration.claim.judged()
    return sum(len(found) for name, found in family.items() if is_primary(judged[name]))


def _members(name: str, judged: Bar | Claim, registration: Registration) -> tuple[Member, ...]:
    spec = registration.resolved.statistics.get(judged.statistic)
    if spec is None:
        _refuse(
            f"the statistic {judged.statistic} of {name}, which was not resolved",
            expected=f"one of {', '.join(sorted(registration.resolved.statistics))}",
            code="statistic",
        )
    _check_roles(name, judged, spec=spec, registration=registration)
    _check_p_valued(name, judged, spec=spec, level=registration.claim.decision.level)
    _check_arm(name, judged, spec=spec)
    sites = _sites(name, judged, spec=spec, registration=registration)
    pairs = _pairs(name, judged, registration=registration)
    if judged.pool == "seeds":
        if spec.estimator in UNPOOLED or None in pairs:
            _refuse(
                f"pool: seeds for {name} ({spec.estimator}, {len(pairs)} pairs)",
                expected=f"pairs, and an estimator other than {', '.join(UNPOOLED)}",
                code="pool",
            )
        seeds = tuple(pair for pair in pairs if pair is not None)
        return tuple(Member(spec.id, site, None, judged.arm, seeds) for site in sites)
    return tuple(Member(spec.id, site, pair, judged.arm) for site in sites for pair in pairs)


def _sites(
    name: str, judged: Bar | Claim, *, spec: StatisticSpec, registration: Registration
) -> tuple[str | None, ...]:
    if not spec.per_site:
        if judged.over.sites != "all":
            _refuse(
                f"sites for {name}, whose statistic {spec.id} has none",
                expected="no `sites` under `over`",
                code="site",
            )
        return (None,)
    known = registration.resolved.sites
    chosen = known if judged.over.sites == "all" else judged.over.sites
    _check_choice(name, chosen, known=known, what="site")
    return chosen


def _pairs(name: str, judged: Bar | Claim, *, registration: Registration) -> tuple[str | None, ...]:
    known = tuple(registration.claim.subjects.others)
    chosen = known if judged.over.pairs == "all" else judged.over.pairs
    _check_choice(name, chosen, known=known, what="pair")
    within = registration.claim.subjects.mode == "within"
    return (None,) if within and judged.over.pairs == "all" else chosen


def _check_choice(name: str, chosen: tuple[str, ...], *, known: tuple[str, ...], what: str) -> None:
    odd = [item for item in chosen if item not in known or chosen.count(item) > 1]
    if odd:
        _refuse(
            f"the {what} {odd[0]} of {name}, unknown or twice",
            expected=f"each once, of {', '.join(known) or 'none'}",
            code=what,
        )


def _check_arm(name: str, judged: Bar | Claim, *, spec: StatisticSpec) -> None:
    if judged.arm not in (spec.arms or (None,)):
        _refuse(
            f"the arm {judged.arm} of {name}",
            expected=f"one of {', '.join(spec.arms)}" if spec.arms else "no arm",
            code="arm",
        )


def _check_roles(
    name: str, judged: Bar | Claim, *, spec: StatisticSpec, registration: Registration
) -> None:
    roles = spec.roles.get(judged.kind, {})
    without = [c.name for c in registration.resolved.suite.controls if c.name not in roles]
    if judged.kind not in spec.roles or without:
        _refuse(
            f"no role of {', '.join(without) or 'any control'} for {name} ({judged.kind})",
            expected=f"a role of every control in the catalogue entry {spec.id}",
            code="role",
        )


def _check_p_valued(name: str, judged: Bar | Claim, *, spec: StatisticSpec, level: float) -> None:
    if spec.estimator != "draws":
        return
    region = judged.region
    if (
        judged.kind != "differs"
        or math.isfinite(region.lower)
        or not math.isclose(region.upper, 1.0 - level, rel_tol=1e-9)
    ):
        _refuse(
            f"the p-valued claim {name}: kind {judged.kind}, accepted {region}",
            expected=f"kind: differs, below: {1.0 - level:.9g} (1 - level): a p-value can only "
            "speak against its null, and at the registered level",
            code="p-valued",
        )


def _refuse(found: str, *, expected: str, code: str) -> NoReturn:
    raise InputError(
        found,
        expected=expected,
        fix="correct the hypothesis file and check it again (`prebench check`)",
        code=f"judging.{code}",
    )
