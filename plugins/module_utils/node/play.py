# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``ansible-playbook trainyard.gpu_node.site`` on this node, with what was unpacked and nothing else of the machine."""

# pylint: disable=ansible-bad-function  # the library has no AnsibleModule
from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence

from ..core.frozen import frozen
from . import redact, unpack

# Ends the play when whoever started it is killed, so that the next run finds nobody at work (PR_SET_PDEATHSIG of
# prctl(2) is 1): all of it, as it leads a process group of its own. The path comes by an argument: -I reads none from
# the environment.
_LAUNCH = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
def end(number, frame):
    signal.signal(number, signal.SIG_DFL)
    os.killpg(0, number)
signal.signal(signal.SIGTERM, end)
sys.path.insert(0, sys.argv.pop(1))
sys.argv[0] = "ansible-playbook"
from ansible.cli.playbook import main
main()
"""
_CONFIGURATION = """[defaults]
home = {work}
local_tmp = {work}/tmp
remote_tmp = {work}/tmp
collections_path = {tree}/collections
callbacks_enabled = trainyard.gpu_node.converge_outcome
callback_result_format = yaml
retry_files_enabled = false
localhost_warning = false
nocolor = true
# What modules were called with belongs to no log: the output tells what they did.
no_target_syslog = true
"""
_OUTCOME = "outcome.json"
# Checks that cannot pass while this runs: the converge itself; and at boot, services that wait for it.
_WITHOUT = ("converge",)
_WITHOUT_AT_BOOT = ("service_running",)


@frozen
class Ended:
    """``failure`` tells why a play stopped, also for its verdict; ``outcome`` is that of the verdict on the node."""

    status: int
    failure: Optional[str] = None
    outcome: Optional[str] = None

    @property
    def reason(self) -> str:
        """Why the node is not ready; empty: it is."""
        if self.status != 0:
            return self.failure or "ansible-playbook ended with status {0}, its output tells why".format(self.status)
        if self.outcome == "fail":
            # Also where gpu_node_health_fail_on lets a play go on.
            return "the verdict on it is fail; 'gpunode health' tells why"
        return "no verdict was given on it" if self.outcome is None else ""


@frozen
class Play:
    """``work`` is a folder of root's own. ``variables`` are files, later ones win."""

    tree: str
    work: str
    variables: Sequence[str] = ()
    vault_password: Optional[str] = None
    check: bool = False
    boot: bool = False

    def command(self) -> List[str]:
        words = [sys.executable, "-I", "-B", "-c", _LAUNCH, os.path.join(self.tree, unpack.LIBRARY)]
        words += ["--inventory", "localhost,", "--connection", "local"]
        words += ["--check", "--diff"] if self.check else []
        words += ["--vault-password-file", self.vault_password] if self.vault_password is not None else []
        for path in self.variables:
            words += ["--extra-vars", "@" + path]
        without = _WITHOUT + (_WITHOUT_AT_BOOT if self.boot else ())
        ours: Dict[str, Any] = {
            "gpu_node_hosts": "all",
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "__gpu_node_health_without": list(without),
            # Unless gpu_node_health_fail_on says otherwise, as on a machine that has no profile.
            "__gpu_node_health_fail_on": "unknown",
        }
        if self.boot:
            # slurmd waits for the unit, so a restart of it in the unit would wait for itself.
            ours["pyxis_restart"] = False
        return [*words, "--extra-vars", json.dumps(ours), "trainyard.gpu_node.site"]

    def environment(self) -> Dict[str, str]:
        """All of it: nothing of whoever started the run counts."""
        return {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": self.work,
            "TMPDIR": os.path.join(self.work, "tmp"),
            "USER": "root",
            "LOGNAME": "root",
            "SHELL": "/bin/sh",
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_CONFIG": os.path.join(self.work, "ansible.cfg"),
            "GPU_NODE_CONVERGE_OUTCOME": os.path.join(self.work, _OUTCOME),
        }

    def run(self, say: Callable[[str], None]) -> Ended:
        """Every line of output goes to ``say``."""
        prepare(self)
        process = subprocess.Popen(
            self.command(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.environment(),
            cwd=self.work,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        shown = redact.without_lines_of(self.variables)
        try:
            for line in process.stdout or ():
                say(shown(line.rstrip("\n")))
            return ended(process.wait(), os.path.join(self.work, _OUTCOME))
        finally:
            if process.poll() is None:
                _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """The play and all that it started."""
    for number, patience in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
            return


def prepare(play: Play) -> None:
    """The folder of a run, empty and for root alone, with the settings of Ansible in it."""
    if os.path.isdir(play.work):
        shutil.rmtree(play.work)
    os.makedirs(os.path.join(play.work, "tmp"), mode=0o700)
    os.chmod(play.work, 0o700)
    with open(os.path.join(play.work, "ansible.cfg"), "w", encoding="utf-8") as stream:
        stream.write(_CONFIGURATION.format(work=play.work, tree=play.tree))


def ended(status: int, path: str) -> Ended:
    """What the callback wrote at the end of the play; a play that was ended before has written nothing."""
    try:
        with open(path, encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError):
        return Ended(status)
    return Ended(status, found.get("failure"), found.get("outcome"))
