"""NCCL topology files: generated as Azure's images have them, and each fault in one explained."""

from __future__ import annotations

import copy
import hashlib
import re
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import parametrized
from hypothesis import given, settings
from hypothesis import strategies as st
from trueup_node.errors import BadInput
from trueup_node.node.nccl_topology import (
    check,
    check_gpu_masks,
    generate,
    generate_graphs,
    gpu_masks,
    layout_of,
    read_layouts,
    reason_without,
)

ROOT = Path(__file__).resolve().parents[2]
CATALOG = ROOT / "catalog" / "topologies.yml"
DATA = ROOT / "tests" / "data" / "topology"
ENTRIES = yaml.safe_load(CATALOG.read_text(encoding="utf-8"))
LAYOUTS = read_layouts(ENTRIES)
NDV4, NDV5, NCV4 = LAYOUTS["ndv4"], LAYOUTS["ndv5"], LAYOUTS["ncv4"]
NAMES = sorted(LAYOUTS)
# Of Azure/azhpc-images@8e9d055 topology/*.xml: the same bytes, from the catalog's data.
AZURES = {
    "ncv4": "54df45da525ea730f90cda3157d01c5f31e73e2ba26c76e3dd709cb7bc72dcb5",
    "ndv2": "996e81e764c1d42291c38d21a3ae8f74381aa67714ec80b3dcbb776ff40ce16a",
    "ndv4": "c3583efb0b6e53f52410e32643b46bb6af99f5f34dcebc1868c47c233f84d2cf",
    "ndv5": "c26ff47f1decf03d44ee6e90c4a8afd3bddeec334c5545008f33af2a297e2834",
}
# The table of the facts about sizes: NUMA node -> cores, affinity, GPUs, GPU ids, NICs.
TABLE = {
    "ndv4": {
        "0": ("00000000,00000000,00ffffff", "0003 0004", "2 3", "0103 0104"),
        "1": ("00000000,0000ffff,ff000000", "0001 0002", "0 1", "0101 0102"),
        "2": ("000000ff,ffff0000,00000000", "000d 000e", "6 7", "0107 0108"),
        "3": ("ffffff00,00000000,00000000", "000b 000c", "4 5", "0105 0106"),
    },
    "ndv5": {
        "0": (
            "00000000,0000ffff,ffffffff",
            "0001 0002 0003 0008",
            "0 1 2 3",
            "0101 0102 0103 0104",
        ),
        "1": (
            "ffffffff,ffff0000,00000000",
            "0009 000a 000b 000c",
            "4 5 6 7",
            "0105 0106 0107 0108",
        ),
    },
}
MASKS = {
    "ncv4": "ffffff,ffffff000000,ffffff000000000000,ffffff000000000000000000",
    "ndv2": "fffff,fffff,fffff,fffff,fffff00000,fffff00000,fffff00000,fffff00000",
    "ndv4": "ffffff000000,ffffff000000,ffffff,ffffff,ffffff000000000000000000,"
    "ffffff000000000000000000,ffffff000000000000,ffffff000000000000",
    "ndv5": "ffffffffffff,ffffffffffff,ffffffffffff,ffffffffffff,ffffffffffff000000000000,"
    "ffffffffffff000000000000,ffffffffffff000000000000,ffffffffffff000000000000",
}


def found(text: Any, name: str = "ndv4") -> list[tuple[str, str, int | None]]:
    """Severity, kind and line of each finding."""
    findings = check(text, LAYOUTS[name], LAYOUTS.values())
    return [(finding.severity, finding.kind, finding.line) for finding in findings]


@pytest.mark.parametrize("name", NAMES)
def test_the_file_is_the_one_of_azures_images(name: str) -> None:
    text = generate(LAYOUTS[name])
    assert hashlib.sha256(text.encode("utf-8")).hexdigest() == AZURES[name]
    assert found(text, name) == []


