# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What opens a door is hidden, whatever stands around it; what does not is left as it is."""

from __future__ import annotations

import json
import string
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import described
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.secrets import HIDDEN, hide
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.diagnose import processes, secrets
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.diagnose.secrets import Filter, after_cut

# A secret that can be told from its surroundings: of any letters that its form may have.
WORD = st.text(string.ascii_letters + string.digits + "!#$%&*+,-./:;<=>?@[]^_{|}~()", min_size=1, max_size=30)
PLAIN = st.text(string.ascii_letters + string.digits + "+/=_.~-", min_size=1, max_size=40)
QUOTED = st.text(string.ascii_letters + string.digits + " ,;:=&{}[]\\\"'/é", min_size=1, max_size=30)
NAMES = st.sampled_from(
    "password PASSWORD Passwd passphrase db_pass StoragePass secret client_secret SECRET_KEY token HF_TOKEN "
    "access_token api_key ApiKey api-key AWS_SECRET_ACCESS_KEY aws_access_key_id AccountKey SharedAccessKey sig auth "
    "AuthInfo credentials session_id connection_string private_key WANDB_API_KEY X-Amz-Signature SAS_TOKEN".split()
)
# What may stand before and after, in the line itself and around it. Quotes in it would change what is quoted.
AROUND = st.text(string.ascii_letters + string.digits + " \t:=,;{}[]()<>/\\&?@#%+.-_é\x1b", max_size=40)
MARK = "Zq7"


def marked(words):
    return words.map(lambda word: MARK + word + MARK)


def clean(text):
    return Filter().text(text)


# What the filter of a log and that of a sentence have in common.
BOTH = pytest.mark.parametrize("cleaned", [clean, hide])


def gone(secret, text):
    """The marks stand at both ends of a secret: neither is left."""
    return MARK not in text


FORMS = (
    "{name}={word}",
    "export {name}={word}",
    "{name}: {word}",
    "  {name} = {word} and more",
    '"{name}": {word}',
    "--{name}={word}",
    "--{name} {word}",
    "Authorization: {word}",
    "authorization=Bearer {word}",
    "Proxy-Authorization: Basic {word}",
    "Cookie: id={word}; b=2",
    "curl -u someone:{word} host",
    "machine h login someone password {word}",
    "password {word}",
    "{name} => {word}",
    "os.environ['{name}'] = {word}",
    "sshpass -p {word} ssh host",
    "docker login -u someone -p {word} host",
    "ipmitool user set password 2 {word}",
)


@pytest.mark.parametrize("form", FORMS)
@given(before=AROUND, name=NAMES, word=marked(WORD), after=AROUND)
@example(before="", name="password", word="Zq7=Zq7", after="")
def test_a_word_after_the_name_of_a_secret_is_hidden(form, before, name, word, after):
    line = form.format(name=name, word=word)
    whole = line if form.startswith("password ") else before + " " + line
    assert gone(word, clean("x\n{0} {1}\nx".format(whole, after)))


@given(name=NAMES, word=marked(PLAIN), long=st.text(string.ascii_letters + string.digits, min_size=6, max_size=60))
def test_what_stands_in_an_element_or_after_the_word_of_a_header_is_hidden(name, word, long):
    assert gone(word, clean("<a:{0} x='1'>{1} {1}</a:{0}>".format(name, word)))
    for scheme in ("Bearer", "bearer", "Basic", "SharedKey"):
        assert gone(word, clean("got '{0} {1}{2}{1}' back".format(scheme, MARK, long)))


@given(before=AROUND, name=NAMES, word=marked(QUOTED), more=AROUND)
def test_a_string_under_the_name_of_a_secret_is_hidden(before, name, word, more):
    for text in (json.dumps(word), repr(word)):
        for sign in (": ", "=", " = ", ":", ", 'x': 1, '" + name + "': "):
            line = "{0} '{1}'{2}{3}, 'b': 1 {4}".format(before, name, sign, text, more)
            if sign.startswith(","):
                line = before + sign + text
            assert gone(word, clean(line)), line


@given(name=NAMES, word=marked(QUOTED), more=st.dictionaries(st.text("abc", min_size=1), QUOTED, max_size=3))
def test_a_document_within_a_string_keeps_none(name, word, more):
    document = dict(more, **{name: word})
    assert gone(word, clean(json.dumps(document)))
    assert gone(word, clean(json.dumps({"text": json.dumps(document)})))


