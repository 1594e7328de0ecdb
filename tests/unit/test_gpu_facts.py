"""The module gpu_facts: what it runs, and what it publishes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gpu_facts
import machines
import pytest
from ansible.module_utils import basic
from ansible.module_utils.trueup_node.node import gpu_look
from helpers import answer_of, parametrized

TOOLS = {
    name: f"/usr/bin/{name}"
    for name in ("nvidia-smi", "nv-fabricmanager", "systemctl", "dmesg", "timeout")
}
VERSION = machines.description("nd96asr_v4")["nvidia_driver"]["version"]
ROWS = "".join(f"0000000{n}:00:00.0, {VERSION}, Enabled\n" for n in range(1, 9))
ADDRESSES = [f"0000000{n}:00:00.0" for n in range(1, 9)]


def table(header: str, cells: str) -> tuple[int, str, str]:
    """What nvidia-smi answers to a question: the same of each of 8 GPUs."""
    rows = "".join(f"{address}, {cells}\n" for address in ADDRESSES)
    return 0, f"{header}\n{rows}", ""


REFUSED = (1, 'Field "x" is not a valid field to query.\n', "")
SMI = "nvidia-smi --query-gpu=pci.bus_id,"
CLOCKS = f"{SMI}clocks.sm,clocks.max.sm,clocks.mem,temperature.gpu"
MEMORY = f"{SMI}name,memory.total"
ECC = f"{SMI}ecc.errors.corrected.volatile.total"
BY_MEMORY = f"{SMI}ecc.errors.corrected.volatile.sram"
THROTTLE, OLD_THROTTLE = f"{SMI}clocks_event_reasons", f"{SMI}clocks_throttle_reasons"
REMAP = "nvidia-smi --query-remapped-rows=gpu_bus_id,"
AT_ONCE = SMI + ",".join(
    field
    for name, fields in gpu_look.gpu_state.QUERIES.items()
    if name != "throttle_old"
    for field in fields
)
# The beginning of a command line to its answer; the longest that fits answers.
ANSWERS = {
    f"{SMI}driver_version": (0, f"pci.bus_id, driver_version, persistence_mode\n{ROWS}", ""),
    AT_ONCE: REFUSED,
    CLOCKS: table(
        "pci.bus_id, clocks.current.sm [MHz], clocks.max.sm [MHz], clocks.current.memory [MHz],"
        " temperature.gpu",
        "210 MHz, 1410 MHz, 1215 MHz, 34",
    ),
    MEMORY: table("pci.bus_id, name, memory.total [MiB]", "NVIDIA A100-SXM4-40GB, 40960 MiB"),
    ECC: table("pci.bus_id, a, b, c, d", "0, 0, 2, 0"),
    BY_MEMORY: table("pci.bus_id, a, b, c, d", "1, 0, 2, 0"),
    THROTTLE: table("pci.bus_id, clocks_event_reasons.active", "0x0000000000000001"),
    OLD_THROTTLE: table("pci.bus_id, clocks_throttle_reasons.active", "0x0000000000000004"),
    REMAP: table("gpu_bus_id, a, b, c, d", "0, 0, No, No"),
    "nvidia-smi nvlink": (
        0,
        "".join(
            f"GPU {n}: NVIDIA A100-SXM4-40GB (UUID: GPU-{n})\n\t Link 0: 25 GB/s\n"
            "\t Link 1: 25 GB/s\n"
            for n in range(8)
        ),
        "",
    ),
    "nvidia-smi -q": (0, "".join(f"GPU {address}\n" for address in ADDRESSES), ""),
    "dmesg": (0, "[    1.000000] NVRM: loading NVIDIA UNIX Open Kernel Module\n", ""),
    "nv-fabricmanager": (0, f"Fabric Manager version is : {VERSION}\n", ""),
    "systemctl": (
        0,
        "\n".join(
            f"Id={unit}.service\nLoadState=loaded\nActiveState=active\n"
            for unit in ("nvidia-fabricmanager", "nvidia-persistenced", "nvidia-dcgm")
        ),
        "",
    ),
}
EXPECTED = {"driver_version": VERSION, "gpus": 8, "fabric_manager": True, "persistence": True}


class Ran:
    """Runs the module on a recorded machine, with replaced tools."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys
        self.calls: list[list[str]] = []
        self.tools = dict(TOOLS)
        self.answers = dict(ANSWERS)

    def __call__(self, **parameters: Any) -> dict[str, Any]:
        def run_command(_self: Any, argv: list[str], **options: Any) -> tuple[int, str, str]:
            assert options["environ_update"]["LC_ALL"] == "C"
            assert argv[:2] == ["/usr/bin/timeout", "--kill-after=5"]
            self.calls.append(argv[3:])
            line = " ".join([Path(argv[3]).name, *argv[4:]])
            return self.answers[max((key for key in self.answers if line.startswith(key)), key=len)]

        module = basic.AnsibleModule
        self.monkeypatch.setattr(module, "run_command", run_command)
        self.monkeypatch.setattr(
            module, "get_bin_path", lambda _self, name, *_a, **_k: self.tools.get(name)
        )
        root = machines.root_of("nd96asr_v4")
        roots = {"sysfs_root": str(root / "sys"), "procfs_root": str(root / "proc")}
        return answer_of(gpu_facts, self.capsys, **{**roots, **parameters})


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ran:
    return Ran(monkeypatch, capsys)