@parametrized(("name", "counts", "speed"))
def test_the_file_has_the_structure_of_the_facts(
    name: str, counts: dict[str, int], speed: str
) -> None:
    root = ET.fromstring(generate(LAYOUTS[name]))
    devices = list(root.iter("pci"))
    assert (root.tag, root.attrib) == ("system", {"version": "1"})
    assert Counter(device.get("class") for device in devices) == counts
    assert {device.get("link_speed") for device in devices} == {speed}
    assert {device.get("link_width") for device in devices} == {"16"}
    assert Counter(element.tag for element in root.iter()).keys() == {"system", "cpu", "pci"}
    read = {}
    for cpu in root.findall("cpu"):
        # Device, adapter, device, adapter.
        order = [device.get("class") for device in cpu.findall("pci/pci")]
        assert order == ["0x030200", "0x020700"] * (len(order) // 2)
        ids = {kind: [] for kind in counts}
        for device in cpu.iter("pci"):
            assert re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.0", device.get("busid", ""))
            ids[device.get("class", "")].append(device.get("busid", "").split(":")[0])
        numbers = [
            str(pair.number)
            for numa in LAYOUTS[name].numa
            if str(numa.node) == cpu.get("numaid")
            for bridge in numa.bridges
            for pair in bridge.pairs
        ]
        read[cpu.get("numaid")] = (
            cpu.get("affinity"),
            " ".join(ids["0x030200"]),
            " ".join(numbers),
            " ".join(ids["0x020700"]),
        )
    assert read == TABLE[name]


@pytest.mark.parametrize("name", NAMES)
def test_the_masks_of_all_gpus_are_right(name: str) -> None:
    assert ",".join(gpu_masks(LAYOUTS[name])) == MASKS[name]
    assert check_gpu_masks(MASKS[name].split(","), LAYOUTS[name]) == []


def test_the_published_mask_with_eleven_zeros_is_found() -> None:
    masks = [*MASKS["ndv4"].split(",")[:7], "ffffff00000000000"]
    (finding,) = check_gpu_masks(masks, NDV4)
    assert (finding.severity, finding.where) == ("error", "mask of GPU 7")
    assert finding.problem == (
        "ffffff00000000000 selects cores 44-67, expected ffffff000000000000: "
        "cores 48-71 of NUMA node 2"
    )
    assert finding.effect == "the task runs on NUMA nodes 1 and 2"


@pytest.mark.parametrize(
    ("masks", "kinds"),
    [
        (["ffffff"], [("error", "mask-count"), ("error", "gpu-mask")]),
        (["ffx", *gpu_masks(NDV4)[1:]], [("error", "mask-text")]),
        (["", *gpu_masks(NDV4)[1:]], [("error", "mask-text")]),
        # Fewer cores of the right node is a choice.
        (["f000000", *gpu_masks(NDV4)[1:]], [("warning", "gpu-mask")]),
    ],
)
def test_masks_that_do_not_fit_are_found(masks: list[str], kinds: list[tuple[str, str]]) -> None:
    findings = check_gpu_masks(masks, NDV4)
    assert [(finding.severity, finding.kind) for finding in findings] == kinds


FIRST_GPU = (
    '      <pci busid="0003:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>\n'
)
FIRST_NIC = FIRST_GPU.replace("0003:", "0103:").replace("0x030200", "0x020700")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('<system version="1">', "<system>", [("error", "version", 1)]),
        ('version="1"', 'version="2"', [("error", "version", 1)]),
        ('"0003:', '"00000003:', [("error", "bus-id-digits", 4)]),
        ('"000d:', '"000D:', [("error", "bus-id-case", 20)]),
        ('"0003:00:00.0"', '"3:0:0.0"', [("error", "bus-id", 4)]),
        ('"0003:00:00.0"', '"0003_00"', [("error", "bus-id", 4), ("error", "missing", None)]),
        ('busid="0003:00:00.0" ', "", [("error", "bus-id", 4), ("error", "missing", None)]),
        (FIRST_GPU, "", [("error", "missing", None)]),
        (FIRST_NIC, "", [("error", "missing", None)]),
        (FIRST_GPU, FIRST_GPU * 2, [("error", "twice", 5)]),
        (FIRST_GPU + FIRST_NIC, FIRST_NIC + FIRST_GPU, [("warning", "order", 3)]),
        ('"16 GT/s"', '""', [("error", "link-speed", 3)]),
        ('"16 GT/s"', '"16.0 GT/s"', [("error", "link-speed", 3)]),
        ('"16 GT/s"', '"16.0 GT/s PCIe"', [("warning", "link-speed", 3)]),
        (' link_speed="16 GT/s"', "", [("error", "link-speed", 3)]),
        ('link_width="16"', 'link_width=""', [("error", "link-width", 3)]),
        ('link_width="16"', 'link_width="8"', [("error", "link-width", 3)]),
        (' link_width="16"', "", [("error", "link-width", 3)]),
        ('class="0x060400"', 'class="0x020700"', [("error", "class", 3)]),
        ('class="0x030200"', 'class="0x030000"', [("warning", "class", 4)]),
        ('arch="x86_64"', 'arch="arm64"', [("error", "arch", 2)]),
        ("AuthenticAMD", "GenuineIntel", [("error", "vendor", 2)]),
        (' vendor="AuthenticAMD"', "", [("error", "vendor", 2)]),
        ('familyid="23"', 'familyid="25"', [("warning", "familyid", 2)]),
        ('modelid="49"', 'modelid="1"', [("warning", "modelid", 2)]),
        ("00000000,00000000,00ffffff", "00ffffff", [("warning", "mask-short", 2)]),
        ("00000000,00000000,00ffffff", "0,0,ffffff", [("error", "mask-word", 2)]),
        ("00000000,00000000,00ffffff", "",
         [("error", "mask-missing", 2), ("error", "mask-cover", None)]),
        ("00000000,00000000,00ffffff", "00000000,00000000,00fffffg",
         [("error", "mask-text", 2), ("error", "mask-cover", None)]),
        ("00000000,00000000,00ffffff", "00000000,00000001,00ffffff",
         [("error", "mask", 2), ("error", "mask-overlap", 10)]),
        ("00000000,00000000,00ffffff", "00000000,00000000,01ffffff",
         [("error", "mask", 2), ("error", "mask-overlap", 10)]),
        ("ff000000", "ff00000", [("error", "mask", 10), ("error", "mask-word", 10),
                                 ("error", "mask-overlap", 10), ("error", "mask-cover", None)]),
        ("ffff:ff:01.0", "ffff:ff:09.0", [("warning", "bridge-id", 3)]),
        ("ffff:ff:02.0", "ffff:ff:01.0", [("error", "twice", 11)]),
        ("  </cpu>", "    <gpu/>\n  </cpu>", [("warning", "dump", 9)]),
        ("  </cpu>", "    <fan/>\n  </cpu>", [("warning", "place", 9)]),
        ("  </cpu>", "    <fan>\n<cpu/></fan>\n  </cpu>",
         [("error", "place", 9), ("error", "place", 10)]),
        ("  </cpu>", '    <pci busid="0011:00:00.0" class="0x010802"/>\n  </cpu>',
         [("warning", "unknown-device", 9)]),
        ("<system", '<?xml version="1.0"?>\n<system', [("error", "dialect", 1)]),
        ("<pci ", "<pci\n", [("error", "dialect", 3)]),
        ("</cpu>", "</cpu >", [("error", "dialect", 9)]),
        ('busid="0003', 'busid = "0003', [("error", "dialect", 4)]),
        ("      <pci", "\t<pci", [("error", "dialect", 4)]),
        ("</cpu>", "</cpu>x", [("error", "dialect", 9)]),
        ("<system", "<!--a=b -->\n<system", [("error", "dialect", 1)]),
        ("AuthenticAMD", "Authentic&#65;MD", [("error", "dialect", 2)]),
        ("</system>", "", [("error", "not-xml", 35)]),
        ("<system", "<!DOCTYPE system><system", [("error", "doctype", 1)]),
    ],
)  # fmt: skip
def test_each_fault_is_found_where_it_is(old: str, new: str, expected: list[Any]) -> None:
    text = generate(NDV4)
    assert old in text
    assert found(text.replace(old, new, 1)) == expected


