# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many examples a property gets that wants more of them than the others."""

from __future__ import annotations

from hypothesis import settings

#: What Hypothesis tries by itself, as `make soak` does (conftest.py).
DEFAULT = 100


def examples(number: int) -> settings:
    """A decorator: `make soak` tries this many, and `make test` as many fewer as it does of other properties."""
    return settings(max_examples=max(number * settings.default.max_examples // DEFAULT, 10), deadline=None)
