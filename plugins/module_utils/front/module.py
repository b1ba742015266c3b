# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module for one resource: its arguments in, one run of the resource, its result out."""

from __future__ import annotations

import os
from typing import Any, Iterable, Mapping

from ansible.module_utils.basic import AnsibleModule

from ..core import artefact, declaration
from ..core.host import Host
from ..core.options import argument_spec, described, of
from ..core.resource import NodeError, Refused, Resource, Unfinished, result, run

# The section of the declaration that has the machine's profile.
_PROFILE = "profile"


def main(resource: Resource) -> None:
    """Run the module to its end."""
    secret = has_secrets(resource.options)
    module = AnsibleModule(
        argument_spec=arguments(resource),
        supports_check_mode=True,
        # With an access key in an option, the journal of the node would have it.
        no_log=secret,
    )
    given = module.params
    if resource.lent is not None and resource.lent(given.pop("_binding")):
        # The controller runs the module again, with its own (plugins/plugin_utils/nvml_action.py).
        module.exit_json(changed=False, binding_wanted=True)
    profile = given.pop("_profile", None)
    if secret:
        module.no_log_values.update(artefact.secrets(secrets(resource.options, given)))
    # What looks at a captured tree says so in its options.
    host = Host(os.path.normpath(given["root"])) if given.get("root") else Host()
    desired: Any = None
    try:
        if profile is None and has_figures(resource.options):
            profile = (declaration.read(host).get(_PROFILE) or {}).get("data")
        desired = of(resource.options, given, profile)
        outcome = run(host, resource, desired, module.check_mode)
    except Unfinished as error:
        module.fail_json(msg=str(error), **result(error.outcome, resource, desired))
    except Refused as error:
        refusals = [{"thing": one.thing, "reason": one.reason, "remedy": one.remedy} for one in error.refusals]
        module.fail_json(msg=str(error), refusals=refusals)
    except NodeError as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result(outcome, resource, desired))


def arguments(resource: Resource) -> Mapping[str, Any]:
    """The argument specification of the module. Roles hand over the profile that was chosen a moment ago, which in
    check mode is declared nowhere."""
    spec = argument_spec(resource.options)
    if has_figures(resource.options):
        spec["_profile"] = {"type": "dict"}
    if resource.lent is not None:
        spec["_binding"] = {"type": "str", "no_log": True}
    return spec


def has_figures(options: type) -> bool:
    return any(one.profile for one in described(options).values())


def has_secrets(options: type) -> bool:
    return any(one.secret or (one.inner is not None and has_secrets(one.inner)) for one in described(options).values())


def secrets(options: type, given: Mapping[str, Any]) -> Iterable[str]:
    """The values that may hold an access key."""
    for name, one in described(options).items():
        value = given.get(name)
        if not value:
            continue
        if one.secret:
            yield str(value)
        elif one.inner is not None:
            for entry in value if one.kind == "list" else [value]:
                yield from secrets(one.inner, entry)