def test_a_whole_driver(ran: Ran) -> None:
    answer = ran(expected=EXPECTED)
    assert answer["changed"] is False
    assert answer["ansible_facts"] == {
        "trueup_gpu": {
            "kernel_module": VERSION,
            "user_space": VERSION,
            "fabric_manager": VERSION,
            "modules": ["nvidia", "nvidia_uvm", "nvidia_peermem"],
            "units": {
                "nvidia-fabricmanager.service": "active",
                "nvidia-persistenced.service": "active",
                "nvidia-dcgm.service": "active",
            },
            "gpus_on_pci": 8,
            "gpus": 8,
            "persistent": 8,
            "devices": [
                {
                    "pci": f"000{n}:00:00.0",
                    "name": "NVIDIA A100-SXM4-40GB",
                    "memory_bytes": 40 * 1024**3,
                    "licence": None,
                    "clocks": {"sm_mhz": 210, "max_sm_mhz": 1410, "memory_mhz": 1215},
                    "temperature_celsius": 34,
                    "ecc": {
                        "volatile": {"corrected": 0, "uncorrected": 0},
                        "aggregate": {"corrected": 2, "uncorrected": 0},
                    },
                    "ecc_by_memory": {
                        "sram_corrected": 1,
                        "sram_uncorrected": 0,
                        "dram_corrected": 2,
                        "dram_uncorrected": 0,
                    },
                    "row_remap": {
                        "correctable": 0,
                        "uncorrectable": 0,
                        "pending": False,
                        "failure": False,
                    },
                    "throttle_reasons": ["gpu idle"],
                    "nvlinks": {"active": 2, "total": 2, "inactive": []},
                    "fabric": None,
                }
                for n in range(1, 9)
            ],
            "xids": None,
            "notes": ["XIDs are not known: a recorded machine has no kernel log"],
            "reboot_required": False,
            "problems": [],
        }
    }
    assert ran.calls[:3] == [
        [
            "/usr/bin/systemctl",
            "show",
            "--property=Id,LoadState,ActiveState",
            "nvidia-fabricmanager.service",
            "nvidia-persistenced.service",
            "nvidia-dcgm.service",
        ],
        [
            "/usr/bin/nvidia-smi",
            "--query-gpu=pci.bus_id,driver_version,persistence_mode",
            "--format=csv",
        ],
        ["/usr/bin/nv-fabricmanager", "--version"],
    ]
    assert [" ".join(call)[9:40] for call in ran.calls[3:]] == [
        *["nvidia-smi --query-gpu=pci.bus_"] * 6,
        "nvidia-smi --query-remapped-row",
        *("nvidia-smi nvlink -s", "nvidia-smi -q"),
    ]


def together(*changed: tuple[str, str]) -> tuple[int, str, str]:
    """The answers to the questions of each group as one table."""
    cells = dict(changed)
    rows = []
    for question in (CLOCKS, MEMORY, ECC, BY_MEMORY, THROTTLE):
        head, first, *_ = ANSWERS[question][1].splitlines()
        rows.append((head.split(", ", 1)[1], cells.get(question, first.split(", ", 1)[1])))
    return table(
        ", ".join(["pci.bus_id", *(head for head, _ in rows)]), ", ".join(row for _, row in rows)
    )


def test_figures_that_are_asked_for_at_once_are_those_of_their_group(ran: Ran) -> None:
    ran.answers[AT_ONCE] = together((ECC, "1, 2, 3, 4"), (THROTTLE, "0x0000000000000008"))
    for gpu in fact_of(ran)["devices"]:
        assert [[*kind.values()] for kind in gpu["ecc"].values()] == [[1, 2], [3, 4]]
        assert gpu["throttle_reasons"] == ["hardware slowdown"]


