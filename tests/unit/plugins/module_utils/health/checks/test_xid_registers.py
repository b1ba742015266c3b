# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Registers of Xid 74 and of 144 to 150: the catalogue's rows by driver branch, lines of public sources, any others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_gpu_xids import GPU, judged, log, told

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import (
    gpu_xid_lines,
    gpu_xid_registers,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data import nvlink_registers, xids
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Outcome
from ansible_collections.trainyard.gpu_node.tests.unit.examples import examples

# By hand from the sheet XID 144-150 Decode: code, unit before R575, unit since, IntrInfo's low bits before, since,
# severity, resolution, bits 20 to 25 of IntrInfo, ErrorStatus (0 where the sheet has none). LOOK: IGNORE at once, with
# an investigation afterwards.
CATALOGUE = """
144 SAW_MVB SAW_MVB 0000100001 0000001 Nonfatal LOOK 000000 1,8
144 SAW_MVB SAW_MVB 0000100001 0000001 Fatal RESET_GPU 000000 2,10
144 SAW_MVB SAW_MVB 0000100001 0000001 Nonfatal IGNORE 000000 4,20
145 RLW_CTRL RLW_CTRL 0001100010 0000011 Nonfatal LOOK 000000 80000000
145 RLW_REMAP RLW_REMAP 0010000010 0000100 Nonfatal XID_154_EVAL 000000 1,2,4,8,10,20
145 RLW_REMAP RLW_REMAP 0010000010 0000100 Fatal RESET_GPU 000000 40,80
145 RLW_REMAP RLW_REMAP 0010000010 0000100 Nonfatal IGNORE 000000 100,200
145 RLW_REMAP RLW_REMAP 0010000010 0000100 Nonfatal LOOK 000000 80000000
145 RLW_RSPCOL RLW_RSPCOL 0010100010 0000101 Nonfatal IGNORE 000000 1
145 RLW_RSPCOL RLW_RSPCOL 0010100010 0000101 Fatal RESET_GPU 000000 2
145 RLW_RSPCOL RLW_RSPCOL 0010100010 0000101 Nonfatal LOOK 000000 80000000
145 RLW_RXPIPE RLW_RXPIPE 0011000010 0000110 Nonfatal LOOK 000000 1,2,4,8,80000000
145 RLW_SRC_TRACK RLW_SRC_TRACK 0011100010 0000111 Fatal RESET_GPU 000000 1,10,20
145 RLW_SRC_TRACK RLW_SRC_TRACK 0011100010 0000111 Nonfatal IGNORE 000000 2
145 RLW_SRC_TRACK RLW_SRC_TRACK 0011100010 0000111 Nonfatal XID_154_EVAL 000000 4,8
145 RLW_SRC_TRACK RLW_SRC_TRACK 0011100010 0000111 Nonfatal LOOK 000000 80000000
145 RLW_TAGSTATE RLW_TAGSTATE 0100000010 0001000 Nonfatal IGNORE 000000 1,10000
145 RLW_TAGSTATE RLW_TAGSTATE 0100000010 0001000 Fatal RESET_GPU 000000 2,20000,100000
145 RLW_TAGSTATE RLW_TAGSTATE 0100000010 0001000 Nonfatal LOOK 000000 80000000
146 TLW_CTRL TLW_CTRL 0100100011 0001001 Nonfatal IGNORE 000000 1
146 TLW_CTRL TLW_CTRL 0100100011 0001001 Nonfatal LOOK 000000 2,80000000
146 TLW_CTRL TLW_CTRL 0100100011 0001001 Fatal RESET_GPU 000000 4
146 TLW_RX TLW_RX_PIPE0 0101000011 0001010 Nonfatal IGNORE 000000 1
146 TLW_RX TLW_RX_PIPE0 0101000011 0001010 Nonfatal LOOK 000000 2,80000000
146 TLW_RX TLW_RX_PIPE0 0101000011 0001010 Fatal RESET_GPU 000000 4
146 TLW_RX TLW_RX_PIPE1 0101000011 0001011 Nonfatal IGNORE 000000 1
146 TLW_RX TLW_RX_PIPE1 0101000011 0001011 Nonfatal LOOK 000000 2,80000000
146 TLW_RX TLW_RX_PIPE1 0101000011 0001011 Fatal RESET_GPU 000000 4
146 TLW_TX TLW_TX_PIPE0 0101100011 0001100 Nonfatal IGNORE 000000 1
146 TLW_TX TLW_TX_PIPE0 0101100011 0001100 Nonfatal LOOK 000000 2,80000000
146 TLW_TX TLW_TX_PIPE0 0101100011 0001100 Fatal RESET_GPU 000000 4
146 TLW_TX TLW_TX_PIPE1 0101100011 0001101 Nonfatal IGNORE 000000 1
146 TLW_TX TLW_TX_PIPE1 0101100011 0001101 Nonfatal LOOK 000000 2,80000000
146 TLW_TX TLW_TX_PIPE1 0101100011 0001101 Fatal RESET_GPU 000000 4
147 TREX TREX 0110000100 0001110 Nonfatal LOOK 000000 1,80000000
148 NVLPW_CTRL NVLPW 0000000101 0001111 Nonfatal LOOK 000000 80000000
149 NETIR NETIR_INT 0000000110 0011000 Fatal RESET_GPU 000000 0
149 NETIR_BER_EVENT NETIR_BER_EVENT 1000100110 0010011 Nonfatal LOOK 000000 0,1,2,3
149 NETIR_LINK_EVT NETIR_LINK_DOWN 0111000110 0010001 Fatal RESET_GPU 000000,000001,000010,000100,001010,001111 0
149 NETIR_LINK_EVT NETIR_LINK_DOWN 0111000110 0010001 Fatal RESET_GPU 010000,010001,010010,010101,010110,100000 0
149 NETIR_LINK_EVT NETIR_LINK_DOWN 0111000110 0010001 Fatal RESET_GPU 100001,100010,100011,100100,100101,101010 0
149 NETIR_LINK_EVT NETIR_LINK_DOWN 0111000110 0010001 Fatal RESET_GPU 101011 0
149 NETIR_LINK_EVT NETIR_LINK_DOWN 0111000110 0010001 Fatal IGNORE 100110,101000 0
149 NETIR_MFDE_EVENT NETIR_MFDE_EVENT 1001000110 0010100 Fatal RESET_GPU 000000 1,4,5,7
149 NETIR_MFDE_EVENT NETIR_MFDE_EVENT 1001000110 0010100 Nonfatal IGNORE 000000 3
150 MSE_WATCHDOG MSE_WATCHDOG 0000000000 0000000 Fatal RESET_GPU 000000 0
"""
BUCKETS = {"LOOK": "contact_support", "XID_154_EVAL": "restart_application"}


def rows():
    """(code, unit, severity, IntrInfo, ErrorStatus, bucket), for each branch."""
    for line in CATALOGUE.split("\n")[1:-1]:
        code, before, since, low_before, low_since, severity, resolution, downs, statuses = line.split()
        for unit, low in ((before, low_before), (since, low_since)):
            for down in downs.split(","):
                for status in statuses.split(","):
                    info = int(down, 2) << 20 | int(low, 2)
                    bucket = BUCKETS.get(resolution, resolution.lower())
                    yield int(code), unit, severity, info, int(status, 16), bucket


ROWS = sorted(set(rows()))


def meant(code, unit, severity, *registers):
    meaning = gpu_xid_registers.nvlink_5(code, unit, severity, registers)
    return None if meaning.bucket is None else meaning.bucket.value


@pytest.mark.parametrize("code", range(144, 151))
def test_each_row_of_the_catalogue_is_decoded_for_both_branches(code):
    mine = [row for row in ROWS if row[0] == code]
    assert mine
    for unit, severity, info, status, bucket in [row[1:] for row in mine]:
        # Bits that the catalogue leaves to the reader, such as the number of the link, change nothing.
        for more in (0, 1 << 26, 0x1F << 12):
            assert meant(code, unit, severity, info | more, status) == bucket, (unit, hex(info), hex(status))
        if (code, unit) != (149, "NETIR_LINK_EVT"):
            other = {"Fatal": "Nonfatal", "Nonfatal": "Fatal"}[severity]
            assert meant(code, unit, other, info, status) is None  # the word says what the row does not


@pytest.mark.parametrize(("info", "bit"), [(0b0011000010, 10), (0b0000110, 7)])
@pytest.mark.parametrize("severity", ["Fatal", "Nonfatal"])
def test_a_bit_makes_a_lost_packet_one_that_needs_a_reset(info, bit, severity):
    for status in (1, 2, 4):
        assert meant(145, "RLW_RXPIPE", severity, info | 1 << bit, status) == "reset_gpu"
    assert meant(145, "RLW_RXPIPE", "Nonfatal", info | 1 << bit, 8) == "contact_support"


def test_the_branch_shows_in_the_pattern_of_each_unit():
    for row in nvlink_registers.UNITS:
        assert row.code == 150 or row.before & 0x7F != row.since
        assert row.code == 150 or row.before & 0x1F == row.code - 143  # IntrInfo[9:5] is the subcode of the rest
    assert meant(145, "RLW_REMAP", "Nonfatal", 0b0000101, 0x1) is None  # the pattern of another unit


def test_the_tables_have_no_row_that_the_catalogue_lacks():
    known = {(code, unit, info, status) for code, unit, dummy, info, status, dummy in ROWS}
    for row in nvlink_registers.UNITS:
        for name, low in ((row.names[0], row.before), (row.names[-1], row.since)):
            for status in row.statuses:
                assert (row.code, name, low, status) in known
            for down in row.downs:
                assert (row.code, name, low | down << 20, 0) in known
    for text in (nvlink_registers.DECODE, nvlink_registers.REGISTERS_74):
        assert "docs.nvidia.com" in text


XID_74 = "NVRM: Xid (PCI:0000:0b:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 14({0})"


def line_74(*registers):
    return XID_74.format(", ".join("0x{0:x}".format(one) for one in registers))


# Register (from 1), bits, outcome, remedy, words of the reason: the catalogue's WORKFLOW_NVLINK_ERR.
@pytest.mark.parametrize(
    ("register", "bits", "outcome", "action", "words"),
    [
        (1, (0, 23, 30), None, None, None),
        (1, (1, 20), "fail", "reset_gpu", "follows another error"),
        (1, (4, 5), "fail", "reset_gpu", "ECC or parity"),
        (1, (8, 9, 12, 16, 17, 24, 28), "fail", "reset_gpu", "possible fault of the hardware"),
        (1, (21, 22), "fail", "reset_gpu", "weak signal"),
        (1, (27, 29), "fail", "reset_gpu", "if it recurs"),
        (3, (0, 1, 2, 6), "fail", "reset_gpu", "ECC or parity"),
        (3, (13,), "fail", "reset_gpu", "does not expect"),
        (3, (16, 17, 18, 19), "fail", "reset_gpu", "if it recurs"),
        (4, (16, 17), "fail", "reset_gpu", "follows another error"),
        (4, (18,), "fail", "reboot", "the fabric needs a reset"),
        (5, (18, 19, 21, 22, 24, 25, 27, 28), "fail", "reset_gpu", "ECC or parity"),
        (5, (20, 23, 26, 29), "warn", "watch", "many corrected errors"),
    ],
)
def test_the_registers_of_xid_74_say_what_is_wrong_with_which_link(register, bits, outcome, action, words):
    for bit in bits:
        registers = [0] * 7
        registers[register - 1] = 1 << bit
        judgement = judged(line_74(*registers))
        assert told(judgement) == ([("xid_74", outcome, action, GPU)] if outcome else [])
        if outcome:
            assert "(link 14: " in judgement.findings[0].reason and words in judgement.findings[0].reason
        # A bit that can be ignored changes nothing; one that nobody knows is told where nothing else is.
        registers[0] |= 1 << 30
        assert told(judged(line_74(*registers))) == told(judgement)
        registers[5] = 1
        unknown = judged(line_74(*registers))
        if outcome == "fail":
            assert told(unknown) == told(judgement)
        else:
            assert told(unknown) == [("xid_74", "fail", "reset_gpu", GPU)]
            assert "not in NVIDIA's table" in unknown.findings[0].reason


def test_an_ecc_error_that_recurs_on_one_link_is_for_a_replacement():
    line = line_74(0x10, 0, 0, 0, 0, 0, 0)
    assert told(judged(line, line))[0][2] == "reset_gpu"
    assert told(judged(line, line, line.replace("link 14", "link 3")))[0][2] == "reset_gpu"
    finding = judged(line, line, line).findings[0]
    assert (finding.action.value, "replaced" in finding.remedy, "3 times" in finding.reason) == ("replace", True, True)


def test_the_worst_of_one_code_is_told_once_and_names_its_links():
    harmless, worse = line_74(0, 0, 0, 0, 1 << 20, 0, 0), line_74(1 << 21, 0, 0, 0, 0, 0, 0)
    for lines in ((harmless, worse), (worse, harmless)):
        assert told(judged(*lines)) == [("xid_74", "fail", "reset_gpu", GPU)]
    many = [worse.replace("link 14", "link {0}".format(at)) for at in (1, 2, 2, 3, 4, 5)]
    reason = judged(*many).findings[0].reason
    assert "link 1: a weak signal; link 2: a weak signal, 2 times; link 3: a weak signal; and 2 more" in reason


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (line_74(0x10, 0, 0, 0, 0, 0, 0)[:-1], "link 14: its registers could not be read"),  # cut
        (line_74(0x10, 0, 0, 0, 0, 0), "link 14: its registers could not be read"),  # six
        (XID_74.format("16, 0, 0, 0, 0, 0, 0"), "link 14: its registers could not be read"),
        (XID_74.format("0x100000000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0"), "link 14: its registers could not be read"),
        (XID_74.partition("(0x")[0].partition("(" + "{")[0], "link 14: its registers could not be read"),
        (XID_74.partition(" on link")[0], "its registers could not be read"),
        (line_74(0, 0, 0, 0, 0, 0, 0), "link 14: its registers are not in NVIDIA's table"),
        ("NVRM: Xid (PCI:0000:0b:00): 74, pid=7, name=link 3(0x1, 0x0, some words", "its registers could not be read"),
    ],
)
def test_a_line_of_xid_74_that_is_not_understood_says_so(text, words):
    judgement = judged(text)
    assert told(judgement) == [("xid_74", "fail", "reset_gpu", GPU)]
    assert words in judgement.findings[0].reason


