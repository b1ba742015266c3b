# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wish in one line."""

from __future__ import annotations

from typing import List, Tuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.instances import Impossible
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.options import Asked
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.wishes import line, parse


@pytest.mark.parametrize(
    "text, asked",
    [
        ("3g", [Asked("3g")]),
        ("3g+2x2g", [Asked("3g"), Asked("2g", 2)]),
        # As refusals tell it.
        ("3g.20gb + 2 x 1g.5gb", [Asked("3g.20gb"), Asked("1g.5gb", 2)]),
        # The plus of an attribute is none of the wish.
        ("1g.5gb+me+1g.5gb", [Asked("1g.5gb+me"), Asked("1g.5gb")]),
        ("2x1g.24gb+me.all+2g.48gb-me", [Asked("1g.24gb+me.all", 2), Asked("2g.48gb-me")]),
        ("3g@4+2g@0", [Asked("3g", 1, 4), Asked("2g", 1, 0)]),
        ("3g@4:1c,2C", [Asked("3g", 1, 4, ("1c", "2c"))]),
        ("1c.3g.20gb+2x19", [Asked("1c.3g.20gb"), Asked("19", 2)]),
    ],
)
def test_a_wish_is_read(text: str, asked: List[Asked]) -> None:
    assert list(parse(text)) == asked


@pytest.mark.parametrize(
    "text", ["", "3", "3h", "3g+", "+3g", "3g 2g", "3g++2g", "x2g", "3g@", "3g@x", "3g:", "off", "g3"]
)
def test_what_is_no_wish_is_told_with_how_to_write_one(text: str) -> None:
    if text == "3":  # an id, of which only a GPU knows whether it has it
        assert parse(text) == (Asked("3"),)
        return
    with pytest.raises(Impossible, match="is no GPU instance; write it as 3g"):
        parse(text)


@pytest.mark.parametrize(
    "text, thing", [("0x3g", "count"), ("99x3g", "count"), ("3g@99", "start"), ("2x3g@4", "start")]
)
def test_counts_and_starts_have_the_bounds_of_the_options(text: str, thing: str) -> None:
    with pytest.raises(NodeError, match="its " + thing):
        parse(text)


_ASKED = st.builds(
    lambda name, count, start, compute: Asked(name, 1 if start is not None else count, start, compute),
    st.sampled_from(("3g", "1g.5gb", "1g.10gb+me", "2g.48gb-me", "1g.24gb+me.all", "1c.3g.20gb", "19")),
    st.integers(1, 14),
    st.none() | st.integers(0, 15),
    st.sampled_from(((), ("1c",), ("2c", "1c"))),
)


@given(st.lists(_ASKED, min_size=1, max_size=4).map(tuple))
def test_what_is_written_as_a_line_is_read_back(asked: Tuple[Asked, ...]) -> None:
    assert parse(line(asked)) == asked
