"""What reads the catalog of VM sizes, and the catalog itself."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
import yaml
from helpers import parametrized
from trueup_controller.sizes import read_sizes
from trueup_node.errors import BadInput

CATALOG = Path(__file__).parents[2] / "catalog" / "vm_sizes.csv"
COLUMNS = (
    "size,series,family,vcpus,memory_gib,memory_bandwidth_gbps,numa_nodes,gpus,gpu_model,"
    "gpu_memory_gib,nvme_disks,nvme_gib_each,rdma_gbps_per_nic,rdma_nics,peak_fp64_gflops,"
    "architecture,source,cores_per_numa,status"
)
ROW = "Standard_A1,A,alpha,4,16.5,,1,0,,,,,,0,,x86_64,somewhere,,current"


def test_every_row_of_the_file_has_a_source_and_a_spelling() -> None:
    with CATALOG.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["size"] for row in rows if not row["source"]] == []
    assert [row["size"] for row in rows if not re.fullmatch(r"Standard_[\w-]+", row["size"])] == []


@pytest.mark.parametrize(
    ("content", "where"),
    [
        ("", "line 1, column size: the header has no such column"),
        (COLUMNS, "line 2, column size: there are no rows"),
        (f"{COLUMNS.replace(',vcpus', '')}\n{ROW}", "line 1, column vcpus"),
        (f"{COLUMNS}\n{ROW}\n{ROW.replace('A1', 'a1')}", "line 3, column size: Standard_a1 stands"),
        (
            f"{COLUMNS}\n{ROW.replace(',4,', ',four,')}",
            "column vcpus: 'four' is not a whole number",
        ),
        (f"{COLUMNS}\n{ROW.replace('16.5', '16,5')}", "the row does not have 19 cells"),
        (f"{COLUMNS}\n{ROW.replace('16.5', 'NaN')}", "column memory_gib: 'NaN' is not a number"),
        (f"{COLUMNS}\n{ROW.replace('alpha', 'Alpha-1')}", "'Alpha-1' cannot be a group's name"),
        (f"{COLUMNS}\n{ROW.replace('somewhere', ' ')}", "line 2, column source: must not be empty"),
        (f"{COLUMNS}\nStandard_A1,A", "line 2, column size: the row does not have 19 cells"),
        (f'{COLUMNS}\n"Standard_A1', "cannot be read"),
    ],
)
def test_a_malformed_file_is_named_with_line_and_column(
    content: str, where: str, tmp_path: Path
) -> None:
    file = tmp_path / "sizes.csv"
    file.write_text(content + "\n" if content else "")
    with pytest.raises(BadInput) as refused:
        read_sizes(str(file))
    assert where in str(refused.value)
    assert str(file) in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none\.csv cannot be read: .*No such file"):
        read_sizes(str(tmp_path / "none.csv"))


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "sizes.csv"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="cannot be read"):
        read_sizes(str(file))


def test_series_named_as_successors_are_in_the_catalog() -> None:
    with CATALOG.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    services = yaml.safe_load((CATALOG.parent / "services.yml").read_text(encoding="utf-8"))
    named = {
        series
        for row in [*rows, *services["gone"]]
        for series in filter(None, (row["successors"] or "").split(";"))
    }
    assert len(named) == 19
    assert named - {row["series"] for row in rows} == set()


@parametrized(("family", "sizes", "model", "gpus"))
def test_gpu_sizes_of_a_family(family: str, sizes: int, model: str, gpus: list[int]) -> None:
    rows = [row for row in read_sizes(str(CATALOG)).values() if row["family"] == family]
    assert len(rows) == sizes
    assert {row["gpu_model"] for row in rows} == {model}
    assert [row["gpus"] for row in rows] == gpus
