"""What pydantic found wrong with a hypothesis file, in the user's words and with line numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from prereg.near import closest, nearest
from prereg.registration import Hypothesis
from prereg.rules import BAR_NAMES, REGIONS, Fault, mode_fault, names_fault, region_fault
from prereg.syntax import Parsed, Path, Problem, dotted
from prereg.wording import NAME, describe, expectation, flow

Node = Mapping[str, Any]
"""A part of the JSON schema."""


def problems(parsed: Parsed, error: ValidationError | None) -> tuple[Problem, ...]:
    """Every problem of a file, in the order of its lines; empty where there is none."""
    found = dict(parsed.problems)
    details = error.errors(include_url=False) if error else []
    schema = Hypothesis.json_schema() if details else {}
    complaints = [_Complaint(detail, parsed, schema) for detail in details]
    for path, group in _grouped(complaints).items():
        if not any(part in parsed.problems for part in (*_above(path), path)):
            found[path] = _merged(group)
    if details or found:
        # Pydantic applies the rules only where every field is right; the reader wants all at once.
        for path, fault in _faults(parsed.data):
            if path not in found and not _explained(path, found):
                found[path] = Problem(_line(path, parsed), dotted(path), *fault)
    if error and not found:
        found = {item.path: item.problem() for item in complaints}
    return tuple(sorted(found.values()))


def _grouped(complaints: Sequence[_Complaint]) -> dict[Path, list[_Complaint]]:
    """Complaints by place; where a union failed, only the alternative that got furthest."""
    wanted = [item for item in complaints if item.kind != "rule"]
    outer = {above for item in wanted for above in _above(item.path)}
    groups: dict[Path, list[_Complaint]] = {}
    for item in wanted:
        if item.path not in outer:
            groups.setdefault(item.path, []).append(item)
    return groups


def _above(path: Path) -> Iterator[Path]:
    """Everything that `path` lies in, without itself."""
    return (path[:length] for length in range(len(path)))


def _merged(group: Sequence[_Complaint]) -> Problem:
    every = [item.problem() for item in group]
    expected = ", or ".join(dict.fromkeys(item.expected for item in every))
    fixes = list(dict.fromkeys(item.fix for item in every))
    meant = [fix for fix in fixes if fix.startswith("did you mean")]
    return every[0]._replace(expected=expected, fix=(meant or [" or ".join(fixes)])[0])


class _Complaint:
    """One error of pydantic, with the place in the file that it is about."""

    def __init__(self, detail: ErrorDetails, parsed: Parsed, schema: Node) -> None:
        self.kind = detail["type"]
        self.detail = detail
        self.parsed = parsed
        self.schema = schema
        self.path, self.value = _place(detail, parsed.data)

    def problem(self) -> Problem:
        found, expected, fix = self._words()
        return Problem(self._line(), dotted(self.path), found, expected, fix)

    def _line(self) -> int:
        if self.kind == "missing":
            return _line(self.path[:-1], self.parsed)
        if self.kind == "extra_forbidden" or self.detail["loc"][-1:] == ("[key]",):
            return self.parsed.key_lines.get(self.path, 1)
        return self.parsed.lines.get(self.path, 1)

    def _words(self) -> tuple[str, str, str]:
        known = _Field(self.schema, self.path, self.parsed.data)
        if self.kind == "missing" and isinstance(self.path[-1], int):
            name = self.path[-2]
            return f"{self.path[-1]} of its values", "both values", f"write `{name}: [low, high]`"
        if self.kind == "missing":
            return f"no `{self.path[-1]}`", known.sentence, f"add `{known.example}`"
        if self.kind == "extra_forbidden":
            keys = known.siblings
            where = f"a field of {dotted(self.path[:-1])}" if self.path[1:] else "a field"
            return f"the unknown key `{self.path[-1]}`", where, nearest(str(self.path[-1]), keys)
        if self.kind == "rule":
            context = self.detail.get("ctx", {})
            return context["found"], context["expected"], context["fix"]
        if self.detail["loc"][-1:] == ("[key]",):
            return f"the name `{self.path[-1]}`", NAME, "choose another name"
        expected, fix = expectation(self.detail, self.value, example=known.example)
        return describe(self.value), expected, fix


class _Field:
    """What the schema says about the field at a path."""

    def __init__(self, schema: Node, path: Path, data: Any) -> None:
        parents = [schema]
        here = data
        for part in path[:-1]:
            parents = _below(_fitting(_open(parents, schema), here), part)
            here = here[part]
        parents = _fitting(_open(parents, schema), here)
        self.key = path[-1] if path else ""
        self.siblings = [key for node in parents for key in node.get("properties", ())]
        self.nodes = _below(parents, path[-1]) if path else [schema]

    @property
    def sentence(self) -> str:
        for node in self.nodes:
            if "description" in node:
                text = str(node["description"]).removesuffix(".")
                first, rest = text[:1], text[1:]
                return (first.lower() if rest[:1].islower() else first) + rest
        return "a value"

    @property
    def example(self) -> str:
        """`key: value`, with the schema's example."""
        for node in self.nodes:
            if node.get("examples"):
                return f"{self.key}: {flow(node['examples'][0])}"
        return f"{self.key}: ..."


