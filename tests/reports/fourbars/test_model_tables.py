"""What the models are made of: shown as it is recorded, and refused where it is malformed."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.subjects.spec import FeatureSpec, HeadSpec, MlpSpec
from harness.subjects.spec import Spec as Recorded
from prereg.canonical import canonical
from prereg.errors import IntegrityError
from reports.models import models_of, run_of, tables_of
from reports.verify import verify
from reports.wording import number

FOLDING = number(3e-13)
RUN = {"run": "prebench/run/1", "devices": ["cpu"]}


def table_of(page: str, title: str) -> list[list[str]]:
    """The rows of one of the tables, first column included."""
    section = page[page.index('id="models"') :]
    table = section[section.index(f"<strong>{title}.</strong>") :]
    rows = re.findall(r"<tr>(.*?)</tr>", table[: table.index("</table>")], re.DOTALL)
    return [
        [html.unescape(re.sub(r"<[^>]+>", "", c)) for c in re.findall(r"<t[dh].*?</t[dh]>", row)]
        for row in rows
    ]


def test_every_number_is_shown_under_its_head(four_bars: Any, models: Any) -> None:
    page = four_bars.with_run(spec=models).page
    assert table_of(page, "Size and sample") == [
        ["Model", "Parameters", "Gains", "Change of a logit", "Sequences", "Positions"],
        [
            "reference",
            "104\u202f448",
            "folded into the weights",
            FOLDING,
            "2\u202f048",
            "65\u202f536",
        ],
        ["b", "1\u202f234\u202f567", "not folded", FOLDING, "2\u202f048", "65\u202f536"],
    ]
    heads = table_of(page, "Attention heads")
    assert heads[0] == ["Model", "Head", "QK norm", "QK rank", "OV norm", "OV rank"]
    assert heads[1] == ["reference", "blocks.0.attn.head.0", "3.25", "7.5", "2.125", "9"]
    assert heads[2] == ["blocks.0.attn.head.1", "4.25", "7.5", "2.125", "9"]
    assert len(heads) == 1 + 2 * 8
    assert table_of(page, "MLPs")[2] == ["blocks.1.mlp", "230", "256", "12.06"]
    features = table_of(page, "Task features in the states")
    assert features[0] == ["Model", "Site", "token", "position", "copy", "depth", "valid"]
    assert features[1][1:] == ["blocks.0.hook_resid_pre", "1.000", "0.988", "0.123", "0.250", "—"]
    assert features[3][0] == "b"


def test_it_is_said_to_be_exploratory_and_not_repeated_in_the_run(
    four_bars: Any, models: Any
) -> None:
    page = four_bars.with_run(spec=models).page
    section = page[page.index('id="models"') :]
    assert "Exploratory: measured beside the evidence, recorded in run.json, not judged." in section
    assert "no change of basis inside the head" in section
    assert "spec.reference" not in page


def test_without_models_nothing_is_shown(four_bars: Any) -> None:
    assert "spec" not in four_bars.material.run
    assert "What the models are made of" not in four_bars.page
    assert models_of(RUN) is None
    assert tables_of(None) == ()


def test_models_without_heads_or_mlps_have_no_empty_table(four_bars: Any, models: Any) -> None:
    for spec in (models["reference"], models["others"]["b"]):
        spec["heads"] = spec["mlps"] = []
    page = four_bars.with_run(spec=models).page
    assert "Attention heads" not in page
    assert len(table_of(page, "Task features in the states")) == 5


def test_models_with_other_features_share_a_table(models: Any) -> None:
    models["others"]["b"]["features"] = {
        "sites": ["s"],
        "names": ["depth", "x"],
        "r2": [[0.5, -0.1]],
    }
    table = tables_of(models_of({"spec": models}))[-1]
    assert table.heads == ("Site", "token", "position", "copy", "depth", "valid", "x")
    assert table.rows[1][1] == (("s", "—", "—", "—", "0.500", "—", "−0.100"),)  # noqa: RUF001


def test_what_the_measurement_records_is_what_is_read() -> None:
    head = HeadSpec(component="h", qk_norm=0.0, qk_rank=None, ov_norm=1.5, ov_rank=2.0)
    spec = Recorded(
        parameters=3,
        folded=True,
        heads=(head,),
        mlps=(MlpSpec(component="m", neurons=4, alive=0, norm=0.0),),
        features=FeatureSpec(sites=("s",), names=("token", "depth"), r2=((None, -2.5),)),
        samples=1,
        tokens=2,
        folding=1e-13,
    )
    run = {"spec": {"reference": spec.model_dump(mode="json"), "others": {}}}
    found = models_of(json.loads(canonical(run)))
    assert found is not None
    assert found.reference.model_dump(mode="json") == spec.model_dump(mode="json")
    assert tables_of(found)[1].rows == (("reference", (("h", "0", "—", "1.5", "2"),)),)


def drop(path: str) -> Callable[[Any], None]:
    """Removes a key."""

    def change(spec: Any) -> None:
        *above, last = path.split(".")
        for key in above:
            spec = spec[int(key)] if key.isdigit() else spec[key]
        del spec[last]

    return change


def put(path: str, value: Any) -> Callable[[Any], None]:
    """Writes a value."""

    def change(spec: Any) -> None:
        *above, last = path.split(".")
        for key in above:
            spec = spec[int(key)] if key.isdigit() else spec[key]
        spec[int(last) if last.isdigit() else last] = value

    return change


BROKEN = {
    "no-reference": (drop("reference"), "spec.reference"),
    "text-for-a-number": (put("reference.parameters", "many"), "spec.reference.parameters"),
    "list-for-a-model": (put("others.b", []), "spec.others.b"),
    "negative-norm": (put("reference.heads.0.qk_norm", -1.0), "spec.reference.heads.0.qk_norm"),
    "more-alive-than-there-are": (put("reference.mlps.0.alive", 300), "spec.reference.mlps.0"),
    "a-row-too-few": (put("reference.features.r2", [[1.0] * 5]), "spec.reference.features"),
    "a-value-too-many": (put("reference.features.r2.0", [1.0] * 6), "spec.reference.features"),
    "unknown-key": (put("reference.colour", "blue"), "spec.reference.colour"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_malformed_models_stop_publishing_with_their_place(
    four_bars: Any, publish_bars: Any, models: Any, tmp_path: Path, name: str
) -> None:
    change, place = BROKEN[name]
    change(models)
    with pytest.raises(IntegrityError, match=re.escape(place)) as caught:
        publish_bars(four_bars, RUN | {"spec": models})
    assert "run.json" in caught.value.expected
    assert not (tmp_path / "bundle").exists()


@pytest.mark.parametrize(
    "text",
    [
        b'{"spec": null}',
        b'{"spec": {"reference": NaN, "others": {}}}',
        b"[]",
        b"{",
        b"\xff",
        b'{"spec": "\\ud800"}',
        b'{"spec": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_a_run_record_of_another_form_is_an_error_and_no_traceback(
    four_bars: Any, publish_bars: Any, seal: Any, text: bytes
) -> None:
    with pytest.raises(IntegrityError):
        run_of(text)
    folder: Path = publish_bars(four_bars, RUN)
    (folder / "run.json").write_bytes(text)
    seal(folder)
    found = verify(folder)
    assert not found.ok
    assert found.problems[0].startswith("run.json: ")


def test_an_infinite_norm_is_refused() -> None:
    spec = {"reference": 1}
    with pytest.raises(IntegrityError):
        run_of(json.dumps({"spec": spec}).replace("1", "1e999").encode())


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_stands_there_is_read_or_refused(value: Any) -> None:
    with pytest.raises(IntegrityError):
        models_of({"spec": value})


def test_a_published_number_that_was_edited_is_found(
    four_bars: Any, publish_bars: Any, models: Any, seal: Any
) -> None:
    folder: Path = publish_bars(four_bars, RUN | {"spec": models})
    assert verify(folder).ok
    path = folder / "report.html"
    page = path.read_bytes()
    assert b"<td>2.125</td>" in page
    path.write_bytes(page.replace(b"<td>2.125</td>", b"<td>2.126</td>", 1))
    seal(folder)
    assert [p.split(":")[0] for p in verify(folder).problems] == ["report.html"]


def test_names_of_components_and_features_are_text(four_bars: Any, models: Any) -> None:
    script = "<script>alert(1)</script> \u202e"
    models["reference"]["heads"][0]["component"] = script
    models["reference"]["features"]["names"][0] = script
    models["others"][script] = models["others"].pop("b")
    page = four_bars.with_run(spec=models).page
    assert "<script" not in page
    assert "\u202e" not in page
