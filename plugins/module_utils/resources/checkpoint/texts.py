# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of checkpoint.env, for job scripts that call azcopy themselves. Pure."""

from __future__ import annotations

import shlex

from ...checkpoints import access
from ...checkpoints.settings import Settings
from ...checkpoints.work import LOGS, PLANS
from ...core.managed_files import MARKER
from ...placement import transfer


def environment(settings: Settings, work: str, cores: int) -> str:
    """:raises NodeError: the account's limit is too small for so many files."""
    limits = transfer.limits(
        settings.account_ingress_gbps, settings.files_per_node, cores, settings.nodes, settings.headroom_percent
    )
    lines = [
        MARKER + " Changes will be lost.",
        "# For a job script that calls azcopy itself: . /etc/gpu_node/checkpoint.env",
        '# GOMAXPROCS="$CHECKPOINT_CORES" azcopy copy FILE "$CHECKPOINT_DESTINATION/NAME/FILE" \\',
        '#   --cap-mbps "$CHECKPOINT_CAP_MBPS" --put-md5',
        "# The cap is of one of {0} files at a time on each of {1} node(s).".format(
            settings.files_per_node, settings.nodes
        ),
        "export CHECKPOINT_DESTINATION={0}".format(shlex.quote(settings.destination)),
        "export CHECKPOINT_CAP_MBPS={0}".format(limits.cap_megabits_per_second),
        "export CHECKPOINT_CORES={0}".format(limits.concurrency),
        "export AZCOPY_CONCURRENCY_VALUE={0}".format(limits.concurrency),
        "export AZCOPY_DISABLE_SYSLOG=true",
    ]
    lines += ["export {0}={1}".format(name, shlex.quote(value)) for name, value in access.public(settings)]
    lines += [
        "# By themselves its plans and logs fill the home folder. The folder counts only if it is yours.",
        "checkpoint_work={0}/gpu_node-checkpoint-$(id -u)".format(shlex.quote(work.rstrip("/"))),
        '(umask 077 && mkdir -p "$checkpoint_work/{0}" "$checkpoint_work/{1}" 2>/dev/null) || true'.format(PLANS, LOGS),
        'if [ -O "$checkpoint_work" ] && [ ! -L "$checkpoint_work" ]; then',
        '  export AZCOPY_JOB_PLAN_LOCATION="$checkpoint_work/{0}" AZCOPY_LOG_LOCATION="$checkpoint_work/{1}"'.format(
            PLANS, LOGS
        ),
        "fi",
    ]
    return "\n".join(lines) + "\n"
