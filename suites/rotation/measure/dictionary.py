"""Readings of the reference's dictionaries, on its own states and on the other model's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from harness.gauge import fit
from harness.gauge.fit import Array
from harness.runners.measure import View
from harness.sae.dictionary import Dictionary
from harness.statistics.explained_variance import from_sums
from harness.statistics.undefined import UndefinedError
from suites.rotation.catalogue.dictionary import BY_ARM, LEAST_OWN
from suites.rotation.measure.frame import Frame, at, squared
from suites.rotation.measure.reading import Column, Place, Reading, Sums, ev, ev_difference


class Coder(Protocol):
    """What reconstructs states."""

    def reconstruct(self, x: Tensor) -> Tensor:
        """Reconstructions [tokens, d]."""

    def active(self, x: Tensor) -> Tensor:
        """Active features of each state, [tokens]."""


@dataclass(frozen=True, eq=False)
class PrincipalComponents:
    """Projection on the first k principal components: x^ = mean + (x - mean) E E^T, E [d, k]."""

    mean: Array
    basis: Array

    def reconstruct(self, x: Tensor) -> Tensor:
        """Reconstructions [tokens, d]."""
        mean, basis = at(self.mean, x), at(self.basis, x)
        return mean + ((x - mean) @ basis) @ basis.T

    def active(self, x: Tensor) -> Tensor:
        """k for each state, [tokens]."""
        return torch.full((len(x),), float(self.basis.shape[1]), device=x.device)


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained dictionary on fp64 states; it computes in the dtype of its weights."""

    dictionary: Dictionary

    def reconstruct(self, x: Tensor) -> Tensor:
        """Reconstructions [tokens, d]."""
        return self.dictionary.reconstruct(x.to(self.dictionary.W_dec.dtype)).to(x)

    def active(self, x: Tensor) -> Tensor:
        """Active features of each state, [tokens]."""
        return (self.dictionary.encode(x.to(self.dictionary.W_dec.dtype)) > 0).sum(1)


def coder(frame: Frame, site: str, variant: str) -> Coder:
    """The dictionary that the case reads at a site.

    Raises:
        UndefinedError: it could not be trained, because the states do not vary.
        ValueError: the case has none.
    """
    choice = frame.case.dictionary
    if choice.source is None:
        raise ValueError("expected a case with dictionaries")
    trained = choice.source.trained[site, variant]
    if choice.rule == "trained":
        return Trained(trained.dictionary)
    moments = frame.fitted[site].whole
    k = trained.dictionary.k or round(trained.facts.l0)
    basis = fit.principal_components(moments)[1][:, : max(1, k)]
    return PrincipalComponents(moments.mean_reference, basis)


def readings(frame: Frame, place: Place) -> Reading:
    """The reading of any statistic of a dictionary; `place.arm` names the dictionary."""
    if place.arm is None:
        raise ValueError(f"expected the name of a dictionary as the arm of {place.statistic}")
    chosen = _Coded(frame, place.site, place.arm, coder(frame, place.site, place.arm))
    if place.statistic in BY_ARM:
        frame.map(place.site, BY_ARM[place.statistic])  # undefined here, if at all
        return chosen.on_arm(place, BY_ARM[place.statistic])
    makers: dict[str, Callable[[Place], Reading]] = {
        "sae.ev.self@1": chosen.on_itself,
        "sae.ev.gap_to_self@1": chosen.gap,
        "sae.ev.paired@1": chosen.paired,
        "sae.l0@1": chosen.l0,
    }
    return makers[place.statistic](place)


@dataclass(frozen=True, eq=False)
class _Coded:
    """A frame at a site, with a dictionary."""

    frame: Frame
    site: str
    variant: str
    coder: Coder

    def on_itself(self, place: Place) -> Reading:
        """EV of D(x_A) against x_A."""
        return Reading(place, {"residual": self._own_residual, "total": self._own_total}, ev)

    def on_arm(self, place: Place, arm: str) -> Reading:
        """EV of D(x~_B) against x~_B."""
        return Reading(
            place,
            {"residual": partial(self._residual, arm=arm), "total": partial(self._total, arm=arm)},
            ev,
        )

    def gap(self, place: Place) -> Reading:
        """Rotated minus self."""
        columns: dict[str, Column] = {
            "residual_a": partial(self._residual, arm="rotated"),
            "total_a": partial(self._total, arm="rotated"),
            "residual_b": self._own_residual,
            "total_b": self._own_total,
        }
        return Reading(place, columns, _gap)

    def paired(self, place: Place) -> Reading:
        """EV of D(x~_B) against x_A."""

        def residual(view: View) -> Tensor:
            return squared(self._coded(view, "rotated") - self.frame.reference(view, self.site))

        return Reading(place, {"residual": residual, "total": self._own_total}, ev)

    def l0(self, place: Place) -> Reading:
        """Mean number of active features of x_A."""

        def active(view: View) -> Tensor:
            return self.coder.active(self.frame.reference(view, self.site))

        def weight(view: View) -> Tensor:
            return torch.ones_like(view.slots, dtype=torch.float64)

        return Reading(place, {"total": active, "weight": weight}, _mean)

    def _own_residual(self, view: View) -> Tensor:
        def residual() -> Tensor:
            states = self.frame.reference(view, self.site)
            return squared(self.coder.reconstruct(states) - states)

        key = ("own", id(self.frame.case.reference), self.site, self.variant)
        rule = self.frame.case.dictionary.rule
        return view.once((*key, id(self.frame) if rule == "pca" else rule), residual)

    def _own_total(self, view: View) -> Tensor:
        return self.frame.total(view, self.site)

    def _coded(self, view: View, arm: str) -> Tensor:
        return view.once(
            (id(self.frame), self.site, arm, "coded", self.variant),
            lambda: self.coder.reconstruct(self.frame.carried(view, self.site, arm)),
        )

    def _residual(self, view: View, *, arm: str) -> Tensor:
        return squared(self._coded(view, arm) - self.frame.carried(view, self.site, arm))

    def _total(self, view: View, *, arm: str) -> Tensor:
        return self.frame.carried_total(view, self.site, arm)


def _gap(sums: Sums) -> float:
    """Rotated minus self.

    Raises:
        UndefinedError: the dictionary hardly explains its own model: a gap to that says nothing.
    """
    own = from_sums(residual=sums["residual_b"], total=sums["total_b"])
    if own < LEAST_OWN:
        raise UndefinedError(
            f"the dictionary explains {own:.3g} of its own model's states, less than {LEAST_OWN}"
        )
    return ev_difference(sums)


def _mean(sums: Sums) -> float:
    return sums["total"] / sums["weight"]
