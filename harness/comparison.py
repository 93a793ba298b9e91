"""A frozen registration against the suite and the shipped models that are installed here."""

from __future__ import annotations

from harness.code_version import code_version
from harness.resolve import catalogue, plan_of
from harness.subjects.reference import locate, zoo
from harness.suite import suites
from prereg.errors import InputError
from prereg.registration import Registration


def compare(registration: Registration) -> tuple[list[str], list[str]]:
    """Problems and notes: what was frozen must be what the claim resolves to with this suite.

    Statistics, roles, controls, draws, sites and figures are compared with the installed suite of
    the same name and version, weight digests with the shipped models of the same name. Nothing is
    loaded, and models elsewhere are not looked for.
    """
    problems: list[str] = []
    notes: list[str] = []
    claim, resolved = registration.claim, registration.resolved
    chosen = suites().get(claim.suite.name)
    if chosen is None or chosen.version != claim.suite.version:
        notes.append(
            f"definitions not compared: suite {claim.suite.name} {claim.suite.version} is not "
            "installed here"
        )
    else:
        try:
            plan = plan_of(claim, chosen)
            statistics, suite = catalogue(claim, chosen, plan, shape=resolved.shape)
        except InputError as error:
            return [f"could not have been registered: {error.found}"], notes
        for what, frozen, here in (
            ("statistics", resolved.statistics, statistics),
            ("suite", resolved.suite, suite),
            ("sites", resolved.sites, plan.all_sites),
        ):
            if frozen != here:
                problems.append(f"its {what} are not those of the installed suite")
        if resolved.code != code_version(chosen.package):
            notes.append(f"registered with other code ({resolved.code.version}) than is here")
    shipped = zoo()
    models = resolved.subjects
    for subject in (models.reference, *models.others.values(), *models.controls.values()):
        if subject.written.removeprefix("zoo:") not in shipped:
            notes.append(f"the weights of {subject.written} are not here to be compared")
        elif locate(subject.written).resolved != subject:
            problems.append(f"{subject.written} is another model here")
    return problems, notes