@BOTH
@given(name=NAMES, word=marked(WORD), before=AROUND, after=AROUND)
def test_what_is_given_to_the_name_of_a_secret_is_hidden(cleaned, name, word, before, after):
    for line in ("{0}={1}", "--{0}={1}", "'{0}={1}'", '{0}="{1}"'):
        assert gone(word, cleaned("{0} {1} {2}".format(before, line.format(name, word), after)))


@BOTH
@given(scheme=st.sampled_from(["https", "http", "s3", "postgresql"]), user=PLAIN, word=marked(PLAIN), rest=PLAIN)
def test_an_address_keeps_neither_its_password_nor_its_query(cleaned, scheme, user, word, rest):
    for line in (
        "{0}://{1}:{2}@host/{3}",
        "get {0}://{2}@host/{3}",
        "{0}://host/a/b?sv=1&sig={2}&x={3}",
        "'{0}://host/{3}?{2}'",
        "{0}://host/t/{2}/channel/{3}",
    ):
        text = cleaned(line.format(scheme, user.replace("/", "x"), word.replace("/", "x"), rest.replace("?", "x")))
        assert gone(word, text) and scheme + "://" in text


@pytest.mark.parametrize("kind", ["RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PRIVATE KEY", "PGP PRIVATE KEY BLOCK"])
@given(
    lines=st.lists(
        marked(st.text(string.ascii_letters + string.digits + "+/", min_size=20, max_size=64)), min_size=1, max_size=8
    ),
    indent=st.sampled_from(["", "  ", "Nov 26 12:00:00 gpu1 unit[7]: "]),
    before=AROUND,
    cut=st.integers(0, 3),
)
def test_a_private_key_is_hidden_also_where_its_begin_or_its_end_is_missing(kind, lines, indent, before, cut):
    key = [indent + one for one in ["-----BEGIN {0}-----".format(kind), *lines, "-----END {0}-----".format(kind)]]
    if cut == 1:
        key = key[:-1]
    if cut == 2:
        key = key[1:]
    text = "\n".join([before, *key]) + ("" if cut == 1 else "\nafter it")
    if cut == 3:  # as JSON has it
        text = json.dumps({"key": "\n".join(key)}) + "\nafter it"
    found = clean(text)
    assert not any(one in found for one in lines)
    assert cut == 1 or "after it" in found


@given(
    indent=st.integers(0, 4),
    name=NAMES,
    style=st.sampled_from(["|", ">-", "", "["]),
    words=st.lists(marked(PLAIN), min_size=1),
)
def test_what_stands_below_the_name_is_hidden(indent, name, style, words):
    space = " " * indent
    lines = ["{0}{1}: {2}".format(space, name, style), *(space + "  " + one for one in words), space + "next: kept"]
    found = clean("\n".join(lines))
    assert gone(words, found) and "next: kept" in found


@pytest.mark.parametrize(
    "word",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_0123456789abcdefABCDEF0123456789abcd",
        "github_pat_11ABCDEFG0123456789abcdef",
        "glpat-0123456789abcdefABCD",
        "xoxb-0123456789-abcdefghij",
        "hf_abcdefghijABCDEFGHIJ0123456789abcd",
        "nvapi-abcdefghijABCDEFGHIJ0123456789",
        "sk-abcdefghijABCDEFGHIJ0123456789",
        "AIzaSyA0123456789abcdefghijklmnopqrstuv",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefgh",
        "A" * 43 + "b/" * 21 + "C==",
    ],
)
@BOTH
@given(before=AROUND, after=AROUND)
def test_a_secret_is_known_by_its_form(cleaned, word, before, after):
    assert word not in cleaned("{0} {1} {2}".format(before, word, after))


@given(words=st.lists(marked(QUOTED), min_size=1, max_size=3), before=AROUND)
def test_what_is_a_secret_in_one_place_is_hidden_in_all(words, before):
    text = "\n".join(before + one + before for one in words)
    assert gone(words, Filter(words).text(text)) and gone(words, hide(text, words))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz", min_size=1), inner, max_size=3),
)


