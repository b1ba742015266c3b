# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``kubectl get`` without kubectl: two of three calls of a test are one, and a process each costs more than all else.

What is written, a raw path that is no page of a list, a server that hangs and a cluster or context of another name stay
with the real kubectl;
tests/unit/plugins/module_utils/kubernetes/test_quick.py holds that both are answered the same.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from typing import Any, Callable, Dict, List, Optional, Tuple

from .server import KINDS, Api, Refused

# The Status of others is told by kubectl in words of its own.
_TOLD = (0, 403, 500)


def quick(api: Api, real: Callable[..., str]) -> Callable[..., str]:
    """Stands for ``Kubectl._run``, which is ``real``."""

    def run(client: Any, *words: str) -> str:
        asked = _asked(words)
        there = client.host.read(client.kubeconfig) if client.context == "test" and client.program == "kubectl" else ""
        if asked is None or api.url not in (there or "") or any(_odd(one) for one in api.faults):
            return real(client, *words)
        path, query, lenient = asked
        try:
            answer = api.answer("GET", path, query, "", b"")
            return json.dumps(answer if words[1].startswith("--raw") else _with_kinds(answer))
        except Refused as error:
            reason = error.answer.get("reason", "")
            if lenient and reason == "NotFound":
                return ""
            told = client._told("kubectl " + " ".join(words[:2]), _line(reason, str(error)))
            raise told from None

    return run


def _line(reason: str, message: str) -> str:
    return "Error from server{0}: {1}".format(" ({0})".format(reason) if reason else "", message)


def _with_kinds(answer: Dict[str, Any]) -> Dict[str, Any]:
    """What kubectl makes of a list."""
    if "items" not in answer:
        return answer
    kind = {"apiVersion": answer["apiVersion"], "kind": answer["kind"][: -len("List")]}
    items = [{**kind, **one} for one in answer["items"]]
    return dict(answer, items=items)


def _odd(fault: Any) -> bool:
    return bool(fault.hang or fault.status not in _TOLD)


def _asked(words: Tuple[str, ...]) -> Optional[Tuple[str, Dict[str, List[str]], bool]]:
    """(path, query, whether one that is missing is no error) of the words of a get; None: not one for us."""
    lists = r"/api/v1/(?:namespaces/[^/]+/)?(?:nodes|pods)|/apis/resource\.k8s\.io(?:/[^?]*)?"
    page = re.fullmatch(r"get --raw=(?P<path>{0})(?:\?(?P<query>.*))?".format(lists), " ".join(words))
    if page is not None:
        return page.group("path"), urllib.parse.parse_qs(page.group("query") or ""), False
    match = re.fullmatch(
        r"get (?P<kind>[a-z.]+)(?: (?P<name>[a-z0-9][-a-z0-9.]*))?(?: --namespace=(?P<namespace>\S+))?"
        r"(?P<lenient> --ignore-not-found)? -o json",
        " ".join(words),
    )
    kind = match.group("kind").partition(".")[0] if match else ""
    plural = next((one for one, (dummy, name, dummy2) in KINDS.items() if kind in (one, name.lower())), None)
    if match is None or plural is None:
        return None
    group, dummy, namespaced = KINDS[plural]
    path = "/apis/{0}/v1".format(group) if group else "/api/v1"
    if namespaced:
        path += "/namespaces/" + (match.group("namespace") or "default")
    path += "/" + plural + ("/" + match.group("name") if match.group("name") else "")
    return path, {}, bool(match.group("lenient"))
