from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prereg.canonical import digest
from prereg.errors import EnvironmentFault, InputError
from prereg.hypothesis import HypothesisError, parse_hypothesis, read_hypothesis
from prereg.registration import Hypothesis, Registration
from prereg.syntax import MAX_BYTES, Problem, parse

Edited = Callable[[str, str], bytes]


def read(text: bytes, *, is_json: bool = False) -> Hypothesis:
    return parse_hypothesis(text, name="claim.yaml", is_json=is_json)


def frozen(text: bytes) -> str:
    return digest(read(text).model_dump(mode="json", by_alias=True, exclude_none=True))


def problems(text: bytes, *, is_json: bool = False) -> tuple[Problem, ...]:
    with pytest.raises(HypothesisError) as caught:
        read(text, is_json=is_json)
    return caught.value.problems


def only(text: bytes) -> Problem:
    (problem,) = problems(text)
    return problem


# --- what is accepted -----------------------------------------------------------------------------


def test_reading_a_file_gives_its_bytes(tmp_path: Path, valid: str) -> None:
    path = tmp_path / "claim.yaml"
    path.write_text(valid)
    hypothesis, source = read_hypothesis(path)
    assert source == valid.encode()
    assert hypothesis.suite.name == "rotation"
    assert list(hypothesis.judged()) == ["B", "P", "C", "same-state", "haar-trace"]
    assert hypothesis.abstained() == {"Pr": "not measured here"}


def test_json_and_yaml_say_the_same(tmp_path: Path, valid: str) -> None:
    data = parse(valid.encode(), name="claim.yaml", is_json=False).data
    path = tmp_path / "claim.json"
    path.write_text(json.dumps(data, indent="\t"))
    assert read_hypothesis(path)[0] == read(valid.encode())


@pytest.mark.parametrize("number", ["0.001", "1.0e-3", "1E-3", "+.001", "0.0010", "10e-4"])
def test_spellings_of_a_number_freeze_to_one_digest(edited: Edited, number: str) -> None:
    assert frozen(edited("1e-3", number)) == frozen(edited("1e-3", "1e-3"))
    assert frozen(edited("1e-3", "0.002")) != frozen(edited("1e-3", "1e-3"))


def test_integers_where_floats_belong(edited: Edited) -> None:
    assert frozen(edited("above: 0.5", "above: 0")) == frozen(edited("above: 0.5", "above: -0.0"))
    bar = read(edited("above: 0.5", "above: 0")).claims[0]
    assert isinstance(bar.above, float)


def test_yaml_1_2_words_stay_text(edited: Edited) -> None:
    plan = "plan: {a: no, b: yes, c: on, d: 12:30, e: 2026-01-01, f: 1_000, g: ~, h: true, i: '1'}"
    data = read(edited("plan: {sites: [blocks.0.hook_resid_post], sae: ", plan + " #")).plan
    assert data == {
        "a": "no",
        "b": "yes",
        "c": "on",
        "d": "12:30",
        "e": "2026-01-01",
        "f": "1_000",
        "g": None,
        "h": True,
        "i": "1",
    }


def test_only_plain_types_come_out(valid: str) -> None:
    seen: set[type] = set()

    def walk(value: object) -> None:
        seen.add(type(value))
        if isinstance(value, dict):
            for key, item in value.items():
                walk(key)
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(parse(valid.encode() + b"extra: [~, true, 1.5]\n", name="f", is_json=False).data)
    assert seen == {dict, list, str, int, float, bool, type(None)}


def test_text_is_composed(edited: Edited) -> None:
    text = edited("A. Author", "Ame\u0301lie")
    assert read(text).authors[0].name == "Am\u00e9lie"


def test_block_scalars_and_comments(edited: Edited) -> None:
    text = edited("question: Do both", "question: |\n  first\n  second\n# ") + b"# end\n"
    assert read(text).question == "first\nsecond\n"


def test_a_byte_order_mark_and_windows_line_ends(valid: str) -> None:
    text = b"\xef\xbb\xbf" + valid.replace("\n", "\r\n").encode()
    assert read(text) == read(valid.encode())


