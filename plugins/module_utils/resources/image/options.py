# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be required of the image of a node."""

from __future__ import annotations

from typing import Any, Mapping, Tuple

from ...core.options import option, options, state
from ...facts.image import software


def _required(given: Any) -> Mapping[str, Any]:
    software.of_mapping(given, "option require")
    return dict(given)


@options
class Desired:
    """:raises NodeError: something of it cannot be."""

    present: bool = state("V(absent) requires nothing.")
    require: Mapping[str, Any] = option(
        {},
        [
            "Versions that the image must have, by component, such as C(driver) or C(cuda), each as V(>=535,<600). "
            "The page C(docs/image.md) lists the components.",
            "Where one is missing or does not fit, nothing of the node is changed.",
        ],
        kind="dict",
        read=_required,
        example={"driver": ">=535,<600", "cuda": ">=12"},
    )
    fail_on: str = option(
        "never",
        "Stop also where parts of the image do not fit each other. V(fail) is for what cannot work, V(warn) for "
        "everything that C(gpunode image) tells.",
        choices=("never", "fail", "warn"),
    )

    @property
    def requirements(self) -> Tuple[software.Requirement, ...]:
        return software.of_mapping(self.require, "option require")

    @property
    def asks(self) -> bool:
        """Whether anything is asked of the image at all."""
        return self.present and bool(self.require or self.fail_on != "never")