LINE_5 = "NVRM: Xid (PCI:0000:0b:00): 149, {0}NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 ({1})"
DOWN_ON_PURPOSE = "0x026001c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LINE_5.format("", "40239558 0"), "link 8: its registers could not be read"),
        (LINE_5.partition("{1}")[0].format("") + DOWN_ON_PURPOSE[:15], "link 8: its registers could not be read"),
        (LINE_5.partition("{1}")[0].format("") + DOWN_ON_PURPOSE[:6], "link 8: its registers could not be read"),
        (LINE_5.replace("({1})", "[{1}]").format("", "0x026001c6"), "link 8: its registers could not be read"),
        (LINE_5.replace("XC0 i0", "XC 0 i 0").format("", "0x03f001c6 0x0"), "link 8: its registers are not in"),
        (LINE_5.format("", "0x02600000 0x0"), "link 8: its registers are not in NVIDIA's table"),
        (LINE_5.format("", "0x03f001c6 0x0"), "link 8: its registers are not in NVIDIA's table"),
        (LINE_5.replace("Link 08", "Link -1").format("", "0x03f001c6 0x0"), "(its registers are not in"),
    ],
)
def test_a_line_of_149_that_is_not_understood_goes_by_its_word(text, words):
    judgement = judged(text)
    assert told(judgement) == [("xid_149_fatal", "fail", "reset_gpu", GPU)]
    assert words in judgement.findings[0].reason


