# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of the kernel log that tell of a network device's slot, module or queue, or of an NFS server."""

from __future__ import annotations

from typing import Tuple

from ..kernel_log import Rule
from ..types import Certainty, Outcome, Remedy
from .kernel_message import DAY, Message

_MLX5 = r"mlx5_core (?P<key>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): (?:\w{1,64}:\d+:(?:\(pid \d+\):)? )?"
_EVENTS = "Linux, drivers/net/ethernet/mellanox/mlx5/core/events.c, {0}; {1}"
_PEERS = "a warning in github.com/leptonai/gpud (infiniband) and github.com/NVIDIA/NVSentinel"
_SERVER = r"(?:nfs|lockd): server (?P<key>[0-9A-Za-z.:_\[\]%-]{1,255})"
_ANSWERS = Rule(": server ", _SERVER + r" OK\Z", "nfs: server nas01.example.org OK")
_RPC = "Linux, net/sunrpc/clnt.c, rpc_check_timeout; github.com/leptonai/gpud, nfs"
_NFS = "look at the server and the network to it (nfsstat -m, rpcinfo -t); programs hang until it answers"

NETWORK_MESSAGES: Tuple[Message, ...] = (
    Message(
        "ib_device_faults",
        "slot_power",
        Rule(
            "insufficient power",
            _MLX5 + r"Detected insufficient power on the PCIe slot \(\d{1,5}W\)",
            "mlx5_core 0000:5c:00.0: mlx5_pcie_event:299:(pid 9): Detected insufficient power on the PCIe slot (27W).",
        ),
        "network device {0}",
        "its slot tells less power than it needs",
        Outcome.WARN,
        Remedy.LOOK,
        Certainty.POSSIBLE,
        "look for the power of the slot in the firmware, and update that of the card; optical modules may stay off",
        None,
        _EVENTS.format("mlx5_pcie_event", _PEERS),
        bare_metal=True,
    ),
    Message(
        "ib_device_faults",
        "module_unpowered",
        Rule(
            "Port module event[error]",
            _MLX5 + r"Port module event\[error\]: module \d+, Cable error, (?:Power budget exceeded"
            r"|One or more network ports have been powered down due to insufficient/unadvertised power)",
            "mlx5_core 0000:5c:00.0: Port module event[error]: module 0, Cable error, Power budget exceeded",
        ),
        "network device {0}",
        "its module gets too little power, and its port was switched off",
        Outcome.WARN,
        Remedy.LOOK,
        Certainty.CERTAIN,
        "look for the power of the slot in the firmware, and at the class of the module",
        DAY,
        _EVENTS.format("port_module, mlx5_pme_error_to_string", "whether the port is on is judged by ib_ports"),
    ),
    Message(
        "ib_device_faults",
        "module_hot",
        Rule(
            "High Temperature",
            _MLX5 + r"Port module event\[error\]: module \d+, Cable error, High Temperature",
            "mlx5_core 0000:5c:00.0: Port module event[error]: module 0, Cable error, High Temperature",
        ),
        "network device {0}",
        "its module became too hot",
        Outcome.WARN,
        Remedy.LOOK,
        Certainty.CERTAIN,
        "look at the air at the back of the machine and at the module (mlxlink -m); replace the module if it recurs",
        DAY,
        _EVENTS.format("port_module", _PEERS),
    ),
    Message(
        "ib_device_faults",
        "module_failed",
        Rule(
            "Port module event[error]",
            _MLX5 + r"Port module event\[error\]: module \d+, Cable error, (?:Bad or shorted cable/module"
            r"|Bus stuck|No EEPROM/retry timeout|Unknown identifier)",
            "mlx5_core 0000:5c:00.0: Port module event[error]: module 0, Cable error, Bad or shorted cable/module",
        ),
        "network device {0}",
        "its module or cable is broken",
        Outcome.WARN,
        Remedy.REPLACE,
        Certainty.LIKELY,
        "seat the module anew, and replace it or its cable if it recurs",
        DAY,
        _EVENTS.format("port_module, mlx5_pme_error_to_string", "whether the port is on is judged by ib_ports"),
    ),
    Message(
        "ib_device_faults",
        "hot",
        Rule(
            "High temperature on sensors",
            _MLX5 + r"High temperature on sensors with bit set [0-9a-f]+ [0-9a-f]+",
            "mlx5_core 0000:5c:00.0: temp_warn:168:(pid 0): High temperature on sensors with bit set 0 1",
        ),
        "network device {0}",
        "it became too hot",
        Outcome.WARN,
        Remedy.LOOK,
        Certainty.CERTAIN,
        "look at fans, filters and the temperature of the room",
        DAY,
        _EVENTS.format("temp_warn", "this collection"),
    ),
    Message(
        "ib_device_faults",
        "queue_timeout",
        Rule(
            "NETDEV WATCHDOG: ",
            r"NETDEV WATCHDOG: (?P<key>[A-Za-z0-9_.-]{1,15}) \(mlx5_core\): transmit queue \d+ timed out",
            "NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 3 timed out",
        ),
        "interface {0}",
        "it could not send for seconds",
        Outcome.WARN,
        Remedy.LOOK,
        Certainty.LIKELY,
        "watch its ports; update the firmware and driver of the card if it recurs",
        DAY,
        "Linux, net/sched/sch_generic.c, dev_watchdog; a warning in github.com/NVIDIA/NVSentinel, netdev_watchdog",
    ),
    Message(
        "ib_device_faults",
        "queue_timeout",
        Rule(
            "NETDEV WATCHDOG: ",
            r"mlx5_core [0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] (?P<key>[A-Za-z0-9_.-]{1,15}): "
            r"NETDEV WATCHDOG: CPU: \d+: transmit queue \d+ timed out",
            "mlx5_core 0000:5c:00.0 eth0: NETDEV WATCHDOG: CPU: 12: transmit queue 3 timed out 5432 ms",
        ),
        "interface {0}",
        "it could not send for seconds",
        Outcome.WARN,
        Remedy.LOOK,
        Certainty.LIKELY,
        "watch its ports; update the firmware and driver of the card if it recurs",
        DAY,
        "Linux 6.7, net/sched/sch_generic.c, dev_watchdog",
    ),
    Message(
        "nfs_servers",
        "not_responding",
        Rule(
            "not responding",
            _SERVER + r" not responding, still trying\Z",
            "nfs: server nas01.example.org not responding, still trying",
        ),
        "NFS server {0}",
        "it does not answer, and has not since",
        Outcome.WARN,
        Remedy.LOOK,
        Certainty.LIKELY,
        _NFS,
        DAY,
        _RPC,
        ended=(_ANSWERS,),
    ),
    Message(
        "nfs_servers",
        "timed_out",
        Rule(
            "not responding",
            _SERVER + r" not responding, timed out\Z",
            "nfs: server nas01.example.org not responding, timed out",
        ),
        "NFS server {0}",
        "it did not answer in time, and programs were given an error",
        Outcome.WARN,
        Remedy.LOOK,
        Certainty.LIKELY,
        _NFS,
        DAY,
        _RPC,
        ended=(_ANSWERS,),
    ),
)