@pytest.mark.parametrize("cut", [0, 1, 40, 400])
def test_a_cut_answer_to_all_at_once_is_asked_for_by_group(ran: Ran, cut: int) -> None:
    by_group = fact_of(ran)
    ran.answers[AT_ONCE] = (0, together()[1][:cut], "")
    assert fact_of(ran) == by_group


@pytest.mark.parametrize(
    ("question", "asked", "known"), [(AT_ONCE, 1, 0), (CLOCKS, 2, 0), (REMAP, 7, 8)]
)
def test_a_program_that_hangs_is_asked_no_more(
    ran: Ran, question: str, asked: int, known: int
) -> None:
    ran.answers[question] = (124, "", "")
    fact = fact_of(ran)
    assert len([argv for argv in ran.calls if "nvidia-smi" in argv[0]]) == 1 + asked
    assert len(fact["devices"] or []) == known
    hangs = "figures of the GPUs: nvidia-smi did not end within 60 s; it is asked no more"
    assert hangs in fact["notes"]


def test_no_tools_are_named_problems(ran: Ran) -> None:
    ran.tools = {}
    fact = ran(expected=EXPECTED)["ansible_facts"]["trueup_gpu"]
    assert [one["name"] for one in fact["problems"]] == [
        "user_space_missing",
        "fabric_manager_missing",
    ]
    assert (fact["user_space"], fact["fabric_manager"], ran.calls) == (None, None, [])


def test_a_program_without_content_is_a_driver_that_does_not_work(ran: Ran) -> None:
    ran.answers[f"{SMI}driver_version"] = (0, "", "")
    found = ran(expected=EXPECTED)["ansible_facts"]["trueup_gpu"]
    assert (found["user_space"], found["gpus"]) == (None, None)
    assert "nvidia-smi printed nothing" in json.dumps(found["problems"])


def test_an_unusable_answer_fails_with_the_line(ran: Ran) -> None:
    ran.answers[f"{SMI}driver_version"] = (0, "something else\n", "")
    answer = ran(expected=EXPECTED)
    assert answer["failed"] is True
    assert "expected the columns pci.bus_id" in answer["msg"]
    assert "something else" in answer["msg"]


def test_a_unit_that_never_settles_is_waited_for_no_longer_than_asked(ran: Ran) -> None:
    code, text, error = ANSWERS["systemctl"]
    ran.answers["systemctl"] = (code, text.replace("=active", "=activating", 1), error)
    fact = ran(expected=EXPECTED, settle_seconds=0)["ansible_facts"]["trueup_gpu"]
    assert [one["name"] for one in fact["problems"]] == ["fabric_manager_stopped"]
    assert "is activating" in fact["problems"][0]["message"]


def fact_of(ran: Ran, **parameters: Any) -> dict[str, Any]:
    answer = ran(expected=EXPECTED, **parameters)
    fact: dict[str, Any] = answer["ansible_facts"]["trueup_gpu"]
    return fact


def test_a_driver_that_refuses_every_further_question_is_whole_and_says_so(ran: Ran) -> None:
    tables = (CLOCKS, MEMORY, ECC, BY_MEMORY, THROTTLE, OLD_THROTTLE, REMAP)
    for question in (*tables, "nvidia-smi nvlink"):
        ran.answers[question] = REFUSED
    fact = fact_of(ran)
    assert (fact["problems"], fact["devices"], fact["gpus"]) == ([], None, 8)
    why = 'nvidia-smi failed with status 1: Field "x" is not a valid field to query.'
    assert fact["notes"] == [
        f"clocks of the GPUs: {why}",
        f"memory of the GPUs: {why}",
        f"ecc of the GPUs: {why}",
        f"ecc_by_memory of the GPUs: {why}",
        f"throttle_old of the GPUs: {why}",
        f"remap of the GPUs: {why}",
        f"NVLinks: {why}",
        "XIDs are not known: a recorded machine has no kernel log",
    ]


def test_one_question_that_is_refused_leaves_the_others(ran: Ran) -> None:
    ran.answers[ECC] = REFUSED
    fact = fact_of(ran)
    assert {one["ecc"] for one in fact["devices"]} == {None}
    assert fact["devices"][0]["clocks"]["max_sm_mhz"] == 1410
    assert fact["problems"] == []


def test_a_driver_that_hangs_is_a_problem_and_is_asked_no_more(ran: Ran) -> None:
    ran.answers[f"{SMI}driver_version"] = (124, "", "")
    fact = fact_of(ran)
    assert [one["name"] for one in fact["problems"]] == ["nvidia_smi_failed"]
    assert "did not end within 60 s" in fact["problems"][0]["message"]
    assert len(ran.calls) == 3