def _open(nodes: Sequence[Node], root: Node) -> list[Node]:
    """The alternatives behind references and unions."""
    opened: list[Node] = []
    for node in nodes:
        inner = [*node.get("anyOf", ()), *node.get("oneOf", ())]
        if "$ref" in node:
            inner.append(root["$defs"][node["$ref"].rpartition("/")[2]])
        opened += _open(inner, root) if inner else [node]
    return opened


def _fitting(nodes: list[Node], value: Any) -> list[Node]:
    """A bar is judged or abstains: the alternative that the reader of the file takes."""
    abstains = isinstance(value, dict) and "abstain" in value
    fitting = [node for node in nodes if ("abstain" in node.get("properties", ())) == abstains]
    return fitting or nodes


def _below(nodes: Sequence[Node], part: str | int) -> list[Node]:
    below: list[Node] = []
    for node in nodes:
        if isinstance(part, int):
            listed = node.get("prefixItems", [])
            inner = listed[part] if part < len(listed) else node.get("items")
        else:
            inner = node.get("properties", {}).get(part) or node.get("additionalProperties")
        if isinstance(inner, dict):
            below.append(inner)
    return below


def _place(detail: ErrorDetails, data: Any) -> tuple[Path, Any]:
    """Path and value in the file; pydantic's names of union members are no part of it."""
    path: list[str | int] = []
    here = data
    for part in detail["loc"]:
        inside = isinstance(here, dict) and part in here
        if inside or (isinstance(here, list) and isinstance(part, int) and part < len(here)):
            path.append(part)
            here = here[part]
    if detail["type"] == "missing":
        return (*path, detail["loc"][-1]), None
    return tuple(path), here


def _line(path: Path, parsed: Parsed) -> int:
    return parsed.key_lines.get(path) or parsed.lines.get(path, 1)


# --- rules over several fields --------------------------------------------------------------------


def _faults(data: Any) -> Iterator[tuple[Path, Fault]]:
    if not isinstance(data, dict):
        return
    for path, judged in _judged(data):
        if (fault := region_fault(judged)) is not None:
            yield path, fault
    subjects = data.get("subjects")
    if isinstance(subjects, dict) and (fault := mode_fault(subjects)) is not None:
        yield ("subjects",), fault
    claims = data.get("claims")
    ids = [claim.get("id") for claim in claims or () if isinstance(claim, dict)]
    if (fault := names_fault([name for name in ids if isinstance(name, str)])) is not None:
        yield ("claims",), fault


def _judged(data: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    bars, claims = data.get("bars"), data.get("claims")
    if isinstance(bars, dict):
        for name in BAR_NAMES:
            if isinstance(bars.get(name), dict) and "abstain" not in bars[name]:
                yield ("bars", name), bars[name]
    if isinstance(claims, list):
        for index, claim in enumerate(claims):
            if isinstance(claim, dict):
                yield ("claims", index), claim


def _explained(path: Path, found: Mapping[Path, Problem]) -> bool:
    """Whether a problem inside `path` already says why a rule over it cannot hold."""
    tied = {"claims": (), "subjects": ("mode", "others")}.get(str(path[-1]), (*REGIONS, "margin"))
    inside = [known[len(path)] for known in found if known[: len(path)] == path and known != path]
    return any(key in tied or closest(str(key), tied) is not None for key in inside)
