# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the API of a Kubernetes cluster, for tests with the real kubectl: see :mod:`.server`,
:mod:`.evictions` for the eviction of pods, :mod:`.devices` for dynamic resource allocation, and :mod:`.quick` for
reading without a process."""

from __future__ import annotations

from .devices import DeviceApi
from .evictions import Budget, EvictingApi
from .quick import quick
from .server import Api, Fault

__all__ = ["Api", "Budget", "DeviceApi", "EvictingApi", "Fault", "quick"]
