# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts against docs/verdict.schema.json: by jsonschema where that is installed, by a reader of its own anywhere."""

from __future__ import annotations

import json
import pathlib
import re

import pytest
from hypothesis import given, settings

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.formats import json as verdict_json
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import SCHEMA, Certainty, Cost, Remedy
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.formats.formats_verdicts import (
    HEALTHY,
    OBSERVED,
    SICK,
    VERDICTS,
)

try:
    import jsonschema
except ImportError:
    jsonschema = None

PATH = pathlib.Path(__file__).resolve().parents[6] / "docs" / "verdict.schema.json"
PUBLISHED = json.loads(PATH.read_text(encoding="utf-8"))
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "number": (int, float)}


def problems(value, schema, path="verdict"):
    """What is wrong with a value, by the keywords that the published schema uses; any other keyword is an error."""
    if "$ref" in schema:
        return problems(value, PUBLISHED["$defs"][schema["$ref"].rpartition("/")[2]], path)
    known = {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "pattern", "minimum"}
    assert not set(schema) - known - {"description", "title", "$schema", "$defs"}, set(schema) - known
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(path + " is none of the words")
    if "const" in schema and value != schema["const"]:
        found.append(path + " is another")
    kind = schema.get("type")
    if kind and (not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        return [*found, "{0} is no {1}".format(path, kind)]
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(path + " is ill-formed")
    if "minimum" in schema and value < schema["minimum"]:
        found.append(path + " is too small")
    if kind == "array":
        for number, one in enumerate(value):
            found += problems(one, schema["items"], "{0}[{1}]".format(path, number))
    if kind == "object":
        found += [path + " lacks " + name for name in schema.get("required", ()) if name not in value]
        for name, one in value.items():
            inner = schema.get("properties", {}).get(name, schema.get("additionalProperties", True))
            if inner is False:
                found.append("{0} has {1}".format(path, name))
            elif inner is not True:
                found += problems(one, inner, "{0}.{1}".format(path, name))
    return found


def check(document):
    assert problems(document, PUBLISHED) == []
    if jsonschema is not None:
        jsonschema.Draft202012Validator(PUBLISHED).validate(document)


@pytest.mark.parametrize("one", [HEALTHY, OBSERVED, SICK])
def test_a_verdict_is_as_published(one):
    check(json.loads(verdict_json.render(one)))


@settings(max_examples=25)
@given(VERDICTS)
def test_every_verdict_is_as_published(one):
    check(json.loads(verdict_json.render(one)))


@pytest.mark.parametrize(
    "change",
    [{"outcome": "healthy"}, {"schema": "trainyard.gpu_node/verdict/2"}, {"results": {}}, {"seconds": -1}, {"node": 7}],
)
def test_what_is_not_as_published_is_seen(change):
    document = dict(json.loads(verdict_json.render(SICK)), **change)
    assert problems(document, PUBLISHED)
    if jsonschema is not None:
        assert not jsonschema.Draft202012Validator(PUBLISHED).is_valid(document)


def test_the_published_words_are_those_of_the_code():
    """A word or field that is added here and not there, or the other way round, is found."""
    finding = PUBLISHED["$defs"]["finding"]["properties"]
    assert set(finding["action"]["enum"]) == {one.value for one in Remedy}
    assert set(finding["certainty"]["enum"]) == {one.value for one in Certainty}
    assert set(PUBLISHED["properties"]["level"]["enum"]) == {one.value for one in Cost}
    assert PUBLISHED["properties"]["schema"]["const"] == SCHEMA
    document = verdict_json.document(SICK)
    assert set(document) == set(PUBLISHED["properties"])
    assert set(document["results"][0]) == set(PUBLISHED["properties"]["results"]["items"]["properties"])
    assert set(document["results"][3]["findings"][0]) == set(finding)
    assert set(document["results"][1]["measured"][0]) == set(PUBLISHED["$defs"]["measured"]["properties"])
    assert set(document["silenced"][0]["silence"]) == set(PUBLISHED["$defs"]["silence"]["properties"])
