# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays of all these tests share their bytecode."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def plays_keep_bytecode(kept_bytecode: None) -> None:
    pass