@parametrized(("old", "new"))
def test_other_spellings_that_nccls_parser_reads_are_no_fault(old: str, new: str) -> None:
    # Each was given to NCCL's own parser (v2.30.4-1, built by itself), which read the same; more
    # blanks than one only give it attributes without a name.
    text = generate(NDV4)
    assert old in text
    assert found(text.replace(old, new)) == []


def test_devices_under_the_wrong_node_are_named_with_both_nodes() -> None:
    text = generate(NDV4)
    swapped = text.replace("0003:", "X:").replace("0001:", "0003:").replace("X:", "0001:")
    findings = check(swapped, NDV4, LAYOUTS.values())
    assert [(item.kind, item.line) for item in findings] == [("numa-node", 4), ("numa-node", 12)]
    assert findings[0].problem == "GPU 0001:00:00.0 is under NUMA node 0, expected 1"
    assert findings[0].mend == "move it under numaid 1, bridge ffff:ff:02.0"


def test_devices_without_a_bridge_are_found() -> None:
    lines = [line for line in generate(NDV4).splitlines() if not re.match(r"    </?pci", line)]
    findings = check("\n".join(lines), NDV4, LAYOUTS.values())
    assert Counter(item.kind for item in findings) == {"no-bridge": 16, "bridges": 1}


def test_bridges_that_mix_what_belongs_apart_are_found() -> None:
    text = generate(NDV5)
    swapped = text.replace("0101:", "X:").replace("0102:", "0101:").replace("X:", "0102:")
    findings = check(swapped, NDV5, LAYOUTS.values())
    assert {item.kind for item in findings} == {"bridge"}
    assert [item.line for item in findings] == [4, 5, 8, 9]


