# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a module as Ansible runs it: the module in one process, the node command that it calls in another.

Both are forks of a process that has imported what they import (tests/unit/forked.py). ``real=True`` starts two
interpreters, as Ansible does; test_module_run.py shows that the result is the same.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

from ansible_collections.trainyard.gpu_node.tests.unit import forked

COLLECTION = "ansible_collections.trainyard.gpu_node.plugins."
# What ansible-core does before it starts a module.
MODULE = """
import importlib, json, sys
from ansible.module_utils import basic

asked = json.loads(sys.stdin.read())
if sys.argv[2:] and "inject_invocation" in basic.PASS_VARS:
    # This ansible-core gives the arguments back only when it is asked to; older ones always do.
    asked["_ansible_inject_invocation"] = True
basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": asked}).encode()
basic._ANSIBLE_PROFILE = "legacy"
if sys.argv[2:]:
    basic.AnsibleModule.log = lambda self, message, log_args=None: print("logged", message, log_args)
importlib.import_module(sys.argv[1]).main()
"""
# The interpreter that the module calls, [sys.executable, "-I", path, ...], is a fork of the module's process.
FORKED = """
from ansible.module_utils import basic
from ansible_collections.trainyard.gpu_node.tests.unit import forked

def run_command(self, words, data, handle_exceptions):
    done = forked.again(words, data.encode())
    return done.returncode, done.stdout.decode(errors="surrogateescape"), done.stderr.decode(errors="surrogateescape")

basic.AnsibleModule.run_command = run_command
"""
# The node command, on a folder and as the user that a test wants.
COMMAND = """
import os, sys
sys.path[:0] = {path!r}
from {collection}module_utils.core.host import Host
from {collection}module_utils.command import main

os.geteuid = lambda: {uid}
if {root!r}:
    main.Host = lambda: Host({root!r})
{more}
sys.exit(main.main())
"""


def process(
    module,
    arguments,
    node="",
    check=False,
    uid=0,
    environment=None,
    figures=None,
    secrets=(),
    logged=False,
    more="",
    real=False,
):
    """The ended process of the module. With ``logged``, what Ansible logs stands before its result; ``more`` is code
    that the node command runs first, ``figures`` those of the profile that the controller knows."""
    path = [one for one in sys.path if one]
    given = dict(environment if environment is not None else os.environ)
    given["PYTHONPATH"] = os.pathsep.join([given[one] for one in ("PYTHONPATH",) if one in given] + path)
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "gpunode.py")
        with open(source, "w", encoding="utf-8") as stream:
            stream.write(COMMAND.format(path=path, collection=COLLECTION, uid=uid, root=str(node), more=more))
        command = {"sha256": "", "source": source, "secrets": list(secrets), "profile": figures}
        asked = dict(arguments, _command=command, _ansible_check_mode=check)
        words = ["-c", MODULE if real else FORKED + MODULE, COLLECTION + "modules." + module]
        words += ["logged"] if logged else []
        return (subprocess.run if real else forked.run)(
            [sys.executable, *words],
            input=json.dumps(asked),
            env=given,
            capture_output=True,
            timeout=300,
            text=True,
            check=False,
        )


def run_module(module, arguments, node="", check=False, **rest):
    done = process(module, arguments, node, check, **rest)
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    result = json.loads(done.stdout)
    assert bool(done.returncode) == bool(result.get("failed")), done.stderr
    return result