@pytest.mark.parametrize("number", ["1e16", "123456789012345678.0", "1e20", "-3e19", "1e21"])
def test_large_floats_in_the_plan_survive_freezing(
    edited: Edited, number: str, freeze: Callable[..., Registration]
) -> None:
    claim = read(edited("topk, k: 16", f"topk, k: {number}"))
    registration = freeze().model_copy(update={"claim": claim})
    back = Registration.model_validate_json(registration.canonical())
    assert back.claim.plan["sae"]["k"] == float(number)
    assert back.canonical() == registration.canonical()


# --- single problems ------------------------------------------------------------------------------


def test_a_quoted_number(edited: Edited) -> None:
    problem = only(edited("below: 1e-3", 'below: "1e-3"'))
    assert problem == Problem(
        14, "bars.P.below", 'the text "1e-3"', "a number", "write 1e-3 without quotes"
    )


@pytest.mark.parametrize(
    ("written", "fix"),
    [
        ("1_000", "write 1000, without separators"),
        ("'0,5'", "write 0.5, without a comma"),
        ("5%", "write 0.05, without the percent sign"),
        ("small", "write a number such as 0.5 or 1e-3"),
        ("true", "write a number, not true or false"),
        ("[1]", "write a number such as 0.5 or 1e-3"),
    ],
)
def test_what_is_no_number(edited: Edited, written: str, fix: str) -> None:
    problem = only(edited("below: 1e-3", f"below: {written}"))
    assert (problem.line, problem.path, problem.expected) == (14, "bars.P.below", "a number")
    assert problem.fix == fix


@pytest.mark.parametrize("word", [".nan", ".NaN", ".inf", "-.inf", "+.Inf"])
def test_not_finite(edited: Edited, word: str) -> None:
    problem = only(edited("below: 1e-3", f"below: {word}"))
    assert problem.found == word
    assert problem.expected == "a finite number"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("1e400", "1.8e308"),
        ("-1e999", "1.8e308"),
        ("1e-400", "5e-324"),
        ("9007199254740992", "2**53"),
        ("-9007199254740992", "2**53"),
        ("9" * 5000, "2**53"),
        ("010", "decimal"),
        ("0x1F", "decimal"),
        ("0o17", "decimal"),
    ],
)
def test_numbers_that_readers_disagree_about(edited: Edited, word: str, said: str) -> None:
    problem = only(edited("topk, k: 16", f"topk, k: {word}"))
    assert problem.path == "plan.sae.k"
    assert problem.line == 11
    assert said in problem.expected
    assert len(problem.found) < 120


def test_the_largest_integer(edited: Edited) -> None:
    assert read(edited("topk, k: 16", "topk, k: 9007199254740991")).plan["sae"]["k"] == 2**53 - 1


def test_an_unknown_key(edited: Edited) -> None:
    problem = only(edited("prior_access: nothing-run", "prior_access: nothing-run\nauthor: me"))
    assert problem.line == 6
    assert problem.path == "author"
    assert problem.fix == "did you mean `authors`?"


def test_a_misspelt_threshold_is_one_problem(edited: Edited) -> None:
    problem = only(edited("below: 1e-3", "bellow: 1e-3"))
    assert problem.found == "the unknown key `bellow`"
    assert problem.fix == "did you mean `below`?"
    assert problem.expected == "a field of bars.P"


def test_a_threshold_beside_an_abstention(edited: Edited) -> None:
    problem = only(edited("abstain: not measured here", "abstain: no, below: 1"))
    assert problem.path == "bars.Pr.below"
    assert "abstain" in problem.fix


def test_a_missing_threshold(edited: Edited) -> None:
    problem = only(edited("    above: 0.5\n", ""))
    assert (problem.line, problem.path) == (18, "claims[0]")
    assert "`above: 0.5`" in problem.fix


@pytest.mark.parametrize(
    ("threshold", "said"),
    [
        ("above: 0.5\n    below: 1", "`below` and `above`"),
        ("equivalent_to: 0.5", "without `margin`"),
        ("above: 0.5\n    margin: 1", "`margin` beside `above`"),
        ("between: [1, 0]", "between: [1, 0]"),
        ("between: [1, 1]", "between: [1, 1]"),
    ],
)
def test_thresholds_that_make_no_region(edited: Edited, threshold: str, said: str) -> None:
    problem = only(edited("above: 0.5", threshold))
    assert problem.path == "claims[0]"
    assert said in problem.found