def test_a_gpu_that_did_not_start_is_a_problem_by_its_address(ran: Ran) -> None:
    text = (KERNEL_LOGS / "probe_failed_real.txt").read_text()
    ran.answers["dmesg"] = (0, text + text.replace("000a:", "0001:"), "")
    fact = fact_of(ran, sysfs_root="/sys")
    # nvidia-smi shows 0001:00:00.0.
    [problem] = [one for one in fact["problems"] if one["name"] == "gpu_not_started"]
    assert problem["message"].startswith(
        "GPU 000a:00:00.0 did not start: the NVIDIA 580.126.09 driver release does not recognise it"
    )


FABRIC = "GPU {}\n    Fabric\n        State        : {}\n        Status       : {}\n"


def fabrics(state: str, status: str) -> tuple[int, str, str]:
    """The answer of nvidia-smi -q of 8 GPUs: this one of the last, all others are ready."""
    whole = [FABRIC.format(address, "Completed", "Success") for address in ADDRESSES]
    return 0, "".join([*whole[:-1], FABRIC.format(ADDRESSES[-1], state, status)]), ""


def test_a_fabric_that_registers_is_waited_for(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        if now[0] > 5:
            ran.answers["nvidia-smi -q"] = fabrics("Completed", "Success")

    ran.answers["nvidia-smi -q"] = fabrics("In Progress", "N/A")
    monkeypatch.setattr(gpu_look.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(gpu_look.time, "sleep", sleep)
    fact = ran(expected=EXPECTED, settle_seconds=30)["ansible_facts"]["trueup_gpu"]
    assert (fact["problems"], sum(call[-1] == "-q" for call in ran.calls)) == ([], 4)


@parametrized(("answer", "why"))
def test_a_fabric_that_nobody_can_tell_is_a_note(
    ran: Ran, answer: tuple[int, str, str], why: str
) -> None:
    ran.answers["nvidia-smi -q"] = answer
    fact = fact_of(ran)
    assert f"NVLink fabric of the GPUs: {why}" in fact["notes"]
    assert {gpu["fabric"] is None for gpu in fact["devices"]} == {True}


@parametrized(("answer", "note"))
def test_a_kernel_log_that_cannot_be_read_is_unknown(
    ran: Ran, answer: tuple[int, str, str], note: str
) -> None:
    ran.answers["dmesg"] = answer
    fact = fact_of(ran, sysfs_root="/sys")
    assert fact["xids"] is None
    assert fact["notes"][-1] == note


SLICE = {
    MEMORY: table("pci.bus_id, name, memory.total [MiB]", "NVIDIA A10-24Q, 24512 MiB"),
    "nvidia-smi -q": (0, "", ""),
}
KERNEL_LOGS = Path(__file__).parent.parent / "data" / "kernel_log"
QUESTIONS = Path(__file__).parent.parent / "data" / "nvidia_smi"


def licences(*states: str) -> tuple[int, str, str]:
    """What nvidia-smi -q says of 8 slices: these states of licences, the last of all others."""
    each = [*states, *[states[-1]] * (8 - len(states))]
    text = "".join(
        f"GPU {address}\n    vGPU Software Licensed Product\n"
        f"        License Status                    : {state}\n"
        for address, state in zip(ADDRESSES, each, strict=True)
    )
    return 0, text, ""


def test_a_licence_is_waited_for(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    ran.answers |= {**SLICE, "nvidia-smi -q": licences("Licensed", "Unlicensed (Unrestricted)")}
    monkeypatch.setattr(gpu_look.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(
        gpu_look.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds)
    )
    fact = ran(expected={"gpu_memory_gib": 48}, settle_seconds=4)["ansible_facts"]["trueup_gpu"]
    names = [one["name"] for one in fact["problems"]]
    assert (names.count("gpu_unlicensed"), names.count("gpu_memory_short")) == (7, 8)
    assert sum(call[-1] == "-q" for call in ran.calls) == 4


@pytest.mark.parametrize(
    "answer", [(1, "", "it fails\n"), (0, (QUESTIONS / "q_a10_licensed.txt").read_text()[:800], "")]
)
def test_licences_that_nobody_can_tell_are_a_note(ran: Ran, answer: tuple[int, str, str]) -> None:
    ran.answers |= {**SLICE, "nvidia-smi -q": answer}
    fact = ran(expected={})["ansible_facts"]["trueup_gpu"]
    assert {gpu["licence"] for gpu in fact["devices"]} == {None}
    assert [note[:22] for note in fact["notes"]].count("licences of the GPUs: ") == 1
    assert fact["problems"] == []