@given(name=NAMES, inside=JSON, other=JSON)
def test_nothing_under_the_name_of_a_secret_stays_in_a_document(name, inside, other):
    document = {"kept": other, name: [{"a": inside, "b": MARK}], "n": 1}
    found = Filter().tree(document)
    assert MARK not in json.dumps(found) and set(found) >= {"kept", "n"} and found["n"] == 1
    assert MARK in secrets.secrets_of(document)


def test_a_text_without_secrets_stays_as_it_is():
    text = """gpu07: pass, 31 checks of level passive in 2.3 s
  pass     gpu_xid: no Xid since the boot (bypass: on)
Personalities : [raid0]
md0 : active raid0 nvme1n1[1] nvme0n1[0]
NVRM: Xid (PCI:0000:0b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
/sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data 4711
Accepted publickey for root
keyboard: attached; monkey business, assigned author
https://host/path is up; user@host is known
GPU-5b3c7a11-0000-4000-8000-000000000003  b66f2ca602640595ea0fc279078346cbb66f2ca602640595ea0fc279078346cb
"""
    filtered = Filter()
    assert filtered.text(text) == text and filtered.hidden == 0 and hide(text) == text


@pytest.mark.parametrize(
    "sentence",
    [
        "error: You must be logged in to the server (Unauthorized)",
        "Unable to connect to the server: getting credentials: exec: executable aws failed with exit code 255",
        'Error from server (Forbidden): secrets is forbidden: User "x" cannot list resource "tokens"',
        "error: tls: private key does not match public key",
        "401: HTTP basic authentication is required; bearer authorization was given",
        "ERROR: Could not find a version that satisfies the requirement tokenizers==0.19 (from versions: none)",
        "RESPONSE 403: AuthenticationFailed: Server failed to authenticate the request. ERROR CODE: AuthFailure",
        "failed to perform login: token: AADSTS7000215: Invalid client secret provided for app 1234",
        "Authentication: the password has expired",
        "option auth_secret: it is too short: give it from a vault",
    ],
)
def test_a_sentence_still_says_why(sentence):
    assert hide(sentence) == sentence


def test_of_two_known_secrets_the_longer_one_is_hidden_whole():
    assert hide("it has abc and abcdef", ["abc", "", "abcdef"]) == "it has [hidden] and [hidden]"


@given(text=st.text())
def test_what_is_left_is_fit_for_any_terminal(text):
    found = clean(text)
    assert all(letter in "\n\t" or ord(letter) >= 32 for letter in found)
    assert not any(0x7F <= ord(letter) < 0xA0 or 0x202A <= ord(letter) <= 0x202E for letter in found)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "piece",
    'password :// eyJ token=" -password <token> login_ sig=\\ A AKIA a.b-c_ ://a? - " \\" "a",_'.split()
    + ["name:token,", "value:x,"],
)
@BOTH
def test_no_text_makes_it_slow(cleaned, piece):
    """Twice the text takes about twice the time, also without any line's end."""

    def took(count):
        began = time.process_time()
        cleaned(piece.replace("_", " ") * count + " password")
        return time.process_time() - began

    size = 200000 // len(piece)
    took(100)
    assert took(2 * size) < 4 * took(size) + 0.3


def test_a_text_that_was_cut_begins_with_no_rest_of_a_secret():
    key = ["-----BEGIN RSA PRIVATE KEY-----", *["Zq7" + "A" * 61] * 20, "-----END RSA PRIVATE KEY-----"]
    text = "\n".join(["password=" + "Zq7" * 30, *key, "after it", ""])
    for cut in range(len(text)):
        assert MARK not in clean(after_cut("x" + text[cut:]) if cut else text)
        assert MARK not in clean(secrets.before_cut(text[:cut]))


# Names of processes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", processes.RULES, ids=[rule.sample[:30] for rule in processes.RULES])
@given(
    name=st.text(string.ascii_letters + string.digits + " ,.:;()[]'\"`=/-", min_size=1, max_size=9).map(
        lambda one: "Zq7" + one + "Zq7"
    )
)
def test_the_name_of_a_process_is_hidden(rule, name):
    """15 bytes of any kind: what looks like the end of it is none."""
    line = rule.sample.replace("train, py", name)
    assert line != rule.sample
    for prefix in ("", "[ 4711.123456] ", "Nov 26 12:00:00 gpu1 kernel: "):
        if prefix and rule.sample.startswith((" ", "|", "warning")):
            continue
        found = processes.without_names(prefix + line)
        assert MARK not in found and HIDDEN in found, found