@pytest.mark.parametrize(
    ("old", "line", "path", "example"),
    [
        ("title: One rotation carries one model into the other\n", 1, "title", "title: One"),
        ("prior_access: nothing-run\n", 1, "prior_access", "nothing-run"),
        ("name: rotation, ", 6, "suite.name", "name: rotation"),
        ("statistic: bar.causal.pearson@1, ", 15, "bars.C.statistic", "alignment.ev.paired@1"),
        ("    kind: same\n", 18, "claims[0].kind", "kind: same"),
        ("  Pr: {abstain: not measured here}\n", 12, "bars.Pr", "Pr: {abstain:"),
    ],
)
def test_a_missing_key(edited: Edited, old: str, line: int, path: str, example: str) -> None:
    problem = only(edited(old, ""))
    assert (problem.line, problem.path) == (line, path)
    assert problem.found == f"no `{path.rpartition('.')[2]}`"
    assert example in problem.fix


@pytest.mark.parametrize(
    ("old", "new", "path", "expected", "fix"),
    [
        ("seed: 7", "seed: 7.0", "corpus.seed", "a whole number", "write 7"),
        ("seed: 7", "seed: 7.5", "corpus.seed", "a whole number", "write it without a fraction"),
        ("seed: 7", "seed: '7'", "corpus.seed", "a whole number", "write 7 without quotes"),
        ("seed: 7", "seed: -1", "corpus.seed", "a number of at least 0", None),
        ("seed: 7", "seed: ~", "corpus.seed", "a whole number", "write a whole number"),
        ("seed: 7", "seed: true", "corpus.seed", "a whole number", None),
        ("version: 1", "version: 0", "suite.version", "a number of at least 1", None),
        ("fit: 2048", "fit: many", "corpus.splits.fit", "a whole number", None),
        ("margin: 4", "margin: 0", "claims[1].margin", "a number above 0", None),
        ("nothing-run", "seen", "prior_access", "`nothing-run` or `not-opened`", None),
        ("nothing-run", "nothing", "prior_access", None, "did you mean `nothing-run`?"),
        ("kind: differs", "kind: different", "claims[1].kind", None, "did you mean `differs`?"),
        ("[{name: A. Author}]", "[]", "authors", "at least 1", None),
        ("[{name: A. Author}]", "me", "authors", "a list", "write [me]"),
        ("{name: A. Author}", "me", "authors[0]", "a mapping of fields", None),
        ("title: One", "title: ~ #", "title", "text", None),
        ("title: One", "title: 2024 #", "title", "text", 'put it in quotes: "2024"'),
        ("title: One", "title: true #", "title", "text", 'put it in quotes: "true"'),
        ("title: One", "title: '' #", "title", "at least 1", None),
        ("{b: zoo", "{'b c': zoo", "subjects.others.b c", "a name of at most 64", None),
        ("rotation.haar.trace@1", "haar", "claims[1].statistic", "a versioned id", None),
        ("{abstain: not measured here}", "none", "bars.Pr", "a mapping of fields", None),
    ],
)
def test_a_wrong_value(
    edited: Edited, *, old: str, new: str, path: str, expected: str | None, fix: str | None
) -> None:
    problem = only(edited(old, new))
    assert problem.path == path
    assert expected is None or expected in problem.expected
    assert fix is None or problem.fix == fix


@pytest.mark.parametrize(
    ("written", "path", "expected"),
    [
        ("controls: {lineage: 7}", "subjects.controls.lineage", "text"),
        ("controls: {lineage: ''}", "subjects.controls.lineage", "at least 1"),
        ("controls: {lineage: [zoo:a]}", "subjects.controls.lineage", "text"),
        ("controls: zoo:a", "subjects.controls", "a mapping"),
        ("controls: {a b: zoo:a}", "subjects.controls.a b", "a name of at most 64"),
        ("contrls: {lineage: zoo:a}", "subjects.contrls", "a field of subjects"),
    ],
)
def test_a_wrong_model_for_a_control(
    edited: Edited, written: str, path: str, expected: str
) -> None:
    problem = only(edited(OTHERS, f"{OTHERS}\n  {written}"))
    assert problem.path == path
    assert expected in problem.expected
    assert problem.line == 10


OTHERS = "  others: {b: zoo:dyck3/indep-101}"