def test_a_file_for_another_size_says_for_which() -> None:
    for wrong, right in (("ndv4", "ndv5"), ("ndv5", "ndv4")):
        (finding,) = check(generate(LAYOUTS[wrong]), LAYOUTS[right], LAYOUTS.values())
        assert finding.kind == "other-size"
        assert finding.problem.startswith(f"it is a file for {wrong} (Standard_")


def test_an_empty_system_fits_nothing() -> None:
    (finding,) = check('<system version="1"></system>', NDV4, LAYOUTS.values())
    assert finding.problem == (
        "it has 0 GPUs and 0 NICs that are mostly none of ndv4's (Standard_ND96asr_v4 and "
        "Standard_ND96amsr_A100_v4), and fits no layout of the catalog (ndv4, ndv5, ncv4, ndv2)"
    )


@parametrized(("name", "kinds"))
def test_the_files_beside_the_tests(name: str, kinds: list[str]) -> None:
    findings = check((DATA / name).read_bytes(), NDV4, LAYOUTS.values())
    assert [item.kind for item in findings] == kinds


def test_every_file_beside_the_tests_has_a_source() -> None:
    sources = (DATA / "SOURCES.md").read_text(encoding="utf-8")
    assert {path.name for path in DATA.glob("*.xml") if path.name not in sources} == set()


@pytest.mark.parametrize(
    ("content", "kind", "line"),
    [
        (b"", "empty", None),
        (b" \n", "empty", None),
        (b"<system\0>", "binary", None),
        (b"<system>\n\xff\xfe", "binary", 2),
        (b"\x7fELF\0\0", "binary", None),
        (b"x" * 300_000, "too-large", None),
        (b"NCCL_TOPO_FILE=/x", "not-xml", 1),
        (b'<system version="1">' + b"<cpu/>" * 255 + b"</system>", "too-many", 1),
        (b"<a>" * 5000, "too-many", 1),
    ],
)
def test_what_is_no_topology_file_is_refused_in_one_sentence(
    content: bytes, kind: str, line: int | None
) -> None:
    (finding,) = check(content, NDV4, LAYOUTS.values())
    assert (finding.severity, finding.kind, finding.line) == ("error", kind, line)
    assert "\n" not in finding.sentence()


@given(st.binary(max_size=200))
def test_any_bytes_are_explained(content: bytes) -> None:
    findings = check(content, NDV4, LAYOUTS.values())
    assert {finding.severity for finding in findings} == {"error"}


# Lines of the file and attributes in them, any of which may be spoilt.
ATTRIBUTES = {
    name: [
        (number, match.start(2), match.group(1), match.group(2))
        for number, line in enumerate(generate(LAYOUTS[name]).splitlines())
        for match in re.finditer(r'(\w+)="([^"]*)"', line)
    ]
    for name in NAMES
}


@settings(deadline=None, max_examples=200)
@given(st.data(), st.sampled_from(NAMES))
def test_any_other_value_of_any_attribute_is_found(data: st.DataObject, name: str) -> None:
    number, start, key, value = data.draw(st.sampled_from(ATTRIBUTES[name]))
    new = data.draw(st.text("0123456789abcdefABCDEFx:., GT/s", max_size=26))
    lines = generate(LAYOUTS[name]).splitlines()
    lines[number] = lines[number][:start] + new + lines[number][start + len(value) :]
    findings = found("\n".join(lines), name)
    if new == value:
        assert findings == []
    else:
        assert findings != [], (key, value, new)


