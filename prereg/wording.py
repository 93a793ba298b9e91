"""The words of a message about a single value: what it is, what was expected, what to write."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic_core import ErrorDetails

from prereg.near import closest
from prereg.scalars import scalar

NAME = "a name of at most 64 letters, digits, `.`, `_` and `-` that starts with a letter or digit"
_SHOWN = 60
"""Letters of a value that are repeated in a message."""


def describe(value: Any) -> str:
    """`value` as a message names it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, int | float):
        return f"the number {value!r}"
    if isinstance(value, str):
        return f"the text {_cut(json.dumps(value, ensure_ascii=False))}"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    keys = ", ".join(f"`{key}`" for key in value)
    return f"a mapping with {_cut(keys)}" if value else "an empty mapping"


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def flow(value: Any) -> str:
    """An example in YAML's flow style."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    return value if isinstance(value, str) else json.dumps(value)


class _Bound(NamedTuple):
    key: str
    words: str


_BOUNDS = {
    "greater_than": _Bound("gt", "a number above"),
    "greater_than_equal": _Bound("ge", "a number of at least"),
    "less_than": _Bound("lt", "a number below"),
    "less_than_equal": _Bound("le", "a number of at most"),
}
_FLOATS = {"float_type", "float_parsing"}
_INTEGERS = {"int_type", "int_from_float", "int_parsing", "int_parsing_size"}
_LISTS = {"tuple_type", "list_type"}
_MAPPINGS = {"model_type", "model_attributes_type", "dict_type", "dataclass_type"}


def expectation(detail: ErrorDetails, value: Any, *, example: str) -> tuple[str, str]:
    """What was expected of a single value, and what to write."""
    kind, context = detail["type"], detail.get("ctx", {})
    expected, fix = detail["msg"], f"write for example `{example}`"
    if kind in _BOUNDS:
        expected = f"{_BOUNDS[kind].words} {context[_BOUNDS[kind].key]}"
        fix = f"write {expected}"
    elif kind in _INTEGERS:
        expected, fix = "a whole number", _number_fix(value, whole=True)
    elif kind in _FLOATS:
        expected, fix = "a number", _number_fix(value, whole=False)
    elif kind == "string_type":
        expected, fix = "text", _text_fix(value, example=example)
    elif kind == "literal_error":
        expected, fix = _literal(context, value)
    elif kind == "string_pattern_mismatch":
        expected, fix = _pattern(str(context["pattern"]), example=example)
    elif kind in _LISTS or kind in _MAPPINGS:
        expected, fix = _shape(detail, value, example=example)
    elif kind in ("too_short", "string_too_short"):
        expected = f"at least {context['min_length']}"
    elif kind in ("too_long", "string_too_long"):
        expected, fix = f"at most {context['max_length']}", "shorten it"
    return expected, fix


def _shape(detail: ErrorDetails, value: Any, *, example: str) -> tuple[str, str]:
    if detail["type"] in _LISTS:
        single = isinstance(value, str | int | float) and not isinstance(value, bool)
        return "a list", f"write [{value}]" if single else "write a list: [first, second]"
    if not detail["loc"]:
        return "a mapping of fields", "start each field on its own line: `title: ...`"
    if example.endswith("..."):
        return "a mapping of fields", "write its fields below it, indented"
    return "a mapping of fields", f"write for example `{example}`"


def _literal(context: Mapping[str, Any], value: Any) -> tuple[str, str]:
    words = str(context["expected"]).replace(" or ", ", ").replace("'", "").split(", ")
    expected = " or ".join(f"`{word}`" for word in words)
    match = closest(value, words) if isinstance(value, str) else None
    return expected, f"did you mean `{match}`?" if match else f"write {expected}"


def _pattern(pattern: str, *, example: str) -> tuple[str, str]:
    if "@" in pattern:
        return "a versioned id, family.name@version", f"write for example `{example}`"
    if r"\d{4}" in pattern:
        return "an ORCID iD", "write it as 0000-0000-0000-0000"
    return NAME, "choose another name"


def _text_fix(value: Any, *, example: str) -> str:
    if isinstance(value, bool | int | float):
        written = str(value).lower() if isinstance(value, bool) else repr(value)
        return f'put it in quotes: "{written}"'
    return f"write for example `{example}`"


def _number_fix(value: Any, *, whole: bool) -> str:
    if isinstance(value, float):
        return f"write {value:.0f}" if value.is_integer() else "write it without a fraction"
    if isinstance(value, bool):
        return "write a number, not true or false"
    text = value.strip() if isinstance(value, str) else ""
    return _unquoted(text) or (
        "write a whole number" if whole else "write a number such as 0.5 or 1e-3"
    )


def _unquoted(text: str) -> str | None:
    """What to write for text that was meant as a number; none where no number is in it."""
    if _is_number(text):
        return f"write {text} without quotes"
    for old, new, said in (("_", "", "separators"), (",", ".", "a comma"), (" ", "", "spaces")):
        if _is_number(text.replace(old, new)):
            return f"write {text.replace(old, new)}, without {said}"
    if text.endswith("%") and _is_number(text[:-1]):
        return f"write {float(text[:-1]) / 100:g}, without the percent sign"
    return None


def _is_number(text: str) -> bool:
    value = scalar(text)
    return isinstance(value, int | float) and not isinstance(value, bool)