@pytest.mark.parametrize("name", ["a, B Fatal XC0 ", "A Nonfatal XC0", "x (0x026001c6", ", ", "a, b"])
def test_the_name_of_a_process_is_no_register(name):
    line = LINE_5.format("pid=7, name={0}, ".format(name), "0x025001c6 0x00000000")
    judgement = judged(line)
    assert told(judgement) == [("xid_149_fatal", "fail", "reset_gpu", GPU)]
    assert "link 8: the other end took it down" in judgement.findings[0].reason
    alone = "NVRM: Xid (PCI:0000:0b:00): 149, pid=7, name={0}, text".format(name)
    assert told(judged(alone)) == [("xid_149", "warn", "look", GPU)]


def test_a_fault_that_a_test_made_says_so():
    line = LINE_5.replace("i0", "i1").format("", "0x016415c6 0x0")
    assert "link 8: it was taken down, injected by a test" in judged(line).findings[0].reason


# Lines as they were logged, with zeros at their end made shorter: (source, text
# after the address, finding's code, outcome, remedy, words of the reason).
_GPUD = "github.com/leptonai/gpud 4a8de33, components/accelerator/nvidia/xid, tests from its users' logs"
_SENTINEL = "github.com/NVIDIA/NVSentinel, pull request 545 and the tests of its xid/parser"
REAL = [
    (
        _GPUD,
        "145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 12 (0x040988e2 0x00000008 0x00000000 0x00000000 0x00000000 0x0)",
        None,
    ),
    (
        _GPUD,
        "145, pid=876767, name=ray::WorkerDict, RLW_RXPIPE Nonfatal XC0 i0 Link 13"
        " (0x0409a0c2 0x00000008 0x00000001 0x00000000 0x00100000 0x00000004)",
        ("xid_145_nonfatal", "warn", "look", "link 13: NVIDIA asks for no action now"),
    ),
    (
        _GPUD,
        "149, NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)",
        ("xid_149_fatal", "fail", "reset_gpu", "(it follows another error)"),
    ),
    (
        _GPUD,
        "149, NETIR_BER_EVENT Nonfatal XC0 i0 Link 01 (0x00082226 0x00000001 0x00000000 0x00000000 0x00000000 0x0)",
        ("xid_149_nonfatal", "warn", "look", "link 1: many bit errors"),
    ),
    (
        _GPUD,
        "149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 14 (0x0215c5c6 0x00000000 0x00000000 0x00000000 0x00000000 0x0)",
        ("xid_149_fatal", "fail", "reset_gpu", "link 14: the other end took it down"),
    ),
    (
        _GPUD,
        "149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)",
        ("xid_149_fatal", "fail", "reset_gpu", "link 8: a weak signal"),
    ),
    (_GPUD + ", pull request 1160", "149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (" + DOWN_ON_PURPOSE + ")", None),
    (
        _GPUD + ", pull request 1160",
        "144, SAW_MVB Nonfatal XC0 i0 Link 0 (0x00000001 0x00000008 0x00000000 0x00000000 0x00000000 0x00000000)",
        ("xid_144_nonfatal", "warn", "look", "link 0: NVIDIA asks for no action now"),
    ),
    (
        _SENTINEL,
        "149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6 0x00000000 0x00000000 0x00000000 0x00000000 0x0)",
        ("xid_149_fatal", "fail", "reset_gpu", "link 9: the other end took it down"),
    ),
    (
        _SENTINEL,
        "145, RLW_REMAP Nonfatal XC1 i0 Link 10 (0x00000004 0x00000040 0x00000000 0x00000000 0x00000000 0x00000000)",
        ("xid_145_nonfatal", "warn", "look", "link 10: its registers are not in NVIDIA's table"),
    ),
    (
        _SENTINEL,
        "74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 14"
        "(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
        ("xid_74", "fail", "reset_gpu", "link 14: a fault that matters if it recurs"),
    ),
    (
        "a public guide to Amazon SageMaker HyperPod: a line to inject",
        "74, pid=<unknown>, name=<unknown>, NVLink: fatal error detected on link 6"
        "(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
        ("xid_74", "fail", "reset_gpu", "link 6: a possible fault of the hardware"),
    ),
    (
        "forums.developer.nvidia.com/t/292539",
        "74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 1",
        ("xid_74", "fail", "reset_gpu", "link 1: its registers could not be read"),
    ),
    (
        "a link forced down on B200, driver 570.158.01 (nixl, examples/device/ep/tests/elastic/nvlink_fault)",
        "149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x016415c6)",
        ("xid_149_fatal", "fail", "reset_gpu", "link 0: it was taken down"),
    ),
    (
        "github.com/NVIDIA/open-gpu-kernel-modules, issue 979",
        "154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
        ("xid_154", "fail", "reboot", "a reboot of the node"),
    ),
    (
        "a workstation with driver 610.43.02",
        "154, GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)",
        ("xid_154", "fail", "reboot", "a reboot of the node"),
    ),
    (
        _GPUD,
        "154, GPU recovery action changed from 0x4 (Drain and Reset) to 0x1 (GPU Reset Required)",
        ("xid_154", "fail", "reset_gpu", "a reset of this GPU"),
    ),
]


