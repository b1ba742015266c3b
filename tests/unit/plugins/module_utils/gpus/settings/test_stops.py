# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reader who follows a request for clocks goes through few files, and back to none.

What is counted: the functions of the two packages in the order of their first call, from the options that a user gave
to the steps of the plan. Functions of one file that follow each other are one stop; a stop at an earlier file is a
return.
"""

from __future__ import annotations

import re
import sys
import tokenize
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.settings.types import ResetClocks, SetClocks
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_settings.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_settings.plan import Found, plan
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.settings.pure import a100, state_of

LIBRARY = Path(__file__).resolve().parents[6] / "plugins/module_utils"
PACKAGES = ("gpus/settings", "resources/gpu_settings")
MOST_STOPS = 9


def stops_of(request):
    """The files of :data:`PACKAGES` through which a call goes, each as often as it is come to."""
    functions = []

    def seen(frame, event, dummy):
        if event == "call" and not frame.f_code.co_name.startswith("<"):
            found = re.search(r"module_utils/((?:{0})/\w+\.py)$".format("|".join(PACKAGES)), frame.f_code.co_filename)
            if found and "/tests/" not in frame.f_code.co_filename:
                functions.append((found.group(1), frame.f_code.co_name))

    sys.setprofile(seen)
    try:
        request()
    finally:
        sys.setprofile(None)
    files = [file for file, dummy in dict.fromkeys(functions)]
    return [file for number, file in enumerate(files) if number == 0 or files[number - 1] != file]


@pytest.mark.parametrize(
    "clocks, step",
    [("max", SetClocks), ({"graphics_mhz": 1395}, SetClocks), ("auto", SetClocks), ("default", ResetClocks)],
)
def test_a_request_for_clocks_passes_each_file_once(clocks, step):
    found = Found(state_of(a100()))
    planned = []
    stops = stops_of(lambda: planned.append(plan(found, of(Desired, {"clocks": clocks}))))
    assert any(isinstance(one, step) for one in planned[0].actions)
    assert len(stops) == len(set(stops)) <= MOST_STOPS, stops


def names(path, word):
    """Whether the code of a file has this word: as a name, or as a text of its own."""
    with tokenize.open(path) as text:
        tokens = list(tokenize.generate_tokens(text.readline))
    return any(one.type in (tokenize.NAME, tokenize.STRING) and one.string.strip("\"'") == word for one in tokens)


def test_the_option_persistence_is_named_in_few_files():
    paths = [path for package in PACKAGES for path in (LIBRARY / package).glob("*.py")]
    naming = [str(path.relative_to(LIBRARY)) for path in paths if names(path, "persistence")]
    assert 0 < len(naming) <= 4, naming
