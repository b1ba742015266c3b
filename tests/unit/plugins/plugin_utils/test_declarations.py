# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of a host as a declaration, tags of a run as a choice; and the module node as a play runs it."""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys

import pytest

import ansible_collections.trainyard.gpu_node as collection
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import wish
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import declarations

pytestmark = pytest.mark.usefixtures("kept_bytecode")

ROOTS = os.pathsep.join(
    sorted({os.path.dirname(os.path.dirname(os.path.dirname(path))) for path in collection.__path__})
)


def made(names, **variables):
    return declarations.of_variables(names, variables, variables.__getitem__)


def test_a_section_has_what_there_is_a_variable_for_as_its_option_wants_it():
    given = {"rdma_expected_ports": "8", "rdma_strict": "yes", "rdma_names": None, "rdmaextra": 1, "hpcx_keep": 2}
    assert made(["rdma", "nccl"], **given) == {"rdma": {"expected_ports": 8, "strict": True}, "nccl": {}}


def test_a_variable_of_another_role_is_taken_where_the_option_says_so():
    assert made(["job_templates"], slurm_hooks_gres_type="a100") == {"job_templates": {"gres_type": "a100"}}
    both = {"slurm_hooks_gres_type": "a100", "job_templates_gres_type": "h100"}
    assert made(["job_templates"], **both) == {"job_templates": {"gres_type": "h100"}}


def test_the_verdict_has_the_variables_of_the_playbooks():
    given = {"gpu_node_health_fail_on": "fail", "gpu_node_health_without": ["gpu_*"], "health_fail_on": "warn"}
    assert made(["health"], **given) == {"health": {"fail_on": "fail", "without": ["gpu_*"]}}


def test_profiles_of_the_site_are_read_from_their_folder(tmp_path):
    (tmp_path / "mine.yml").write_text("name: mine\n")
    (tmp_path / "notes.txt").write_text("x")
    found = made(["node_profile"], node_profile_profiles=str(tmp_path))
    assert found == {"node_profile": {"profiles": {"mine": {"name": "mine"}}}}
    with pytest.raises(NodeError, match="there is no folder '/no/where' on the controller"):
        made(["node_profile"], node_profile_profiles="/no/where")


def test_a_resource_that_there_is_none_of_is_told():
    with pytest.raises(NodeError, match="resource 'rdna': there is no such resource; did you mean 'rdma'?"):
        made(["rdna"])


def refused(names, **variables):
    """What the declaration that is made of them is refused with, in the words of who set the variables."""
    with pytest.raises(NodeError) as error:
        wish.desired(made(names, **variables), {})
    return declarations.with_variables(str(error.value))


LAYOUT = {"gpus": [3600.0, "0002:00:00.0"], "instances": [{"profile": "3g"}]}
YAML = "and no text (YAML makes numbers of 0777, 2:00:00 and 2.10); put it in quotes."


@pytest.mark.parametrize(
    "variables, told",
    [
        ({"nvme_scratch_mode": 0o777}, "nvme_scratch, nvme_scratch_mode (option mode): it is the number 511 " + YAML),
        ({"nvme_scratch_mount_point": True}, "mount_point): it is true and no text; put it in quotes."),
        ({"rdma_expected_ports": "many"}, "(option expected_ports): 'many' is no whole number; give a whole number."),
        (
            {"mig_layout_layouts": [{}, LAYOUT]},
            "mig_layout, mig_layout_layouts[1].gpus (option layouts): it is the number 3600.0 " + YAML,
        ),
        (
            {"health_gate_settings": {"acknowledged": [{"code": 63, "before": 2000000000, "pci_address": 3600.0}]}},
            "health_gate_settings.acknowledged[0].pci_address (option settings): it is the number 3600.0 " + YAML,
        ),
    ],
)
def test_what_cannot_be_is_told_with_the_variable(variables, told):
    names = ["nvme_scratch", "rdma", "mig_layout", "health_gate"]
    assert refused(names, **variables).endswith(told)


def test_indexes_and_ids_may_be_numbers_and_dates_be_dates():
    layout = {"gpus": 0, "instances": [{"profile": 9, "count": "2"}]}
    silence = {"finding": "gpu_xid/*", "until": datetime.date(2030, 12, 31), "owner": "me", "reason": "known"}
    found = made(["mig_layout", "health_gate"], mig_layout_layouts=[layout], health_gate_silences=[silence])
    desired = wish.desired(found, {})
    assert desired["mig_layout"].layouts[0].gpus == ("0",)
    assert desired["mig_layout"].layouts[0].instances[0].profile == "9"
    assert desired["mig_layout"].layouts[0].instances[0].count == 2
    assert desired["health_gate"].silences[0].until == "2030-12-31"


