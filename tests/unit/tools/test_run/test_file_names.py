# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pytest imports a file of tests by its name alone: of two files of one name in a part, one is not collected."""

from __future__ import annotations

from collections import Counter

import pytest

from ansible_collections.trainyard.gpu_node.tools.test_run import parts


@pytest.mark.parametrize("folders", [parts.LIBRARY, parts.TOOLS])
def test_no_two_files_of_a_part_have_one_name(folders):
    names = Counter(path.name for folder in folders for path in (parts.ROOT / folder).rglob("test_*.py"))
    assert len(names) > 10 and not [name for name, number in names.items() if number > 1]