def test_models_for_controls_are_read_and_frozen(valid: str, edited: Edited) -> None:
    named = edited(OTHERS, f"{OTHERS}\n  controls: {{lineage: zoo:a, other-task: path:/b}}")
    swapped = edited(OTHERS, f"{OTHERS}\n  controls: {{other-task: path:/b, lineage: zoo:a}}")
    another = edited(OTHERS, f"{OTHERS}\n  controls: {{lineage: zoo:c, other-task: path:/b}}")
    none = edited(OTHERS, f"{OTHERS}\n  controls: {{}}")
    assert read(named).subjects.controls == {"lineage": "zoo:a", "other-task": "path:/b"}
    assert read(valid.encode()).subjects.controls == {}
    assert frozen(named) == frozen(swapped) != frozen(another)
    assert frozen(none) == frozen(valid.encode()) != frozen(named)


@pytest.mark.parametrize(
    ("old", "new", "path", "expected"),
    [
        ("margin: 4", "margin: 4, over: {sites: some}", "claims[1].over.sites", "a list, or `all`"),
        ("margin: 4", "margin: 4, over: {sites: [1]}", "claims[1].over.sites[0]", "text"),
        ("margin: 4", "margin: 4, over: {pair: all}", "claims[1].over.pair", "a field of"),
        ("margin: 4", "margin: 4, over: {pairs: [a b]}", "claims[1].over.pairs[0]", "a name of"),
    ],
)
def test_a_wrong_member_of_a_union(
    edited: Edited, old: str, new: str, path: str, expected: str
) -> None:
    problem = only(edited(old, new))
    assert problem.path == path
    assert problem.expected.startswith(expected)


@pytest.mark.parametrize(
    ("line", "path", "said"),
    [
        ("decision: {attempt: last}", "decision.attempt", "`first-completed`, or a whole number"),
        ("decision: {attempt: 0}", "decision.attempt", "or a number of at least 1"),
        ("decision: {level: 1}", "decision.level", "a number of at most 0.9999"),
        ("decision: {level: 95}", "decision.level", "a number of at most 0.9999"),
        ("controls: defalt", "controls", "`default`, or a mapping of fields"),
        ("controls: {drop: [{control: haar}]}", "controls.drop[0].reason", "why it is left out"),
        ("controls: {dropp: []}", "controls.dropp", "a field of controls"),
        ("environment: pined", "environment", "`free` or `pinned`"),
        ("1: x", "1", "text as key"),
        ("~: x", "~", "text as key"),
        ("true: x", "true", "text as key"),
    ],
)
def test_a_wrong_line_at_the_end(valid: str, line: str, path: str, said: str) -> None:
    found = problems(f"{valid}{line}\n".encode())
    assert found[0].path == path
    assert found[0].line == 23
    assert said in found[0].expected


@pytest.mark.parametrize(
    ("old", "new", "path", "said"),
    [
        ("  others: {b: zoo:dyck3/indep-101}\n", "", "subjects", "no model in `others`"),
        ("  others: {b", "  mode: within\n  others: {b", "subjects", "beside `mode: within`"),
        ("id: haar-trace", "id: same-state", "claims", "more than one claim called `same-state`"),
        ("id: haar-trace", "id: Pr", "claims", "a claim called `Pr`"),
    ],
)
def test_rules_over_several_fields(
    edited: Edited, old: str, new: str, path: str, said: str
) -> None:
    problem = only(edited(old, new))
    assert problem.path == path
    assert said in problem.found


def test_a_repeated_key(edited: Edited) -> None:
    problem = only(edited("suite: {", "title: Another\nsuite: {"))
    assert (problem.line, problem.path) == (6, "title")
    assert "first on line 2" in problem.found


def test_a_key_repeated_in_another_normal_form(valid: str) -> None:
    found = problems((valid + "caf\u00e9: 1\ncafe\u0301: 1\n").encode())
    assert [problem.line for problem in found] == [24]


def test_a_repeated_key_in_json(valid: str) -> None:
    data = parse(valid.encode(), name="claim.yaml", is_json=False).data
    text = json.dumps(data, indent=1).replace('"title"', '"title": "Another",\n "title"')
    (problem,) = problems(text.encode(), is_json=True)
    assert problem.line == 4
    assert "`title` a second time (first on line 3)" in problem.found


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_not_finite_in_json(valid: str, word: str) -> None:
    data = parse(valid.encode(), name="claim.yaml", is_json=False).data
    text = json.dumps(data, indent=1).replace("0.99", word)
    (problem,) = problems(text.encode(), is_json=True)
    assert problem.path == "bars.C.above"
    assert text.splitlines()[problem.line - 1].strip() == f'"above": {word}'