def test_what_a_module_alone_would_refuse_is_told_first():
    with pytest.raises(NodeError, match=r"option layouts\[0\].instances\[0\].cuont: there is no such option"):
        declarations.check("mig_layout", {"layouts": [{"instances": [{"profile": "3g", "cuont": 2}]}]}, None)
    with pytest.raises(NodeError, match="option expected_ports: 2000 is out of range"):
        declarations.check("rdma", {}, {"infiniband": {"count": 2000}})
    declarations.check("rdma", {"expected_ports": "8"}, None)
    declarations.check("gpu_info", {"anything": 1}, None)


def test_an_access_key_is_looked_for_in_whatever_was_given():
    assert declarations.secrets({"enroot": {"packages": 3}}) == []


@pytest.mark.parametrize(
    "tags, skipped, only, without",
    [
        (["all"], [], [], []),
        (["rdma", "other"], [], ["rdma"], []),
        (["comm"], ["nccl"], ["rdma", "hpcx", "nccl", "enroot", "pyxis", "job_templates"], ["nccl"]),
        (["health"], [], ["health"], []),
        (["all"], ["comm", "health"], [], ["rdma", "hpcx", "nccl", "enroot", "pyxis", "job_templates", "health"]),
        (["tagged"], ["other"], [], []),
        ([], [], [], []),
    ],
)
def test_tags_choose_resources(tags, skipped, only, without):
    assert declarations.chosen(tags, skipped) == declarations.Choice(only, without)


def test_tags_of_something_else_choose_nothing():
    assert declarations.chosen(["other"], []) is None


@pytest.mark.parametrize("writer, there", [("", True), ("gpu01", True), ("gpu02", False), (None, True)])
def test_what_nodes_share_is_written_by_the_one_that_is_named(writer, there):
    variables = {"inventory_hostname": "gpu01", "job_templates_node": writer}
    made = declarations.of_playbooks(variables, variables.__getitem__, False)
    assert ("job_templates" in made) is there
    assert "job_templates" in declarations.of_playbooks(variables, variables.__getitem__, True)


def test_a_tag_like_the_name_of_a_resource_is_misspelt_and_another_may_be_of_the_site():
    misspelt, others = declarations.unknown_tags(["rdna", "web", "always", "rdma", "comm", "nvme"])
    assert [text.split(":")[0] for text in misspelt] == ["tag 'rdna'"] and "did you mean 'rdma'?" in misspelt[0]
    assert [text.split(":")[0] for text in others] == ["tag 'nvme'", "tag 'web'"]


def test_tags_choose_among_what_a_playbook_is_for():
    assert declarations.chosen(["all"], [], ["rdma", "nccl"]) == declarations.Choice(["rdma", "nccl"], [])
    assert declarations.chosen(["nccl", "health"], [], ["rdma", "nccl"]) == declarations.Choice(["nccl"], [])
    assert declarations.chosen(["health"], [], ["rdma", "nccl"]) is None
    assert declarations.chosen(["node_runtime"], []) == declarations.Choice(["node_runtime"], [])


@pytest.mark.parametrize(
    "message, told",
    [
        (
            "nccl: option settings: it is empty; give it without option limits.",
            "nccl: nccl_settings (option settings): it is empty; give it without nccl_limits (option limits).",
        ),
        (
            "rdma, option names: no. health, option fail_on: no.",
            "rdma, rdma_names (option names): no. health, gpu_node_health_fail_on (option fail_on): no.",
        ),
        ("nccl: disk X: give option colour, or not.", "nccl: disk X: give option colour, or not."),
        ("option settings: of nobody.", "option settings: of nobody."),
        ("nvme_scratch: GPU 3: it is lost.", "nvme_scratch: GPU 3: it is lost."),
    ],
)
def test_an_error_of_a_node_names_the_variable_too(message, told):
    assert declarations.with_variables(message) == told


def test_access_keys_are_known():
    source = "https://mirror/x.tar?sig=abcdefghijklmnop"
    sections = {"hpcx": {"source": source}, "enroot": {"packages": [{"source": source + "q"}]}, "health": {}}
    assert declarations.secrets(sections) == ["sig=abcdefghijklmnop", "sig=abcdefghijklmnopq"]


def run(tmp_path, play, *words, **variables):
    """A play on this machine as one node, without becoming root."""
    (tmp_path / "play.yml").write_text(play)
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    host["ansible_remote_tmp"] = str(tmp_path / "remote")
    (tmp_path / "inventory.json").write_text(json.dumps({"all": {"hosts": {"node": dict(host, **variables)}}}))
    clean = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    return subprocess.run(
        [sys.executable, "-m", "ansible.cli.playbook", "-i", str(tmp_path / "inventory.json"), *words]
        + [str(tmp_path / "play.yml")],
        env=dict(clean, ANSIBLE_COLLECTIONS_PATH=ROOTS, ANSIBLE_NOCOLOR="1", ANSIBLE_HOME=str(tmp_path / "home")),
        cwd=str(tmp_path),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - trainyard.gpu_node.node:
        resources: [node_profile, rdma]
      register: node
      tags: [always]
    - ansible.builtin.debug:
        msg: "{{ {'parts': node.resources | default({}) | list, 'ready': node.ready | default(none),
                  'skipped': node.skipped | default(false), 'summary': node.summary | default([])} | to_json }}"
      tags: [always]