def test_messages_about_parts_stay():
    for line in (
        "NVRM: Xid (PCI:0000:0b:00): 79, GPU has fallen off the bus.",
        "nvme nvme0: I/O 12 (I/O Cmd) QID 3 timeout, aborting",
        "mlx5_core 0000:01:00.0: Port module event[error]: module 0, Cable error, Bus stuck",
        "EXT4-fs (md0): mounted filesystem with ordered data mode",
        "pcieport 0000:00:01.0: AER: Corrected error received: 0000:01:00.0",
    ):
        assert processes.without_names(line) == line


def test_processes_of_gpus_are_numbers_and_sizes():
    document = {
        "gpus": [{"name": "A100", "processes": {"running": [{"pid": 7, "name": "Zq7", "used_memory_bytes": 1}]}}]
    }
    found = processes.unnamed(document)
    assert found["gpus"][0]["name"] == "A100"
    assert found["gpus"][0]["processes"]["running"] == [{"pid": 7, "used_memory_bytes": 1}]


@pytest.mark.parametrize("option", ["--password", "--client-secret", "-token", "--account-key"])
def test_of_a_command_in_words_the_one_behind_an_option_is_a_secret(option):
    """As node_lease_on_expiry has it."""
    lease = {"node_lease": {"on_expiry": ["/usr/bin/az", "login", option, MARK + "hunter2", "--tenant", "stays"]}}
    kept = Filter().tree(lease)["node_lease"]["on_expiry"]
    assert kept == ["/usr/bin/az", "login", option, HIDDEN, "--tenant", "stays"]
    assert secrets.secrets_of(lease) == [MARK + "hunter2"]


def test_what_an_option_calls_a_key_is_hidden_by_its_name():
    """A declaration and a log have it under that name."""
    every = [described(registry.resource(name).options) for name in registry.NAMES]
    names = [one.name or field for options in every for field, one in options.items() if one.key]
    assert names and all(secrets.secret_name(name) for name in names)


# One secret in each form that programs and configuration files use for it.
WRITTEN = (
    "curl -uadmin:{0} https://x",
    "mysql -uroot -p{0} db",
    "wandb login {0}",
    "ipmitool -H h -U admin -P {0} chassis",
    "ldapsearch -w {0} -D cn",
    "snmpget -v2c -c {0} host 1.3",
    "snmpwalk -v3 -u ops -A {0} host",
    "mongosh --host h -u root -p {0} db",
    "redis-cli -h h -a {0} ping",
    "psk={0}",
    "pw={0}",
    "DB_PW={0}",
    "requirepass {0}",
    "rocommunity {0}",
    "bindpw {0}",
    "munge.key: {0}",
    "SLURM_JWT={0}",
    "eyJhbGciOi.eyJzdWIiOi{0}.sigsig",
    '"args": ["--token", "{0}"]',
    "kinit: password is {0}",
    "AccountKey%3D{0}%3D%3D",
    "password\uff1a{0}",
    "password\u00a0=\u00a0{0}",
    "pass\u200bword={0}",
    "pass\x1b[0mword={0}",
    "pass\x1b[1;31mword={0}",
    "password=\r\n{0}",
)


@pytest.mark.parametrize("form", WRITTEN)
def test_a_secret_is_hidden_in_each_written_form(form):
    secret = "Zx9qVALUEvalue77abcd"
    filtered = Filter()
    assert secret not in filtered.text(form.format(secret)) and filtered.hidden


@pytest.mark.parametrize(
    "text",
    [
        "the password is_set flag; mkdir -p /scratch/jobs; ssh -p 2222 host; tar -p file",
        "ipmitool sel list; ldapsearch -x; mysql --version; wandb login",
        "snmpget -v 2c host 1.3; redis-cli -h host info; mongosh --port 27017; sh -c 'exit 1'; tar -c x",
        "pwr=70 W, pwm1: 3; community edition; psku",
        "echo 100%3 done",
    ],
)
def test_similar_text_without_a_secret_stays(text):
    filtered = Filter()
    assert filtered.text(text) == text and filtered.hidden == 0