# --- many problems --------------------------------------------------------------------------------


def test_every_problem_is_listed_in_order(valid: str) -> None:
    text = (
        valid.replace("title: One", "titel: One")
        .replace("seed: 7", "seed: 7.5")
        .replace("below: 0.02", "below: .nan")
        .replace("below: 1e-3", 'below: "1e-3"')
        .replace("    kind: same\n    above: 0.5\n", "    kind: equal\n")
        .replace("id: haar-trace", "id: same-state")
        .replace("zoo:dyck3/indep-101", "3")
    )
    found = problems(text.encode())
    assert [(problem.line, problem.path) for problem in found] == [
        (1, "title"),
        (2, "titel"),
        (9, "subjects.others.b"),
        (10, "corpus.seed"),
        (13, "bars.B.below"),
        (14, "bars.P.below"),
        (17, "claims"),
        (18, "claims[0]"),
        (20, "claims[0].kind"),
    ]


def test_the_message_of_many_and_of_one(edited: Edited) -> None:
    with pytest.raises(InputError) as caught:
        read(edited("below: 1e-3", 'below: "1e-3"'))
    assert str(caught.value) == (
        'claim.yaml:14: bars.P.below: the text "1e-3"\n'
        "  expected: a number\n  what to do: write 1e-3 without quotes"
    )
    with pytest.raises(InputError) as caught:
        read(b"title: 3\n")
    message = str(caught.value)
    assert message.startswith("claim.yaml has ")
    assert "claim.yaml:1: suite: no `suite`" in message
    assert 'claim.yaml:1: title: the number 3; expected text; put it in quotes: "3"' in message
    assert caught.value.code == "registration.invalid"
    assert len(caught.value.as_dict()["problems"]) == 10


def test_a_file_of_something_else_does_not_flood_the_screen() -> None:
    text = "".join(f"key{number}: .nan\n" for number in range(500)).encode()
    with pytest.raises(HypothesisError) as caught:
        read(text)
    assert len(caught.value.problems) == 500 + 10
    assert "and 470 more" in str(caught.value)
    assert len(str(caught.value).splitlines()) < 50


# --- text that cannot be read at all --------------------------------------------------------------

UNREADABLE = {
    "anchor": (b"a: &x 1\n", 1, "anchor or alias"),
    "alias": (b"a: 1\nb: *a\n", 2, "anchor or alias"),
    "merge key": (b"a:\n  <<: {b: 1}\n", 2, "merge key"),
    "python tag": (b"a: !!python/object/apply:os.system [ls]\n", 1, "YAML tag"),
    "own tag": (b"a: 1\nb: !mine 2\n", 2, "YAML tag"),
    "string tag": (b"a: !!str 2\n", 1, "YAML tag"),
    "tab": (b"a:\n\tb: 1\n", 2, "tab"),
    "two documents": (b"a: 1\n---\nb: 1\n", 3, "second document"),
    "directive": (b"%YAML 1.1\n---\na: no\n", 1, "directive"),
    "tag directive": (b"%TAG ! tag:x,2000:\n---\na: 1\n", 1, "directive"),
    "not utf-8": (b"a: 1\nb: \xff\xfe\n", 2, "not UTF-8"),
    "utf-16": ("a: 1".encode("utf-16"), 1, "not UTF-8"),
    "png": (b"\x89PNG\r\n\x1a\n\0\0", 1, "not UTF-8"),
    "control character": (b"a: 1\nb: \x01\n", 2, "cannot read"),
    "nul": (b"a: \0\n", 1, "cannot read"),
    "empty": (b"", 1, "empty file"),
    "blank": (b" \n\n", 1, "empty file"),
    "comments": (b"# nothing\n", 1, "without content"),
    "colon": (b"a: 1\ntitle: b: c\n", 2, "cannot read"),
    "open bracket": (b"a: [1, 2\nb: 3\n", 2, "cannot read"),
    "open quote": (b'a: "b\n', 2, "cannot read"),
    "no character": (b'a: "\\Uffffffff"\n', 1, "cannot read"),
    "deep": (b"a: " + b"[" * 100_000, 1, "nesting"),
    "deep blocks": (b"\n".join(b" " * i + b"a:" for i in range(200)), 65, "nesting"),
    "large": (b"a" * (MAX_BYTES + 1), 1, "more than"),
    "complex key": (b"? [a]\n: 1\n", 1, "as a key"),
}


