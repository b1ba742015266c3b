# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``dcgmi diag``: the table for people of 2.x to 4.x, and the JSON (-j) of 3.x and 4.x.

Format from its sources (NVIDIA/DCGM: dcgmi/Diag.cpp, common/NvvsJsonStrings.h). The JSON is no stable contract by
NVIDIA's own words: 3.x has ``DCGM GPU Diagnostic`` and ``gpu_id``, 4.x ``DCGM Diagnostic`` and entities; 3.1 has its
version beside the diagnosis, and writes the result of GPU 2 at place 2 of a list, so one that did not run a test before
another one that did leaves a ``null`` (Diag.cpp of 3.1.8, HelperJsonAddResult). Lines can stand before it.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Tuple

from . import dcgmi_table
from .common import ParseError, document, untagged

TOOL = "dcgmi diag"
STATUSES = dcgmi_table.STATUSES
_ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")


@dataclasses.dataclass(frozen=True)
class Result:
    """What one test says of one thing. ``gpu`` is DCGM's number of it; None: of no single GPU.

    ``status``: pass, fail, warn, skip or not_run. ``severity`` as DCGM numbers it, where the JSON has it.
    """

    test: str
    gpu: Optional[int]
    status: str
    messages: Tuple[str, ...] = ()
    error: Optional[int] = None
    severity: Optional[int] = None


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """``refused``: why DCGM did not run at all (MIG, another diagnosis under way). ``gpus``: how many it
    found; the table does not tell all of many."""

    version: Optional[str]
    results: Tuple[Result, ...]
    refused: Optional[str] = None
    gpus: Optional[int] = None


def parse(text: str) -> Diagnosis:
    """:raises ParseError: when this is no whole output of ``dcgmi diag``."""
    text = untagged(text)
    if not text.strip():
        raise ParseError(TOOL, "it is empty")
    if any(root in text for root in _ROOTS):
        return _of_json(text)
    table = dcgmi_table.parse(TOOL, text)
    results = tuple(Result(row.test, row.gpu, row.status, row.messages) for row in table.rows)
    return Diagnosis(table.version, results)


def _of_json(text: str) -> Diagnosis:
    content = document(TOOL, text)
    name = next((root for root in _ROOTS if isinstance(content.get(root), dict)), None)
    if name is None:
        raise ParseError(TOOL, "it has no diagnosis")
    body = content[name]
    places = (_object(content.get("metadata")), body, content)
    version = next(filter(None, (_text(place.get("version")) for place in places)), None)
    gpus = _gpus(content)
    refused = body.get("runtime_error") or content.get("runtime_error")
    if refused:
        return Diagnosis(version, (), str(refused)[:300], gpus)
    results: List[Result] = []
    for category in _objects(body.get("test_categories"), "test categories"):
        for test in _objects(category.get("tests"), "tests"):
            results += _test(str(test.get("name")), test)
    if not results:
        raise ParseError(TOOL, "there is no test in it")
    return Diagnosis(version, tuple(results), gpus=gpus)


def _gpus(content: Dict[str, Any]) -> Optional[int]:
    """How many GPUs it found: 4.x lists them as entities, 3.x has their device ids."""
    for group in _listed(content.get("entity_groups")):
        if group.get("entity_group") == "GPU" and isinstance(group.get("entities"), list):
            return len(group["entities"])
    ids = content.get("GPU Device IDs", _object(content.get("metadata")).get("GPU Device IDs"))
    return len(ids) if isinstance(ids, list) else None


def _test(name: str, test: Dict[str, Any]) -> List[Result]:
    listed = test.get("results", [])
    found = [_result(name, one) for one in _objects(listed, "results of " + name)]
    empty = len(listed) - len(found)
    if empty:
        found.append(Result(name[:80], None, "not_run", ("{0} of {1} GPUs did not run it".format(empty, len(listed)),)))
    summary = test.get("test_summary")
    if isinstance(summary, dict):
        # In 4.x the summary has what belongs to no single GPU; otherwise it repeats the results.
        whole = _result(name, summary)
        if whole.messages or whole.status not in {one.status for one in found}:
            found.append(whole)
    if not found:
        raise ParseError(TOOL, "test {0} has no result".format(name[:60]))
    return found


def _result(name: str, one: Dict[str, Any]) -> Result:
    status = STATUSES.get(str(one.get("status")).lower())
    if status is None:
        raise ParseError(TOOL, "test {0} has the unknown status {1!r}".format(name[:60], str(one.get("status"))[:30]))
    warnings = one.get("warnings")
    listed: List[Any] = warnings if isinstance(warnings, list) else [] if warnings is None else [warnings]
    details = [_object(warning) for warning in listed]
    messages = [str(detail.get("warning", warning))[:300] for detail, warning in zip(details, listed)]
    return Result(
        name[:80],
        _gpu(one),
        status,
        tuple(messages),
        next((detail["error_id"] for detail in details if _is_count(detail.get("error_id"))), None),
        max((detail["error_severity"] for detail in details if _is_count(detail.get("error_severity"))), default=None),
    )


def _gpu(one: Dict[str, Any]) -> Optional[int]:
    group = one.get("entity_group")
    if group is not None and group != "GPU":
        return None
    value = one.get("entity_id", one.get("gpu_id", one.get("gpu_ids")))
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**6


def _object(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: Any, name: str) -> List[Dict[str, Any]]:
    """Those of a list that are not null."""
    found = _listed(value)
    if not isinstance(value, list) or len(found) + value.count(None) != len(value):
        raise ParseError(TOOL, "it has no list of " + name)
    return found


def _listed(value: Any) -> List[Dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _text(value: Any) -> Optional[str]:
    return value[:60] if isinstance(value, str) else None
