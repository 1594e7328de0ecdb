"""``trueup explain``: synthetic lines, by the formats of the programs that the entries name."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import tarfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from test_adversarial import call
from trueup_analysis.figures.explain import Explanation, explain, read_dictionary
from trueup_node.errors import BadInput
from trueup_node.health import dictionary

ROOT = Path(__file__).resolve().parents[3]
FAULTS = ROOT / "catalog" / "faults"
DATA = ROOT / "tests" / "data" / "faults"
ENTRIES = read_dictionary()
# Checkouts of Azure's tools, where they are fetched; never part of the repository.
FETCHED = ROOT.parent / "shared" / "fetched"

KERNEL = (DATA / "kernel.txt").read_text()
NCCL = (DATA / "nccl.txt").read_text()
VLLM = (DATA / "vllm.txt").read_text()
NOTHING = "nothing that the dictionary knows"


def explained(text: str) -> Explanation:
    return explain([text.encode()], "log", ENTRIES)


def causes(text: str) -> list[str]:
    return [fault.entry.id for fault in explained(text).causes]


def in_short(item: Explanation) -> str:
    """The causes of a log; without any its symptoms in (), without these its notes in []."""
    unexplained = [fault.entry for fault in item.faults if not fault.follows_from]
    notes = [entry.id for entry in unexplained if entry.severity == "info"]
    symptoms = [entry.id for entry in unexplained if entry.kind == "symptom"]
    if item.causes:
        return ", ".join(fault.entry.id for fault in item.causes)
    if symptoms:
        return f"({', '.join(symptoms)})"
    return f"[{', '.join(notes)}]" if notes else ""


def rows(text: str) -> dict[str, Any]:
    return {fault.entry.id: fault for fault in explained(text).faults}


def test_the_cause_stands_before_its_consequences() -> None:
    item = explained(KERNEL + NCCL)
    assert [fault.entry.id for fault in item.causes] == ["xid_79"]
    assert item.faults[0].entry.id == "xid_79"
    after = {fault.entry.id: bool(fault.follows_from) for fault in item.faults[1:]}
    assert after == dict.fromkeys(
        (
            *("gpu_off_bus", "gpu_probe_failed", "xid_45"),
            *("ib_retry_exceeded", "nccl_unhandled_system_error"),
        ),
        True,
    )


def test_device_node_count_and_times_are_those_of_the_lines() -> None:
    fault = rows(KERNEL * 3)["xid_79"]
    assert (fault.count, fault.first_line, fault.first_time, fault.last_time) == (
        *(3, 5, "Nov 29 10:00:09", "Nov 29 10:00:09"),
    )
    assert (fault.devices, fault.nodes) == ({"0001:00:00.0": 3}, {"gpu-7": 3})
    # The address stands two lines above the sentence.
    assert rows(KERNEL)["gpu_off_bus"].devices == {"0001:00:00.0": 1}
    assert rows(NCCL)["ib_retry_exceeded"].nodes == {"node-b": 1}


def test_another_gpus_fault_explains_nothing() -> None:
    other = KERNEL.splitlines()[-1].replace("0001:00:00", "0002:00:00").replace(" 45,", " 154,")
    assert rows(KERNEL + other)["xid_154"].follows_from == []
    elsewhere = KERNEL.splitlines()[3].replace("gpu-7", "gpu-9")
    own_lines = "\n".join(line for line in KERNEL.splitlines() if "probe" not in line)
    assert rows(f"{own_lines}\n{elsewhere}")["gpu_probe_failed"].follows_from == []


def test_a_symptom_alone_is_no_cause() -> None:
    assert (causes(NCCL), causes(VLLM.splitlines()[1])) == ([], [])
    assert causes(VLLM) == ["gpu_memory_taken"]


LINES = [row.split("\t") for row in (DATA / "lines.tsv").read_text().splitlines()[1:]]


@pytest.mark.parametrize(("name", "line"), LINES)
def test_a_line_has_its_entry(name: str, line: str) -> None:
    assert in_short(explained(line)) == name


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15",
        "node:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.4<0>",
        "mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link ACTIVE",
        "Remapping Failure Occurred : No",
        "nvidia-gridd: License acquired successfully",
        "GPU Recovery Action : None",
        "GPU Recovery Action : N/A",
        "the name is greater than the maximum length",
        "Tiny has no vLLM implementation, falling back to Transformers implementation.",
        "0 errors, no failures",
        "NVML: Unable to retrieve NVLink information as all links are inActive",
        "n1:1:2 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so",
        "pci 0000:00:00.0: BAR 13: can't assign; no space",
        "rank 0: device 1 cannot access peer memory of device 2",
        "AutoTuner: Cannot perform autotuning of this shape",
        '"quitOnError": 1,',
    ],
)
def test_a_healthy_line_has_none(line: str) -> None:
    item = explained(line)
    assert (item.causes, item.unknown_lines) == ([], 0)


@pytest.mark.parametrize(
    "line",
    [
        "INFO 01-02 03:04:05 x.py:9] skipped: ModuleNotFoundError: No module named 'x'",
        "make[1]: *** [Makefile:5: check] Error 1",
        "slurmctld: debug2: Sending PersistInit msg",
        "btl:tcp: path from 172.17.0.1 to 192.168.122.1: IPV4 PRIVATE DIFFERENT NETWORK",
        "mount.nfs: timeout set for Mon Jan  1 00:00:00 2026",
        "WALinuxAgent-2.9 is the most current agent",
        "srun: Job 7 step creation temporarily disabled, retrying (Requested nodes are busy)",
        "INFO ExtHandler [HEARTBEAT] GET http://168.63.129.16/machine [410: Gone], fails over",
        "BlockingIOError: [Errno 11] Resource temporarily unavailable",
        "  self.pid = os.fork()",
        "HTTPConnectionPool(host='localhost', port=8000): Max retries exceeded with url: /health",
        "[n1:00192] Read -1, expected 10024, errno = 3",
        'level=debug msg="At least one mode change pending"',
        "debug1: connect to address 10.0.0.4 port 22: Connection timed out",
        "[ERROR:00000005]   Import group policy Status key failed (Access is denied.)",
        "discovery: ENDPOINT_NOT_FOUND for /v2/models",
        "form.js: INVALID_FORM",
    ],
)
def test_a_line_beside_an_entry_has_none(line: str) -> None:
    assert explained(line).faults == []


def test_an_unknown_code_and_an_unknown_error_are_named() -> None:
    item = explained("NVRM: Xid (PCI:0001:00:00): 999, pid=1\nfoo error 1\nfoo error 2\n")
    assert [(fault.entry.id, fault.entry.severity) for fault in item.faults] == [
        ("xid_999", "warn")
    ]
    assert (item.unknown, item.unknown_lines) == ({"foo error 1": 2}, 2)
    assert explained("foo: UnexpectedAdmissionError\nfoo: ConnectionError\n").unknown_lines == 2
    assert explained("foo: the request timed out\nfoo: unable to start\n").unknown_lines == 2


@pytest.mark.parametrize(
    ("text", "status"), [("all is well\n", 0), (KERNEL, 1), (NCCL, 1), ("some error\n", 2)]
)
def test_the_exit_status_tells(tmp_path: Path, text: str, status: int) -> None:
    (tmp_path / "log").write_text(text)
    assert call("explain", tmp_path / "log")[0] == status


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("all is well\n")
    status, out, err = call("explain", tmp_path / "log", tmp_path / "none")
    assert (status, "the dictionary knows" in " ".join(out.split())) == (2, True)
    assert f"{tmp_path / 'none'} cannot be read: No such file or directory" in err


@pytest.mark.parametrize(
    "encoded",
    [
        KERNEL.encode("utf-16"),
        gzip.compress(KERNEL.encode()),
        KERNEL.replace("\n", "\r\n").encode(),
        b"\xff\x00\xfe" + KERNEL.encode() + b"\x80",
    ],
)
def test_any_encoding_and_compression(tmp_path: Path, encoded: bytes) -> None:
    (tmp_path / "log").write_bytes(encoded)
    status, out, _ = call("explain", tmp_path / "log", "-f", "json")
    assert (status, json.loads(out)["tables"][0]["causes"]) == (1, ["xid_79"])


def _archive(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def test_the_files_of_an_archive_are_logs(tmp_path: Path) -> None:
    path = tmp_path / "node.tar.gz"
    healthy = {f"node/{name}.txt": b"all is well\n" for name in ("disks", "mounts", "space\x1b[1m")}
    _archive(path, {**healthy, "kernel/dmesg.gz": gzip.compress(KERNEL.encode())})
    status, out, _ = call("explain", path, "-f", "json")
    causes = {table["source"]: table["causes"] for table in json.loads(out)["tables"]}
    assert (status, len(causes)) == (1, 4)
    assert causes[f"{path}/kernel/dmesg.gz"] == ["xid_79"]
    _, out, _ = call("explain", path)
    assert "".join(out.split()).startswith(f"{path}/kernel/dmesg.gz:1cause")
    assert f"3 more files: {NOTHING}" in " ".join(out.split())
    assert {char for char in out if not char.isprintable()} <= {"\n"}


@pytest.mark.parametrize("spoil", ["cut", "changed", "cut at its end"])
def test_an_archive_that_is_not_whole_is_no_healthy_one(tmp_path: Path, spoil: str) -> None:
    path = tmp_path / "node.tar.gz"
    _archive(
        path, {"a": b"all is well\n" * 9, "b": random.Random(1).randbytes(50_000).hex().encode()}
    )
    data = path.read_bytes()
    middle = len(data) // 2
    changed = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    spoilt = {"cut": data[:middle], "changed": changed, "cut at its end": data[:-3]}
    path.write_bytes(spoilt[spoil])
    status, _, err = call("explain", path)
    assert status == 2
    assert f"{path} is cut off or damaged: gzip says" in " ".join(err.split())


def test_an_empty_archive_is_no_healthy_one(tmp_path: Path) -> None:
    _archive(tmp_path / "none.tar.gz", {})
    status, _, err = call("explain", tmp_path / "none.tar.gz")
    assert (status, "none.tar.gz is empty" in err) == (2, True)


def test_what_a_log_says_is_shown_without_controls_and_credentials(tmp_path: Path) -> None:
    secret = (
        "hf_" + "dummydummydummydummydummydummydumm"
    )  # WHY: the form of a token, none of anybody
    line = f"\x1b[31m\u202eGatedRepoError: 401 Client Error token={secret}\x00\n"
    (tmp_path / "log").write_text(line)
    status, out, err = call("explain", tmp_path / "log")
    assert (status, secret in out + err) == (1, False)
    assert {char for char in out + err if not char.isprintable()} <= {"\n"}


def test_a_flood_takes_seconds() -> None:
    flood = (NCCL * 2000 + "x" * 200_000 + "\n" + "error " * 30_000 + "\n").encode()
    begun = time.process_time()
    item = explain([flood] * 4, "log", ENTRIES)
    assert rows_of(item)["ib_retry_exceeded"] == 8000
    assert time.process_time() - begun < 20


def rows_of(item: Explanation) -> dict[str, int]:
    return {fault.entry.id: fault.count for fault in item.faults}


def test_every_entry_is_whole() -> None:
    entries = ENTRIES.all.values()
    assert [entry.id for entry in entries if not (entry.check and entry.meaning)] == []
    acting = [entry for entry in entries if entry.severity != "info"]
    assert [entry.id for entry in acting if not (entry.fix and entry.date)] == []
    # The first character of a clause is not a capital, and no clause ends in a full stop.
    assert [entry.id for entry in ENTRIES.entries.values() if entry.meaning.endswith(".")] == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "guess"}, "kind 'guess' is none of cause, symptom"),
        ({"category": "Nothing"}, "category 'Nothing' is none of"),
        ({"marks": ["ab"]}, "a mark has fewer than 4 characters"),
        ({"pattern": "("}, "missing ), unterminated subpattern"),
        ({"colour": "red"}, "unknown: colour"),
        ({"consequence_of": ["nothing"]}, "gpu_lost follows from nothing, which is no entry"),
    ],
)
def test_a_wrong_entry_is_refused(change: dict[str, Any], message: str) -> None:
    documents = {
        path.name: yaml.safe_load(path.read_text())
        for path in FAULTS.glob("*.yml")
        if path.name != "xid.yml"
    }
    entry = next(item for item in documents["gpu.yml"]["faults"] if item["id"] == "gpu_lost")
    entry.update(change)
    with pytest.raises(BadInput) as caught:
        dictionary.of_documents(documents, ENTRIES._faults)
    assert message in str(caught.value)


# Of healthagent 2.0.2 (Azure/cyclecloud-healthagent@b8c76db healthagent/bindings.py, XID_GHR_MAP).
HEALTHAGENT = {
    48: "XID48DoubleBitECC",
    60: "HpcDcgmiThermalReport",
    61: "HpcDcgmiThermalReport",
    62: "HpcDcgmiThermalReport",
    79: "XID79FallenOffBus",
    93: "HpcInforomCorruption",
    94: "XID94ContainedECCError",
    95: "XID95UncontainedECCError",
}


def test_categories_of_xids_are_healthagents() -> None:
    assert {code: ENTRIES.all[f"xid_{code}"].category for code in HEALTHAGENT} == HEALTHAGENT


def categories() -> dict[str, str]:
    document = yaml.safe_load((FAULTS / "azure.yml").read_text())
    return {str(name): code for name, code in document["categories"].items()}


def test_categories_are_those_of_a_fetched_healthagent() -> None:
    folder = FETCHED / "cyclecloud-healthagent" / "healthagent"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not fetched")
    named = dict(re.findall(r'(\w+) = "(Resource\.Hpc\.[\w.]+)"', (folder / "ghr.py").read_text()))
    short = {name.rpartition(".")[2] for name in named.values()}
    assert short - set(categories()) == set()
    bindings, network, gpu = (
        (folder / name).read_text() for name in ("bindings.py", "network.py", "gpu.py")
    )
    of_codes = {
        **{
            f"xid_{code}": name for code, name in re.findall(r"(\d+): GHRCategory\.(\w+)", bindings)
        },
        **dict(re.findall(r'"(DCGM_F[RI]_\w+)"[,:] GHRCategory\.(\w+)', bindings)),
        **{
            f"{kind}_{field}": name
            for kind, field, name in re.findall(
                r'\("(\w+)", "(\w+)"\): GHRCategory\.(\w+)', network
            )
        },
        # Of a count that differs, and of an XID without a category of its own.
        "gpu_count": "".join(re.findall(r"ghr_category = GHRCategory\.(\w+)", gpu)),
        "xid_other": "".join(re.findall(r"get\(xid_num, GHRCategory\.(\w+)\)", gpu)),
    }
    rows = (DATA / "healthagent_codes.tsv").read_text().splitlines()[1:]
    assert {code: named[name] for code, name in of_codes.items()} == dict(
        row.split("\t") for row in rows
    )


def test_codes_are_those_of_fetched_health_checks() -> None:
    path = FETCHED / "azurehpc-health-checks" / "triggerGHR/config/nhc_fault_dictionary.cfg"
    if not path.is_file():
        pytest.skip(f"{path} is not fetched")
    named = re.findall(
        r"^(NHC\d+) = Resource\.Hpc\.Unhealthy\.(\w+)", path.read_text(), re.MULTILINE
    )
    ours = categories()
    assert {name: ours[name] for _, name in named} == {name: code for code, name in reversed(named)}


class Report(NamedTuple):
    """A row of public_fragments.tsv; ``blind_result`` is its column ``blind``."""

    source: str
    sample: str
    text: str
    settled: str
    expected: str
    result: str
    blind_result: str


PUBLIC = [
    Report(*row.split("\t")) for row in (DATA / "public_fragments.tsv").read_text().splitlines()[1:]
]
SETTLED = [row for row in PUBLIC if row.settled == "yes"]


def is_wrong(result: str, expected: str) -> bool:
    """Whether causes were named that are not those of the report."""
    return bool(result) and result != expected and result[0] not in "(["


def test_settled_public_reports_have_their_cause() -> None:
    assert sum(row.expected == row.result for row in SETTLED) >= 0.9 * len(SETTLED)
    assert [row for row in SETTLED if is_wrong(row.result, row.expected)] == []
    names = {
        name for row in PUBLIC for name in re.findall(r"\w+", f"{row.result} {row.blind_result}")
    }
    assert names - set(ENTRIES.all) == set()


def blind_figures(sample: str) -> tuple[int, int, int, int, int]:
    """Reports of a sample, settled ones, and of these right, wrong and not found."""
    reports = [row for row in PUBLIC if row.sample == sample]
    settled = [row for row in reports if row.settled == "yes"]
    right = sum(row.blind_result == row.expected for row in settled)
    wrong = sum(is_wrong(row.blind_result, row.expected) for row in settled)
    return len(reports), len(settled), right, wrong, len(settled) - right - wrong


def test_the_page_tells_what_was_found_in_the_blind_samples() -> None:
    page = " ".join((ROOT / "docs" / "guides" / "explain.md").read_text().split())
    samples = sorted(
        {row.sample for row in PUBLIC if row.sample.startswith("blind")},
        key=lambda name: int(name.split()[1]),
    )
    total, settled, right, wrong, rest = map(
        sum, zip(*(blind_figures(sample) for sample in samples), strict=True)
    )
    assert (
        f"Of {total} public reports, held against the dictionary before any entry was written for "
        f"them, {settled} settle the cause in their lines: {right} right, {wrong} another cause, "
        f"{rest} not found."
    ) in page
    for sample in samples[-2:]:
        _total, settled, right, wrong, rest = blind_figures(sample)
        assert f"{settled}: {right} right, {wrong} another cause, {rest} not found" in page
