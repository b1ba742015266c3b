# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters of RDMA ports: what each means, and which of them tell of a bad link.

The files lie in /sys/class/infiniband/DEVICE/ports/PORT. The limit of a day's growth is that of ``FIGURE_per_day`` in
:mod:`.limits`; a counter without one is only measured, for the comparison of a fleet: it grows with jobs that end
while their peers still send.
"""

from __future__ import annotations

from typing import Tuple

from ...core.frozen import frozen

_KERNEL = "Linux, Documentation/ABI/stable/sysfs-class-infiniband"
_MLX5 = "NVIDIA Enterprise Support, 'Understanding mlx5 Linux Counters and Status Parameters'"


@frozen
class Counter:
    """``file`` is below the folder of the port, ``meaning`` is said of the port. ``most``: where it stops and counts no
    more, by its bits; 0: it has 32 or more."""

    file: str
    figure: str
    meaning: str
    source: str
    most: int = 0


FLAPS: Tuple[Counter, ...] = (
    Counter("counters/link_downed", "infiniband_link_downed", "its link went down", _KERNEL, 255),
)
ERRORS: Tuple[Counter, ...] = (
    Counter("counters/symbol_error", "infiniband_symbol_errors", "it received bad symbols", _KERNEL, 65535),
    Counter(
        "counters/link_error_recovery", "infiniband_link_error_recoveries", "its link was trained anew", _KERNEL, 255
    ),
    Counter("counters/port_rcv_errors", "infiniband_receive_errors", "it received bad packets", _KERNEL, 65535),
    Counter(
        "counters/local_link_integrity_errors",
        "infiniband_link_integrity_errors",
        "errors of its physical link were beyond their limit",
        _KERNEL,
        15,
    ),
    Counter(
        "counters/excessive_buffer_overrun_errors",
        "infiniband_buffer_overruns",
        "its buffers ran over, time and again",
        _KERNEL,
        15,
    ),
    Counter(
        "hw_counters/rx_icrc_encapsulated", "roce_checksum_errors", "it received packets with a bad checksum", _MLX5
    ),
    Counter("hw_counters/rnr_nak_retry_err", "rdma_receiver_not_ready", "a peer was not ready to receive", _MLX5),
    Counter("hw_counters/roce_slow_restart", "roce_slow_restarts", "sending began anew, slowly", _MLX5),
)
MEASURED: Tuple[Counter, ...] = (
    Counter("counters/port_xmit_discards", "infiniband_transmit_discards", "it dropped packets unsent", _KERNEL, 65535),
    Counter("counters/port_xmit_wait", "infiniband_transmit_wait_ticks", "it waited for credits", _KERNEL),
    Counter("hw_counters/local_ack_timeout_err", "rdma_acknowledge_timeouts", "acknowledgements came late", _MLX5),
    Counter("hw_counters/out_of_sequence", "rdma_out_of_sequence_packets", "packets came out of their order", _MLX5),
    Counter("hw_counters/packet_seq_err", "rdma_sequence_errors", "a peer missed packets", _MLX5),
    Counter("hw_counters/out_of_buffer", "rdma_out_of_buffer_drops", "packets came with no buffer for them", _MLX5),
    Counter("hw_counters/roce_adp_retrans", "roce_adaptive_retransmissions", "packets were sent again", _MLX5),
)
# What a port sent and received, in packets: errors are compared between ports of a node by their share of these.
PACKETS: Tuple[Counter, ...] = (
    Counter("counters/port_xmit_packets", "infiniband_transmit_packets", "it sent packets", _KERNEL),
    Counter("counters/port_rcv_packets", "infiniband_receive_packets", "it received packets", _KERNEL),
)
# Those that grow with jobs on every port alike, so that one port with many more than the others is what is wrong.
COMPARED: Tuple[str, ...] = (
    "infiniband_transmit_discards",
    "rdma_acknowledge_timeouts",
    "rdma_out_of_sequence_packets",
    "rdma_sequence_errors",
    "rdma_out_of_buffer_drops",
    "rdma_receiver_not_ready",
    "roce_adaptive_retransmissions",
    "roce_slow_restarts",
)