@pytest.mark.parametrize(("source", "text", "finding"), REAL)
def test_lines_of_public_sources(source, text, finding):
    judgement = judged("NVRM: Xid (PCI:0000:0b:00): " + text)
    if finding is None:
        assert told(judgement) == []
        return
    code, outcome, action, words = finding
    assert told(judgement) == [(code, outcome, action, GPU)]
    assert words in judgement.findings[0].reason and judgement.findings[0].remedy


REGISTER = st.one_of(st.integers(0, 0xFFFFFFFF), st.integers(0, 31).map(lambda bit: 1 << bit), st.just(0))


@examples(200)
@given(st.lists(REGISTER, min_size=7, max_size=7))
def test_any_registers_of_74_are_decided(registers):
    meaning = gpu_xid_registers.nvlink(registers)
    findings = judged(line_74(*registers)).findings
    if meaning.bucket is not None and xids.BUCKETS[meaning.bucket].outcome is Outcome.PASS:
        assert not findings and not any(registers[1:]) and not registers[0] & ~(1 << 0 | 1 << 23 | 1 << 30)
    else:
        assert len(findings) == 1 and meaning.text in findings[0].reason and findings[0].remedy


UNIT = st.one_of(st.sampled_from([one.names[0] for one in nvlink_registers.UNITS]), st.from_regex(r"[A-Z]{1,9}\Z"))


@examples(200)
@given(st.integers(144, 150), UNIT, st.sampled_from(["Fatal", "Nonfatal"]), st.lists(REGISTER, max_size=6), st.data())
def test_any_registers_of_the_others_are_decided_and_any_cut_is_survived(code, unit, severity, registers, data):
    line = "NVRM: Xid (PCI:0000:0b:00): {0}, {1} {2} XC0 i0 Link 03 ({3})".format(
        code, unit, severity, " ".join("0x{0:08x}".format(one) for one in registers)
    )
    for text in (line, line[: data.draw(st.integers(40, len(line)))]):
        for event in gpu_xid_lines.read_xids(log(text)).events:
            assert event.bucket is not None or event.code not in xids.NVLINK_XIDS
            for finding in judged(text).findings:
                assert finding.reason and finding.remedy and finding.code