"""


@pytest.mark.parametrize(
    "words, parts",
    [
        ([], ["node_profile", "node_runtime", "declaration", "rdma"]),
        (["--tags", "rdma"], ["node_profile", "node_runtime", "declaration", "rdma"]),
        (["--skip-tags", "comm"], ["node_profile", "node_runtime", "declaration"]),
        (["--tags", "other"], []),
    ],
)
def test_a_check_of_a_blank_node_tells_the_plan_and_leaves_nothing(tmp_path, words, parts):
    done = run(tmp_path, PLAY, "--check", *words)
    temporary = tmp_path / "remote"
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(json.loads('"' + re.search(r'"msg": "(.*)"\n', done.stdout).group(1) + '"'))
    assert told["parts"] == parts and told["skipped"] is (not parts)
    assert told["ready"] is (True if parts else None)
    assert not [one for one in temporary.rglob("*") if one.is_file()] if temporary.exists() else True
    assert not os.path.exists("/etc/gpu_node/declaration.json")


WRITE = """
- hosts: all
  gather_facts: false
  tasks:
    - trainyard.gpu_node.node:
        write_to: made/{{ inventory_hostname }}.json
"""


def test_a_declaration_is_written_for_its_reader_alone_and_the_node_is_not_asked(tmp_path):
    path = tmp_path / "made" / "node.json"
    given = {"rdma_names": "{{ names }}", "names": "ordered", "nvme_scratch_rebuild": True, "gpu_node_comm": ["rdma"]}
    assert "changed=1" in run(tmp_path, WRITE, "--check", **given).stdout and not path.exists()
    done = run(tmp_path, WRITE, **given)
    assert "changed=1" in done.stdout, done.stdout + done.stderr
    assert json.loads(path.read_text()) == {
        "node_profile": {"asked": ["rdma"], "manage": "known"},
        "nvme_scratch": {},  # consent to a loss is for one run
        "mig_layout": {},
        "slurm_hooks": {},
        "gpu_settings": {},
        "rdma": {"names": "ordered"},
        "python_env": {},
        "health": {},
    }
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    path.chmod(0o644)
    assert "changed=1" in run(tmp_path, WRITE, **given).stdout and path.stat().st_mode & 0o777 == 0o600
    assert "changed=0" in run(tmp_path, WRITE, **given).stdout
    assert not (tmp_path / "remote").exists()


def test_a_wrong_variable_is_told_and_no_declaration_is_written(tmp_path):
    done = run(tmp_path, WRITE, rdma_expected_ports=2000)
    assert done.returncode != 0 and "rdma_expected_ports (option expected_ports): 2000 is out of range" in done.stdout
    assert not (tmp_path / "made").exists()


def test_a_folder_that_is_none_is_told_once(tmp_path):
    (tmp_path / "made").write_text("a file")
    done = run(tmp_path, WRITE, "--check")
    assert 'made/node.json: it cannot be written (Not a directory); name a file that can be."' in done.stdout, (
        done.stdout
    )


GIVEN = """
- hosts: all
  gather_facts: false
  tasks:
    - trainyard.gpu_node.node: "{{ given }}"
      check_mode: true
"""


@pytest.mark.parametrize(
    "given, told",
    [
        (
            {"declaration": {}, "resources": ["rdma"]},
            "options declaration and resources: each tells the sections; leave",
        ),
        ({"declaration": "node.json"}, "option declaration: it is not valid JSON"),
        ({"declaration": ["rdma"]}, "option declaration: it is no mapping of sections"),
        (
            {"declaration": {"rdna": {}}},
            "section 'rdna' of option declaration: there is no such resource; did you mean 'rdma'?",
        ),
        ({"resources": ["rdna"]}, "resource 'rdna': there is no such resource; did you mean 'rdma'?"),
        (
            {"declaration": {"rdma": {}}, "only": ["rdna"]},
            "resource 'rdna': there is no such resource; did you mean 'rdma'?",
        ),
    ],
)
def test_wrong_arguments_are_one_sentence(tmp_path, given, told):
    done = run(tmp_path, GIVEN, given=given)
    assert done.returncode != 0 and told in " ".join(done.stdout.replace("\\", "").split()), done.stdout


def test_a_declaration_may_be_the_text_of_a_file(tmp_path):
    done = run(tmp_path, GIVEN, given={"declaration": '{"rdma": {}}'})
    assert done.returncode == 0, done.stdout


SCRATCH = """
- hosts: all
  gather_facts: false
  tasks:
    - trainyard.gpu_node.nvme_scratch:
        mount_point: /mnt/scratch
        mode: 0777
"""


def test_a_module_alone_does_not_take_a_number_for_a_text(tmp_path):
    done = run(tmp_path, SCRATCH, "--check")
    assert done.returncode == 2, done.stdout
    told = "option mode: it is the number 511 and no text (YAML makes numbers of"
    assert told in " ".join(done.stdout.split())
