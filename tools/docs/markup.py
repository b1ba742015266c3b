# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible's semantic markup as Markdown, and Markdown tables."""

from __future__ import annotations

import json
import re
from typing import Any, Iterable, List, Sequence

# A letter code with its text in parentheses; a backslash takes the meaning from the character after it.
_MARKUP = re.compile(r"\b(RV|[BCEILMOPUV])\(((?:[^\\)]|\\.)*)\)")
_CODE = frozenset(("C", "E", "O", "RV", "V", "P"))


def _one(match: "re.Match[str]") -> str:
    code, text = match.group(1), re.sub(r"\\(.)", r"\1", match.group(2))
    if code in _CODE:
        return code_span(text)
    if code == "M":
        name = text.rpartition(".")[2]
        return "[{0}]({0}.md)".format(name) if text.startswith("trainyard.gpu_node.") else code_span(text)
    if code == "L":
        label, _, address = text.rpartition(",")
        return "[{0}]({1})".format(label.strip(), address.strip())
    if code == "U":
        return "<{0}>".format(text)
    return ("**{0}**" if code == "B" else "*{0}*").format(text)


def code_span(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return "{0}{1}{0}".format(fence, text)


def to_markdown(text: Any) -> str:
    """A description (one paragraph or a list of them) as one line of Markdown."""
    paragraphs: Iterable[Any] = text if isinstance(text, list) else [text or ""]
    return " ".join(_MARKUP.sub(_one, " ".join(str(paragraph).split())) for paragraph in paragraphs)


def paragraphs(text: Any) -> List[str]:
    """A description as a list of Markdown lines, one for each paragraph."""
    return [to_markdown(part) for part in (text if isinstance(text, list) else [text])]


def value(thing: Any) -> str:
    """A default or a choice as a user would write it in YAML; nothing for none."""
    if thing is None:
        return ""
    if isinstance(thing, str):
        return code_span(thing) if thing else code_span('""')
    return code_span(json.dumps(thing, ensure_ascii=False))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; bars in cells are escaped, because they would end the cell."""
    lines = ["| " + " | ".join(header) + " |", "| " + " | ".join("---" for _ in header) + " |"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def option_type(option: Any) -> str:
    kind = str(option.get("type") or "str")
    return "list of {0}".format(option["elements"]) if kind == "list" and option.get("elements") else kind


def meaning(option: Any) -> str:
    """The description with the choices behind it."""
    text = to_markdown(option.get("description"))
    choices = option.get("choices")
    if choices:
        text += " One of {0}.".format(", ".join(value(choice) for choice in choices))
    return text
