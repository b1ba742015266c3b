# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The output of known tools as figures. Pure: text in, frozen dataclasses out, or a :class:`ParseError`.

No parser guesses: what is cut short, empty, in another locale or contradicts itself is an error, which becomes
``unknown`` in a verdict. Where an output says one thing twice (a sum and its parts, a rate and its time), both must
agree, so that a damaged digit is not taken for a measurement.
"""

from __future__ import annotations

from .common import ParseError

__all__ = ["ParseError"]
