# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Azure's Guest Health Reporting would be told. A dry run: nothing here sends anything.

One report a node, about its worst finding that only the owner of the hardware can repair. Request and fields:
learn.microsoft.com/azure/azure-impact-reporting/guest-health-impact-report.
"""

from __future__ import annotations

import json
import re
import uuid
from typing import Any, Dict, Optional, Tuple

from ...core.moment import moment
from ...core.one_line import line
from ..data.azure_categories import GENERIC, Category, category
from ..types import Finding, Outcome, Remedy, Verdict, finding_name
from .words import cut

API_VERSION = "2025-01-01-preview"
_URL = (
    "https://management.azure.com/subscriptions/{0}/providers/Microsoft.Impact/workloadImpacts/{1}?api-version="
    + API_VERSION
)
_SUBSCRIPTION = re.compile(r"/subscriptions/([^/]+)/", re.IGNORECASE)
_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
# What somebody on the node can repair is nothing to report.
_OURS = (Remedy.WATCH, Remedy.CONFIGURE, Remedy.RESTART_SERVICE)
_OBSERVED = "{0} is for Azure to repair, but observed only, so it is not reported"
_NOTHING = "nothing that was found is for Azure to repair"


def reported(verdict: Verdict) -> Optional[Tuple[str, Finding, Category]]:
    """(check, finding, category) of what would be reported, or None."""
    return _reportable(verdict.findings)


def _reportable(findings: Tuple[Tuple[str, Finding], ...]) -> Optional[Tuple[str, Finding, Category]]:
    for check, finding in findings:
        if finding.outcome is not Outcome.FAIL or finding.action in _OURS:
            continue
        found = category(finding_name(check, finding))
        if found is None and finding.action is Remedy.REPLACE:
            found = GENERIC
        if found is not None:
            return check, finding, found
    return None


def document(verdict: Verdict, resource_id: str = "", physical_host_name: str = "") -> Dict[str, Any]:
    """``resource_id`` is that of the virtual machine, ``physical_host_name`` what Hyper-V's key-value pairs say.

    ``missing`` names the fields that Azure demands and nobody has given.
    """
    found = reported(verdict)
    if found is None:
        held = _reportable(verdict.only_observed)
        reason = _NOTHING if held is None else line(_OBSERVED.format(finding_name(held[0], held[1])))
        return {"dry_run": True, "reason": reason, "method": None, "url": None, "body": None, "missing": []}
    check, finding, chosen = found
    name = finding_name(check, finding)
    subscription = _SUBSCRIPTION.match(resource_id)
    impact = uuid.uuid5(uuid.NAMESPACE_URL, "/".join((line(verdict.node), line(name), moment(verdict.time))))
    extra = {"PhysicalHostName": physical_host_name}
    if chosen.gpu:
        extra["Manufacturer"] = "Nvidia"
        if _PCI_ADDRESS.fullmatch(finding.key):
            extra["Location"] = finding.key
    properties = {
        "startDateTime": moment(verdict.time),
        "impactCategory": chosen.name,
        "impactDescription": cut(line("{0}: {1}: {2}".format(name, finding.thing, finding.reason)), 1000),
        "impactedResourceId": resource_id,
        "additionalProperties": {key: value for key, value in extra.items() if value},
    }
    given = {"resource_id": resource_id if subscription else "", "physical_host_name": physical_host_name}
    return {
        "dry_run": True,
        "reason": line("{0}: {1}".format(name, chosen.meaning)),
        "method": "PUT",
        "url": _URL.format(subscription.group(1) if subscription else "SUBSCRIPTION", impact),
        "body": {"properties": properties},
        "missing": sorted(key for key, value in given.items() if not value),
    }


def render(verdict: Verdict, resource_id: str = "", physical_host_name: str = "") -> str:
    return json.dumps(document(verdict, resource_id, physical_host_name), indent=2, sort_keys=True) + "\n"
