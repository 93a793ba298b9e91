"""Whether a drawing may stand in the page: shapes and text only, nothing that runs or fetches.

A bundle comes from a stranger. Its drawings are put into the page that is rendered again to check
it, so what may stand in them is listed, and everything else is refused.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from markupsafe import Markup

from prereg.errors import IntegrityError

ELEMENTS = frozenset(
    {"svg", "title", "desc", "g", "defs", "path", "use", "rect", "circle", "line", "text"}
    | {"tspan", "clipPath", "polygon", "polyline", "ellipse"}
)
ATTRIBUTES = frozenset(
    {"id", "class", "d", "style", "transform", "x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r"}
    | {"rx", "ry", "width", "height", "viewBox", "points", "clip-path", "href", "role"}
    | {"aria-label", "aria-labelledby", "text-anchor", "version"}
)
STYLES = frozenset(
    {"fill", "fill-opacity", "fill-rule", "font", "font-family", "font-size", "font-style"}
    | {"font-weight", "opacity", "stroke", "stroke-dasharray", "stroke-dashoffset"}
    | {"stroke-linecap", "stroke-linejoin", "stroke-miterlimit", "stroke-opacity"}
    | {"stroke-width", "text-anchor"}
)
"""Style properties of a drawing: paint and type, nothing that places it in the page."""

NAMESPACES = ("{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}")
LARGEST = 4_000_000
"""Bytes of the largest drawing that is read."""

_FETCHES = re.compile(r"url\(\s*(?!#)|@import|expression\(|javascript:|\\", re.IGNORECASE)


def inline(data: bytes, *, name: str) -> Markup:
    """The drawing as markup for the page.

    Raises:
        IntegrityError: where it is not well-formed, or holds anything but shapes and text.
    """
    text = _checked(data, name)
    return Markup(text)  # noqa: S704 - every element and attribute was compared with the lists


def _checked(data: bytes, name: str) -> str:
    if len(data) > LARGEST:
        raise _refuse(name, f"{len(data)} bytes", f"at most {LARGEST}")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refuse(name, f"bytes that are not UTF-8 ({error.reason})", "UTF-8 text") from error
    # Declarations are where entities are defined; a drawing of ours has none.
    if "<!" in text or "<?" in text:
        raise _refuse(name, "a declaration or comment", "elements only")
    try:
        root = ET.fromstring(text)  # noqa: S314 - entities cannot be declared, see above
    except (ET.ParseError, ValueError) as error:
        raise _refuse(name, f"XML that cannot be read ({error})", "well-formed SVG") from error
    if _local(root.tag) != "svg":
        raise _refuse(name, f"the root <{_local(root.tag)}>", "<svg>")
    for element in root.iter():
        if _local(element.tag) not in ELEMENTS:
            raise _refuse(name, f"the element <{_local(element.tag)}>", "shapes and text")
        for key, value in element.attrib.items():
            attribute = _local(key)
            fetches = attribute != "aria-label" and _FETCHES.search(value)
            if attribute not in ATTRIBUTES or fetches:
                raise _refuse(name, f"the attribute {attribute}={value[:60]!r}", "plain geometry")
            if attribute == "style":
                named = {item.partition(":")[0].strip() for item in value.split(";")} - {""}
                if not named <= STYLES:
                    raise _refuse(name, f"the style {value[:60]!r}", "paint and type only")
            if attribute == "href" and not value.startswith("#"):
                raise _refuse(name, f"a link to {value[:60]!r}", "links inside the drawing")
    return text.strip()


def _local(tag: str) -> str:
    for namespace in NAMESPACES:
        if tag.startswith(namespace):
            return tag.removeprefix(namespace)
    return tag


def _refuse(name: str, found: str, expected: str) -> IntegrityError:
    return IntegrityError(
        f"{name}: {found}",
        expected=expected,
        fix="publish again; a drawing is never edited by hand",
        code="report.drawing",
    )
