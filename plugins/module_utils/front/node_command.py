# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module is on a node: its arguments go to the node command there (``gpunode module NAME``), whose answer is its
result. The library lies in that command and is not sent with each module.

The controller (plugins/action/node.py) says by its digest which node command is to run. Where another one is installed,
or none, the module asks for it, and is run again with a copy in a temporary folder.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
import syslog
import zipfile
from typing import Any, List, Mapping, Optional

from ansible.module_utils.basic import AnsibleModule

RUNTIME = "/opt/gpu_node/gpunode.pyz"


def main(name: str, spec: Mapping[str, Any], secret: bool = False) -> None:
    """Run the module to its end. ``secret``: an option may hold an access key, and the journal of the node would have
    it."""
    module = AnsibleModule(argument_spec=dict(spec, _command={"type": "dict"}), supports_check_mode=True, no_log=secret)
    if secret:  # Ansible itself logs nothing then; that it ran is told all the same
        syslog.openlog("ansible-trainyard.gpu_node." + name)
        syslog.syslog("Invoked with arguments that are not logged")
    given = module.params
    wanted = given.pop("_command")
    if not wanted:
        reason = "{0}: it was run without its controller side; call it as trainyard.gpu_node.{0}."
        module.fail_json(msg=reason.format(name))
    module.no_log_values.update(wanted["secrets"])
    path: str = wanted["source"] or (RUNTIME if installed(RUNTIME) == wanted["sha256"] else "")
    if not path:
        module.exit_json(changed=False, transfer_needed=True)
    asked = {"arguments": given, "check_mode": module.check_mode, "profile": wanted["profile"]}
    told = _run(module, [sys.executable, "-I", path, "module", name], json.dumps(asked))
    for text in told.pop("warnings", ()):
        module.warn(text)
    if told.pop("failed", False):
        module.fail_json(**told)
    module.exit_json(**told)


def _run(module: AnsibleModule, command: List[str], asked: str) -> Any:
    status, error, out = 1, "", ""
    try:
        status, out, error = module.run_command(command, data=asked, handle_exceptions=False)
        return json.loads(out)
    except (OSError, ValueError) as failure:
        # What a command tells that cannot be used is one sentence on its standard error.
        reason = error.strip()[-2000:] or "the node command ended with status {0}: {1}".format(status, failure)
        return {"failed": True, "msg": reason}


def installed(path: str) -> Optional[str]:
    """SHA-256 of what the installed node command was made from; None: there is none, it is damaged, or it was made for
    another Python. resources/node_runtime/bytecode.py of the library, which is not sent, says what it looks like."""
    try:
        with open(path, "rb") as stream:
            content = stream.read()
        with zipfile.ZipFile(path) as archive:
            comment = archive.comment
        told = json.loads(comment)
        before = content[: len(content) - len(comment) - 2] + b"\0\0"
        whole = hashlib.sha256(before).hexdigest() == told["content"]
        return str(told["source"]) if whole and told["python"] == importlib.util.MAGIC_NUMBER.hex() else None
    except (OSError, zipfile.BadZipFile, ValueError, KeyError, TypeError):
        return None
