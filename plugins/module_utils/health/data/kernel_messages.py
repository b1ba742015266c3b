# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of the kernel log that tell of a fault of processors and memory, or of the kernel itself."""

from __future__ import annotations

from typing import Tuple

from ..firmware_records import OTHER
from ..kernel_log import Rule
from ..types import Certainty, Outcome, Remedy
from .kernel_device_messages import DEVICE_MESSAGES
from .kernel_message import DAY, Message
from .kernel_network_messages import NETWORK_MESSAGES

# Bit 61 of the status of a bank (UC) is the second of its first hexadecimal digit.
_MACHINE_CHECK = r"(?:mce: )?\[Hardware Error\]: CPU \d+: Machine Check(?: Exception)?: [0-9a-f]+ Bank \d+: "

MESSAGES: Tuple[Message, ...] = (
    Message(
        "kernel_hung_tasks",
        "hung",
        Rule(
            "INFO: task ",
            r"INFO: task [\s\S]{1,15}:\d+ blocked(?: in I/O wait)? for more than \d+ seconds",
            "INFO: task kworker/u192:3:8131 blocked for more than 120 seconds.",
        ),
        "kernel",
        "a task hung in it",
        Outcome.WARN,
        Remedy.LOOK,
        Certainty.LIKELY,
        "see in 'dmesg' what the task waits for: a disk, a network file system, the driver of a GPU",
        DAY,
        "Linux, kernel/hung_task.c, check_hung_task",
    ),
    Message(
        "kernel_out_of_memory",
        "system",
        Rule(
            "Out of memory",
            r"Out of memory(?: \([a-z_]+\))?: Kill(?:ed)? process \d+",
            "Out of memory: Killed process 4711 (python) total-vm:9kB, anon-rss:8kB",
        ),
        "memory",
        "it was used up, and the kernel killed a process",
        Outcome.WARN,
        Remedy.LOOK,
        Certainty.CERTAIN,
        "see in 'dmesg' who was killed; jobs stay within theirs by ConstrainRAMSpace in Slurm's cgroup.conf",
        DAY,
        "Linux, mm/oom_kill.c, oom_kill_process",
    ),
    Message(
        "kernel_out_of_memory",
        "job",
        Rule(
            "Memory cgroup out of memory",
            r"Memory cgroup out of memory: Kill(?:ed)? process \d+",
            "Memory cgroup out of memory: Killed process 4711 (python) total-vm:9kB, anon-rss:8kB",
        ),
        "memory of a job",
        "a job used its own up",
        Outcome.PASS,
        Remedy.WATCH,
        Certainty.CERTAIN,
        "nothing: the job asked for too little",
        DAY,
        "Linux, mm/oom_kill.c, oom_kill_process",
    ),
    Message(
        "kernel_machine_checks",
        "uncorrected",
        Rule(
            "Machine Check",
            _MACHINE_CHECK + r"[2367abef][0-9a-f]{15}",
            "mce: [Hardware Error]: CPU 2: Machine Check Exception: 5 Bank 7: be00000000800400",
        ),
        "processor or memory",
        "a machine check could not be corrected",
        Outcome.FAIL,
        Remedy.REPLACE,
        Certainty.CERTAIN,
        "redeploy the machine, or read its event log (ipmitool sel list) and replace what that names",
        None,
        "Linux, arch/x86/kernel/cpu/mce/core.c, __print_mce; Intel SDM volume 3, 17.3.2.2 (IA32_MCi_STATUS, UC)",
    ),
    Message(
        "kernel_machine_checks",
        "corrected",
        Rule(
            "Machine Check",
            _MACHINE_CHECK + r"[014589cd][0-9a-f]{15}",
            "mce: [Hardware Error]: CPU 2: Machine Check: 0 Bank 7: 8c00004000010090",
        ),
        "processor or memory",
        "a machine check was corrected",
        Outcome.WARN,
        Remedy.WATCH,
        Certainty.CERTAIN,
        "watch whether it recurs (ras-mc-ctl --errors)",
        DAY,
        "Linux, arch/x86/kernel/cpu/mce/core.c, __print_mce; Intel SDM volume 3, 17.3.2.2 (IA32_MCi_STATUS, UC)",
    ),
    Message(
        "kernel_machine_checks",
        "uncorrected",
        Rule(
            "[Hardware Error]: ",
            r"(?:mce: )?\[Hardware Error\]: (?:Uncorrected, software \w+ error|System Fatal error)",
            "[Hardware Error]: Uncorrected, software restartable error.",
        ),
        "processor or memory",
        "an error could not be corrected",
        Outcome.FAIL,
        Remedy.REPLACE,
        Certainty.CERTAIN,
        "redeploy the machine, or read its event log (ipmitool sel list) and replace what that names",
        None,
        "Linux, drivers/edac/mce_amd.c, decode_error_status",
    ),
    Message(
        "kernel_machine_checks",
        "uncorrected",
        Rule(
            "event severity: ",
            # Those of the previous boot, which BERT has, bear no number.
            r"\{\d+\}\[Hardware Error\]: event severity: (?:recoverable|fatal)",
            "{1}[Hardware Error]: event severity: recoverable",
        ),
        "processor or memory",
        "the firmware reported an error that could not be corrected",
        Outcome.FAIL,
        Remedy.REPLACE,
        Certainty.LIKELY,
        "see the lines after it in 'dmesg' for what it was; redeploy the machine, or replace that",
        None,
        "Linux, drivers/firmware/efi/cper.c, cper_estatus_print",
        sections=((OTHER, "recoverable"), (OTHER, "fatal")),
        of_record=True,
    ),
    Message(
        "kernel_machine_checks",
        "previous_boot",
        Rule(
            "BERT: ",
            r"BERT: Error records from previous boot:",
            "BERT: Error records from previous boot:",
        ),
        "processor, memory or a PCIe device",
        "the firmware kept an error of the previous boot",
        Outcome.WARN,
        Remedy.WATCH,
        Certainty.LIKELY,
        "see the lines after it in 'dmesg' for what ended that boot, and watch whether it recurs",
        DAY,
        "Linux, drivers/acpi/apei/bert.c, bert_print_all",
    ),
    Message(
        "kernel_machine_checks",
        "memory_page",
        Rule(
            "Memory failure: 0x",
            r"Memory failure: 0x[0-9a-f]+: ",
            "Memory failure: 0x1f3a2c: recovery action for dirty LRU page: Recovered",
        ),
        "memory",
        "a page of it is broken, and the kernel gave it up",
        Outcome.FAIL,
        Remedy.REPLACE,
        Certainty.CERTAIN,
        "reboot to have the page left out; replace the module if it recurs",
        None,
        "Linux, mm/memory-failure.c",
    ),
    Message(
        "kernel_stalls",
        "hard_lockup",
        Rule(
            "hard LOCKUP",
            r"(?:NMI )?watchdog: (?:CPU\d+: )?Watchdog detected hard LOCKUP on cpu \d+",
            "watchdog: CPU3: Watchdog detected hard LOCKUP on cpu 17",
        ),
        "kernel",
        "a CPU was stuck with interrupts off",
        Outcome.WARN,
        Remedy.REBOOT,
        Certainty.LIKELY,
        "reboot at the next occasion; on a virtual machine, ask whether it was paused or migrated",
        DAY,
        "Linux, kernel/watchdog_perf.c, watchdog_hardlockup_check",
    ),
    Message(
        "kernel_stalls",
        "rcu_stall",
        Rule(
            "INFO: rcu_",
            r"(?:rcu: )?INFO: rcu_\w+ (?:self-)?detected (?:expedited )?stalls?",
            "rcu: INFO: rcu_sched self-detected stall on CPU",
        ),
        "kernel",
        "a CPU did not answer for long",
        Outcome.WARN,
        Remedy.LOOK,
        Certainty.LIKELY,
        "see in 'dmesg' what the CPU was at; on a virtual machine, ask whether it was paused or migrated",
        DAY,
        "Linux, Documentation/RCU/stallwarn.rst",
    ),
    Message(
        "cpu_throttling",
        "temperature",
        Rule(
            "temperature",
            r"(?:mce: )?CPU\d+: (?:Core|Package) temperature (?:is )?above threshold",
            "mce: CPU12: Core temperature above threshold, cpu clock throttled (total events = 9)",
        ),
        "processor",
        "it became too hot and was slowed down",
        Outcome.WARN,
        Remedy.LOOK,
        Certainty.CERTAIN,
        "look at fans, filters and the temperature of the room (ipmitool sdr type temperature)",
        DAY,
        "Linux, drivers/thermal/intel/therm_throt.c",
    ),
    *DEVICE_MESSAGES,
    *NETWORK_MESSAGES,
)
