# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the 81 labels want that nvidia-mig-parted ships (0.15, config-default.yaml), and the boards they are for."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

A100_40, A100_80, A30, H100, H200, B200 = 0x20B010DE, 0x20B210DE, 0x20B710DE, 0x233010DE, 0x233510DE, 0x290110DE
# Labels all-NAME that want one profile so many times, on whatever GPU; "+" in a profile is "." in its label.
SHIPPED = {
    1: "1g.5gb+me 4g.20gb 7g.40gb 1g.24gb+me.all 2g.48gb+me.all 4g.96gb 4g.96gb+gfx 1g.10gb+me 4g.40gb 7g.80gb"
    " 1g.6gb+me 2g.12gb+me 4g.24gb 1g.12gb+me 1g.24gb+me 4g.93gb 7g.186gb 4g.47gb 7g.94gb 4g.48gb 7g.96gb"
    " 1g.18gb+me 1g.23gb+me 4g.71gb 7g.141gb 1g.34gb+me 1g.35gb+me 4g.72gb 4g.90gb 4g.95gb 4g.135gb 4g.139gb"
    " 7g.144gb 7g.180gb 7g.189gb 7g.269gb 7g.278gb",
    2: "3g.20gb 2g.48gb 2g.48gb+gfx 2g.48gb-me 3g.40gb 2g.12gb 3g.93gb 3g.47gb 3g.48gb 3g.71gb 3g.72gb 3g.90gb"
    " 3g.95gb 3g.135gb 3g.139gb",
    3: "2g.10gb 2g.20gb 2g.24gb 2g.47gb 2g.35gb 2g.36gb 2g.45gb 2g.67gb 2g.70gb",
    4: "1g.24gb+gfx 1g.24gb-me 1g.20gb 1g.6gb 1g.24gb 1g.47gb 1g.36gb 1g.45gb 1g.67gb 1g.70gb",
    7: "1g.5gb 1g.12gb 1g.18gb 1g.23gb 1g.34gb",
}
# Labels that want other things of other boards, by PCI id.
BY_BOARD = {
    "all-1g.10gb": {0x233010DE: {"1g.10gb": 7}, 0x20B210DE: {"1g.10gb": 7}, 0x20B010DE: {"1g.10gb": 4}},
    "all-1g.35gb": {0x233510DE: {"1g.35gb": 4}, 0x31C210DE: {"1g.35gb": 7}},
    "all-balanced": {
        0x294110DE: {"1g.23gb": 2, "2g.47gb": 1, "3g.93gb": 1},
        0x31C210DE: {"1g.35gb": 2, "2g.70gb": 1, "3g.139gb": 1},
        0x2BB510DE: {"1g.24gb": 2, "2g.48gb": 1},
        0x290110DE: {"1g.23gb": 2, "2g.45gb": 1, "3g.90gb": 1},
        0x318210DE: {"1g.34gb": 2, "2g.67gb": 1, "3g.135gb": 1},
        0x234810DE: {"1g.18gb": 2, "2g.36gb": 1, "3g.72gb": 1},
        0x233510DE: {"1g.18gb": 2, "2g.35gb": 1, "3g.71gb": 1},
        0x232110DE: {"1g.12gb": 2, "2g.24gb": 1, "3g.47gb": 1},
        0x233010DE: {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1},
        0x20B010DE: {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1},
        0x20B710DE: {"1g.6gb": 2, "2g.12gb": 1},
        0x234210DE: {"1g.12gb": 2, "2g.24gb": 1, "3g.48gb": 1},
    },
}
# The boards: PCI id, GiB, and whether they have seven compute slices (else four).
BOARDS: Dict[str, Tuple[int, int, bool]] = {
    "A100-40": (0x20B010DE, 40, True),
    "A30": (0x20B710DE, 24, False),
    "H100-80": (0x233010DE, 80, True),
    "H100-94": (0x232110DE, 94, True),
    "H100-96": (0x234210DE, 96, True),
    "H200": (0x233510DE, 141, True),
    "GH200-144": (0x234810DE, 144, True),
    "B200": (0x290110DE, 180, True),
    "GB200": (0x294110DE, 186, True),
    "GB200-189": (0x294210DE, 189, True),
    "B300": (0x318210DE, 269, True),
    "GB300": (0x31C210DE, 278, True),
    "RTX-PRO-6000": (0x2BB510DE, 96, False),
}


def labels() -> Dict[str, List[Dict[str, Any]]]:
    """The file's mig-configs, as this program reads them."""
    on = {"devices": "all", "mig-enabled": True}
    found: Dict[str, List[Dict[str, Any]]] = {
        "all-disabled": [{"devices": "all", "mig-enabled": False}],
        "all-enabled": [dict(on, **{"mig-devices": {}})],
    }
    for count, names in SHIPPED.items():
        for name in names.split():
            found["all-" + name.replace("+", ".")] = [dict(on, **{"mig-devices": {name: count}})]
    for label, boards in BY_BOARD.items():
        found[label] = [
            dict(on, **{"device-filter": ["0x{0:08X}".format(board)], "mig-devices": devices})
            for board, devices in boards.items()
        ]
    return found


def settings(board: str) -> List[str]:
    """The simulated GPU of a board: its memory, and the profiles that this makes (NVIDIA's MIG user guide)."""
    pci, gib, seven = BOARDS[board]
    total = gib * 1024

    def line(number: int, profile: int, slices: int, memory: int, most: int, starts: str, share: int) -> str:
        mib = total * share // 8 - total // 64  # what the driver keeps for itself
        media = 1 if number in (7, 8, 15, 16) or share == 8 else 0
        return "gpu.mig.profile.{0}={1} {2} {3} {4} {5} {6} 1 1 1 1 {7} {8}".format(
            number, profile, slices, memory, most, 16 * slices, mib, media, starts
        )

    found = ["gpu.pci_device_id=0x{0:08x}".format(pci), "gpu.memory.total_mib={0}".format(total)]
    if seven:
        found += [
            line(0, 19, 1, 1, 7, "0,1,2,3,4,5,6", 1),
            line(7, 20, 1, 1, 1, "0,1,2,3,4,5,6", 1),
            line(9, 15, 1, 2, 4, "0,2,4,6", 2),
            line(1, 14, 2, 2, 3, "0,2,4", 2),
            line(2, 9, 3, 4, 2, "0,4", 4),
            line(3, 5, 4, 4, 1, "0", 4),
            line(4, 0, 7, 8, 1, "0", 8),
        ]
        return found
    found += ["gpu.mig.profile.{0}=".format(number) for number in (2, 4, 9)]
    found += [
        line(0, 14, 1, 1, 4, "0,1,2,3", 2),
        line(7, 21, 1, 1, 1, "0,1,2,3", 2),
        line(1, 5, 2, 2, 2, "0,2", 4),
        line(3, 0, 4, 4, 1, "0", 8),
    ]
    if board == "A30":
        return [*found, line(8, 6, 2, 2, 1, "0,2", 4)]
    return [
        *found,
        line(10, 47, 1, 1, 4, "0,1,2,3", 2),
        line(13, 67, 1, 1, 4, "0,1,2,3", 2),
        line(15, 65, 1, 1, 1, "0,1,2,3", 2),
        line(11, 35, 2, 2, 2, "0,2", 4),
        line(14, 66, 2, 2, 2, "0,2", 4),
        line(16, 64, 2, 2, 1, "0,2", 4),
        line(12, 32, 4, 4, 1, "0", 8),
    ]
