# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for helm 3, which cannot be installed from a Linux distribution: the command line that is used of it, its
JSON (``helm list``, ``helm status``, ``helm get values`` with ``-o json``) and its memory of releases, in the file that
HELM_STAND_IN names. It renders no chart and reaches no cluster.

It takes options that helm 3.8 and 4.2 both have (their cmd/helm and pkg/cmd) and no others; ``--reset-values`` and
``-f`` work as there. A chart named "broken" fails as a template does.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import yaml

KEPT = Path(os.environ["HELM_STAND_IN"])
STATES = ("deployed", "failed", "pending", "uninstalling", "uninstalled")


def main() -> int:
    common = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    common.add_argument("--kubeconfig")
    common.add_argument("--kube-context")
    common.add_argument("--namespace", "-n", default="default")
    parser = argparse.ArgumentParser(allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    listed = commands.add_parser("list", parents=[common])
    for state in STATES:
        listed.add_argument("--" + state, action="store_true")
    listed.add_argument("--filter", default="")
    listed.add_argument("-o", "--output")
    status = commands.add_parser("status", parents=[common])
    status.add_argument("name")
    status.add_argument("-o", "--output")
    get = commands.add_parser("get", parents=[common])
    get.add_argument("what", choices=["values"])
    get.add_argument("name")
    get.add_argument("-o", "--output")
    upgrade = commands.add_parser("upgrade", parents=[common])
    upgrade.add_argument("name")
    upgrade.add_argument("chart")
    upgrade.add_argument("--install", "-i", action="store_true")
    upgrade.add_argument("--create-namespace", action="store_true")
    upgrade.add_argument("--reset-values", action="store_true")
    upgrade.add_argument("--version")
    upgrade.add_argument("--description", default="Upgrade complete")
    upgrade.add_argument("-f", "--values")
    given = parser.parse_args()
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    key = "{0}/{1}".format(given.namespace, getattr(given, "name", ""))
    if given.command == "list":
        names = [name for name in kept if name.startswith(given.namespace + "/")]
        found = [{"name": name.partition("/")[2], **kept[name]["listed"]} for name in names]
        found = [one for one in found if getattr(given, one["status"].partition("-")[0])]
        print(json.dumps([one for one in found if given.filter == "^{0}$".format(one["name"])]))
        return 0
    if given.command == "upgrade":
        if given.chart == "broken":
            print("Error: UPGRADE FAILED: execution error at (gpu-operator/templates/x.yaml:3:4): no", file=sys.stderr)
            return 1
        values = yaml.safe_load(Path(given.values).read_text())
        before = kept.get(key, {"revision": 0})
        kept[key] = {
            "revision": before["revision"] + 1,
            "listed": {"chart": "gpu-operator-" + given.version, "status": "deployed"},
            "description": given.description,
            "values": values,
        }
        KEPT.write_text(json.dumps(kept))
        print("Release {0} has been upgraded. Happy Helming!".format(given.name))
        return 0
    if key not in kept:
        print("Error: release: not found", file=sys.stderr)
        return 1
    one = kept[key]
    if given.command == "status":
        print(json.dumps({"name": given.name, "info": {"description": one["description"]}}))
    else:
        print(json.dumps(one["values"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