@settings(deadline=None)
@given(st.data(), st.sampled_from(NAMES))
def test_any_line_left_out_twice_or_elsewhere_is_found(data: st.DataObject, name: str) -> None:
    lines = generate(LAYOUTS[name]).splitlines()
    number = data.draw(st.integers(0, len(lines) - 1))
    change = data.draw(st.sampled_from(["left out", "twice", "elsewhere"]))
    line = lines.pop(number)
    if change == "twice":
        lines[number:number] = [line, line]
    elif change == "elsewhere":
        lines.insert(data.draw(st.integers(0, len(lines))), line)
    text = "\n".join([*lines, ""])
    same = text == generate(LAYOUTS[name])
    assert (found(text, name) == []) == same


def test_sizes_are_found_in_any_case() -> None:
    assert layout_of("standard_nd96ASR_v4", LAYOUTS) is NDV4
    assert layout_of("Standard_ND96isr_H200_v5", LAYOUTS) is NDV5
    assert layout_of("Standard_NC96ads_A100_v4", LAYOUTS) is NCV4
    assert layout_of("Standard_NC48ads_A100_v4", LAYOUTS) is None


def test_the_sizes_that_are_to_have_no_file_say_why() -> None:
    assert reason_without(ENTRIES, "standard_nc48ADS_a100_v4").endswith("347 (May 2024))")
    assert reason_without(ENTRIES, "Standard_NC96ads_A100_v4") == ""
    known = {size for entry in ENTRIES["without"] for size in entry["sizes"]}
    assert known & {size for layout in LAYOUTS.values() for size in layout.sizes} == set()


def test_the_graph_file_is_the_one_of_azures_images() -> None:
    text = generate_graphs(NCV4)
    digest = "cb224b1c96d1a35dbe4042f8ef050cd13142916a166fba8223eeefefa99239a5"
    assert hashlib.sha256(text.encode("utf-8")).hexdigest() == digest
    assert found(text, "ncv4") == []
    assert generate_graphs(NDV4) == ""
    # Where the size has no graphs, one is no topology file.
    assert found(text) == [("error", "root", 1)]


@parametrized(("old", "new", "line"))
def test_another_graph_than_the_sizes_is_found_where_it_differs(
    old: str, new: str, line: int
) -> None:
    text = generate_graphs(NCV4)
    assert old in text
    assert found(text.replace(old, new, 1), "ncv4") == [("error", "graphs", line)]


def test_links_to_other_gpus_than_the_file_is_to_tell_of_are_an_error() -> None:
    """As in azhpc-images before 4be0efb7 (February 2024)."""
    text = generate(NCV4).replace('target="0001', 'target="0002', 1)
    assert found(text, "ncv4") == [("error", "dump", 5), ("warning", "told", None)]


def test_devices_of_a_layout_without_bridges_hang_on_their_cpu() -> None:
    text = generate(LAYOUTS["ndv2"])
    bridge = (
        '    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">\n'
    )
    first = text.index("    <pci")
    end = text.index("  </cpu>")
    bridged = text[:first] + bridge + text[first:end] + "    </pci>\n" + text[end:]
    kinds = Counter(kind for _, kind, _ in found(bridged, "ndv2"))
    assert kinds == {"bridge": 5, "bridge-id": 1, "bridges": 1}


def test_the_files_of_images_before_february_2025_are_wrong() -> None:
    """Masks of azhpc-images before 992d7759 and 4a4565a0; the whole files were held against this
    too (docs/guides/topology.md)."""
    half = "0000ffff,0000ffff"
    old = re.sub('affinity="[^"]*"', f'affinity="{half}"', generate(LAYOUTS["ndv2"]))
    assert [kind for _, kind, _ in found(old, "ndv2")] == [
        *("mask", "mask", "mask-overlap", "mask-cover")
    ]


@parametrized(("path", "value", "message"))
def test_a_wrong_catalog_is_refused_by_name(
    path: tuple[Any, ...], value: Any, message: str
) -> None:
    entries = copy.deepcopy(ENTRIES)
    inner = entries
    for key in path[:-1]:
        inner = inner[key]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    with pytest.raises(BadInput, match=message):
        read_layouts(entries)