VALUE = "Zx9qSECRETvalue77"


@pytest.mark.parametrize(
    "text",
    [
        "pass: %s",
        "user trainer pass %s",
        "PASS=%s",
        "PASS: %s",
        "pass = %s",
        "'pass': '%s'",
        '{"pass": "%s", "a": 1}',
        "user=a pass=%s",
        "found hvs.CAESI%s",
        "npm_%sabcdefghijklmnopqrst",
        "pypi-AgEIcHlwaS5vcmc%s",
        "dckr_pat_%s",
        "glpat-%s",
        "xoxb-1234-%s",
        "xapp-1-A012-%s",
        "AIza%sabcdefgh",
        "sk_live_%s",
        "ya29.%s",
        "root:$6$salt$%sabcdefgh:19000:0",
        "root:$y$j9T$abc$%s",
        "hash $2b$12$%s",
        "see eyJhbGciOiJ.eyJzdWIi.%s",
        "DB_PASSWORD %s",
        "password %s",
        "secret %s",
        "api_key %s",
        "token %s",
        "-----BEGIN RSA PRIVATE KEY-----\n%s\n-----END RSA PRIVATE KEY-----",
        "https://user:%s@host/x",
        "sv=2022-11-02&sp=r&sig=%s",
        "Server=x;User Id=a;Password=%s;",
        "Endpoint=sb://x;SharedAccessKey=%s=",
    ],
)
def test_a_secret_is_hidden_by_its_form_or_its_name(text):
    assert VALUE not in Filter().text(text % VALUE)


@pytest.mark.parametrize(
    "text",
    [
        "passed: 54",
        "tests pass on NDv5",
        "pass GPU-5f3a",
        "pass: 3 fail: 0",
        "pass: 54",
        '{"pass": 54}',
        '{"pass": "ok"}',
        "PASS: gpu_count",
        "PASS: 0000:0b:00.0 link",
        "PASS=3 FAIL=0",
        "pass=54 warn=0",
        "pass: true",
        "pass: all 54 checks",
        "gpu_xid pass: no Xid",
        "outcome=pass fail=0",
        "memtest pass 1",
        "Pass 2: Checking directory structure",
        "compass: north",
        "bypass: true",
        "pass-through: yes",
        "GPU-8f3b2d10-aaaa-bbbb-cccc-1234567890ab",
        "sha256:" + "ab" * 32,
        "ab" * 32 + "  gpunode.pyz",
        "npm_config_user_agent",
        "pypi-server running on port 80",
        "glibc-common-2.34-100.el9.x86_64",
        "hvs.service started",
        "cost $5 or $6",
        "token ring is up",
        "token 0000:0b:00.0",
        "the secret service was started",
    ],
)
def test_a_healthy_line_that_looks_like_a_secret_stays_readable(text):
    assert Filter().text(text) == text


# It does not contain the name of a secret.
BARE = "Zx9qVwvalue77abcd"

ARGUMENTS = [
    ["curl", "-u", "ops:%s", "https://host/x"],
    ["/usr/bin/curl", "--user", "ops:%s"],
    ["mysql", "-u", "root", "-p%s", "db"],
    ["sshpass", "-p", "%s", "ssh", "host"],
    ["skopeo", "copy", "--src-creds", "ops:%s", "a", "b"],
    ["az", "login", "--password", "%s"],
    ["ipmitool", "-U", "admin", "-P", "%s", "sel"],
    ["snmpget", "-v2c", "-c", "%s", "host"],
    ["mongodump", "-u", "root", "-p", "%s"],
    ["redis-cli", "-a", "%s", "info"],
    ["aws", "configure", "set", "aws_secret_access_key", "%s"],
]


@pytest.mark.parametrize("argv", ARGUMENTS, ids=lambda argv: argv[0])
def test_a_secret_in_the_arguments_of_a_command_is_hidden_in_each_form_of_a_list(argv):
    words = [one.replace("%s", BARE) for one in argv]
    text = json.dumps(words)
    block = "command:\n" + "".join("  - {0}\n".format(one) for one in words) + "image: kept\n"
    for line in (text, repr(words), json.dumps({"line": text}), json.dumps(words, indent=2), "cmd=" + text, block):
        filtered = Filter()
        found = filtered.text(line)
        assert BARE not in found and filtered.hidden, line
        assert all(one in found for one in words if BARE not in one)
    filtered = Filter()
    found = filtered.tree({"command": words})["command"]
    assert filtered.hidden and all(one == other or BARE in other for one, other in zip(found, words))
    assert BARE not in json.dumps(found)


