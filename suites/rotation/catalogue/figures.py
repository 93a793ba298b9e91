"""The rotation suite's figures: arms by site, with the controls on the same axis."""

from __future__ import annotations

from prereg.resolved import FigureSpec, Series
from suites.rotation.catalogue import alignment, dictionary, rotation


def _arms(statistic: str) -> tuple[Series, ...]:
    return tuple(Series(label=arm, statistic=statistic, arm=arm) for arm in alignment.SHOWN)


def _dictionary(*, without: str) -> tuple[Series, ...]:
    chosen = {dictionary.SELF.id: "self", **dictionary.BY_ARM, dictionary.PAIRED.id: "paired"}
    return tuple(
        Series(label=label, statistic=statistic)
        for statistic, label in chosen.items()
        if statistic != without
    )


FIGURES = (
    FigureSpec(
        id="paired-ev-by-site",
        title="Paired explained variance by site: the rotation with its controls, other arms",
        statistic=alignment.PAIRED.id,
        beside=_arms(alignment.PAIRED.id),
    ),
    FigureSpec(
        id="stitch-by-site",
        title="Stitched share of the loss gap by site: the rotation with its controls, other arms",
        statistic=alignment.STITCH.id,
        beside=_arms(alignment.STITCH.id),
    ),
    FigureSpec(
        id="dictionary-rotated-by-site",
        title="Dictionary on rotated states by site, with its controls, and on the other arms",
        statistic=dictionary.ROTATED.id,
        beside=_dictionary(without=dictionary.ROTATED.id),
    ),
    FigureSpec(
        id="dictionary-raw-by-site",
        title="Dictionary on uncorrected states by site, with its controls",
        statistic=dictionary.RAW.id,
    ),
    FigureSpec(
        id="dictionary-gap-by-site",
        title="Dictionary on rotated states minus on its own model, with its controls",
        statistic=dictionary.GAP.id,
    ),
    FigureSpec(
        id="identity-share-by-site",
        title="Identity share by site, with its controls",
        statistic=rotation.IDENTITY_SHARE.id,
    ),
)