@pytest.mark.parametrize(("text", "line", "said"), UNREADABLE.values(), ids=UNREADABLE)
def test_unreadable_yaml(text: bytes, line: int, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read(text)
    assert caught.value.found.startswith(f"claim.yaml:{line}: ")
    assert said in caught.value.found
    assert caught.value.code == "registration.syntax"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (b'{"a": 1,\n}', 2, "cannot read"),
        (b'{"a": 1}\n{"b": 1}', 2, "cannot read"),
        (b'{"a": 01}', 1, "cannot read"),
        (b"{'a': 1}", 1, "cannot read"),
        (b'{"a": "\x01"}', 1, "cannot read"),
        (b'{"a": 1} // c', 1, "cannot read"),
        (b"[" * 100_000, 1, "nesting"),
        (b"", 1, "empty file"),
    ],
)
def test_unreadable_json(text: bytes, line: int, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read(text, is_json=True)
    assert caught.value.found.startswith(f"claim.yaml:{line}: ")
    assert said in caught.value.found


@pytest.mark.parametrize("text", [b"- a\n- b\n", b"just text\n", b"3\n", b"~\n", b"{}\n", b"[]\n"])
def test_no_mapping_at_the_top(text: bytes) -> None:
    found = problems(text)
    assert found[0].line == 1
    if text != b"{}\n":
        assert found == (found[0],)
        assert found[0].expected == "a mapping of fields"


def test_half_a_character_in_yaml(edited: Edited) -> None:
    problem = only(edited("question: Do both", 'question: "\\ud800" #'))
    assert (problem.line, problem.path) == (4, "question")
    assert "half a character" in problem.found


def test_half_a_character_in_json(valid: str) -> None:
    data = parse(valid.encode(), name="claim.yaml", is_json=False).data
    data["title"] = "\ud83d"
    (problem,) = problems(json.dumps(data).encode(), is_json=True)
    assert problem.path == "title"
    data["title"] = "\U0001f600"
    text = json.dumps(data)
    assert "\\ud83d\\ude00" in text
    assert read(text.encode(), is_json=True).title == "\U0001f600"


def test_no_file(tmp_path: Path, valid: str) -> None:
    (tmp_path / "claim.yaml").write_text(valid)
    with pytest.raises(InputError, match="no file") as caught:
        read_hypothesis(tmp_path / "clam.yaml")
    assert "did you mean `claim.yaml`?" in caught.value.fix
    with pytest.raises(InputError, match="no file"):
        read_hypothesis(tmp_path / "claim.yaml" / "inside.yaml")
    with pytest.raises(InputError, match="is a folder"):
        read_hypothesis(tmp_path)
    with pytest.raises(InputError, match="name of a file"):
        read_hypothesis(tmp_path / "a\0b")


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(EnvironmentFault, match="permit"):
        read_hypothesis(tmp_path / "claim.yaml")


# --- whatever comes -------------------------------------------------------------------------------


@given(st.binary(max_size=200), st.booleans())
@settings(deadline=None, max_examples=200)
def test_any_bytes_end_in_an_input_error(text: bytes, is_json: bool) -> None:
    with pytest.raises(InputError):
        read(text, is_json=is_json)


@given(data=st.data())
@settings(
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_damaged_file_is_read_or_refused(valid: str, data: st.DataObject) -> None:
    text = valid
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 20)))
    noise = data.draw(st.text("{}[]:,&*!|>'\"%#@`~-?.\t\n \\a1", max_size=8))
    damaged = (text[:start] + noise + text[stop:]).encode()
    with suppress(InputError):
        read(damaged)


def test_the_schema_is_a_json_schema() -> None:
    schema = Hypothesis.json_schema()
    assert schema["additionalProperties"] is False
    assert {"schema", "title", "bars"} <= set(schema["required"])
    json.dumps(schema)