PAIRS = [
    '{"name": "DB_PASSWORD", "value": "%s"}',
    "{'name': 'DB_PASSWORD', 'value': '%s'}",
    '{"value":"%s","name":"API_TOKEN"}',
    '{"Key": "client_secret", "Value": "%s"}',
    '{"name": "DB_PASSWORD", "optional": false, "value": "%s"}',
    '"{\\"name\\": \\"DB_PASSWORD\\", \\"value\\": \\"%s\\"}"',
    "{name: DB_PASSWORD, value: %s}",
    "env:\n- name: DB_PASSWORD\n  value: %s\n- name: A\n  value: kept",
    'env:\n  - name: "API_TOKEN"\n    value: "%s"\n',
    "- value: %s\n  name: DB_PASSWORD\n",
    "- name: TLS_SECRET\n  value: |\n    %s\n    %s\nimage: kept",
    '{\n  "name": "DB_PASSWORD",\n  "value": "%s"\n}',
    '{\n  "value": "%s",\n  "name": "DB_PASSWORD"\n}',
    "skopeo inspect --creds ops:%s docker://a",
    "skopeo inspect --dest-creds=ops:%s docker://a",
    "curl -u 'ops:%s' https://host",
    "aws configure set aws_secret_access_key %s",
    "aws configure set profile.x.aws_secret_access_key %s --profile x",
    "[client.admin]\n\tkey = %s==\n",
    "key: %s==",
    '"key": "%s=="',
    "wg set wg0 peer x preshared-key %s",
]


@pytest.mark.parametrize("text", PAIRS)
def test_a_secret_in_a_pair_or_after_an_option_is_hidden(text):
    filtered = Filter()
    found = filtered.text(text.replace("%s", BARE))
    assert BARE not in found and filtered.hidden
    assert ("kept" in found) == ("kept" in text)


@pytest.mark.parametrize("name, value", [("name", "value"), ("Key", "Value")])
def test_the_value_of_a_pair_is_hidden_in_a_document(name, value):
    found = Filter().tree({"env": [{name: "DB_PASSWORD", value: BARE}, {name: "A", value: "b"}]})
    assert found == {"env": [{name: "DB_PASSWORD", value: HIDDEN}, {name: "A", value: "b"}]}


def test_a_bare_key_of_ceph_is_hidden_in_a_log_and_in_a_sentence():
    key = "AQBWk0ZlAAAAABAAq3WJ8pZ6vXxN4mY2h1TzDw=="
    for cleaned in (clean, hide):
        assert key not in cleaned("added {0} for client".format(key))


@pytest.mark.parametrize(
    "text",
    [
        '["docker", "run", "-u", "1000:1000", "image"]',
        "docker run --user 1000:1000 image",
        '["sinfo", "-p", "gpu", "-N"]',
        '["mkdir", "-p", "/scratch/jobs"]',
        '["mysql", "--version"]',
        '["nvidia-smi", "-q", "-d", "ECC"]',
        '{"name": "gpu_temperature", "value": "54"}',
        '{"name": "token_errors", "value": 3}',
        '{"name": "auth_check", "value": "pass"}',
        '{"name": "nvlink", "value": "GPU-5f3a"}',
        "- name: gpu_clock\n  value: 1410 MHz",
        "- name: NCCL_DEBUG\n  value: INFO\n- name: NCCL_IB_HCA\n  value: mlx5_0",
        "- GPU 3: it has fallen off the bus\n- GPU 4: Xid 79",
        '["GPU 3 (0000:0b:00.0)", "Xid 79", "replace"]',
        "aws configure set region westeurope",
        "key = value\nkey: 0x12\nkey = 0000:0b:00.0",
        "cache key: node7",
        "wg set wg0 peer x preshared-key /etc/wireguard/psk",
        "value: 3\nname: gpu07",
    ],
)
def test_a_healthy_list_or_pair_that_looks_like_a_secret_stays_readable(text):
    filtered = Filter()
    assert filtered.text(text) == text and filtered.hidden == 0
