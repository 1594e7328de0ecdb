"""What two clients measured over NFS together, beside what the server counted."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from testinfra.host import Host
from trueup_analysis.cases import read_cases
from trueup_analysis.figures.shared_load import rows
from trueup_analysis.load import load

testinfra_hosts = ["trueup-load-server"]

RESULTS = Path(os.environ["TRUEUP_RESULTS"])
# The scenario's first run; the later ones are broken on purpose.
FIRST = min(path for path in RESULTS.iterdir() if path.is_dir())
RECORDS = [json.loads(path.read_text()) for path in FIRST.glob("fio-*.json")]
CLIENTS = ["trueup-load-1", "trueup-load-2"]
DEPTHS = [1, 4, 16]
VOLUME = "10.44.0.1:/srv/shared"


def summed(metric: str, depth: int | None = None) -> float:
    return sum(
        row["value"]
        for record in RECORDS
        for row in record["metrics"]
        if re.fullmatch(metric, row["name"])
        and (depth is None or record["parameters"]["iodepth"] == depth)
    )


def test_both_clients_measured_the_same_mount_at_each_queue_depth() -> None:
    found = sorted(
        (record["nodes"][0], record["parameters"]["iodepth"], record["outcome"])
        for record in RECORDS
    )
    assert found == [(client, depth, "ok") for client in CLIENTS for depth in DEPTHS]
    parameters = [record["parameters"] for record in RECORDS]
    assert {(one["filesystem"], one["filesystem_source"]) for one in parameters} == {
        ("nfs4", VOLUME)
    }


def test_the_server_knew_two_clients(host: Host) -> None:
    told = host.check_output("sudo sh -c 'cat /proc/fs/nfsd/clients/*/info'")
    names = re.findall(r'^name: "Linux NFSv4\.2 (.+)"$', told, re.MULTILINE)
    assert sorted(names) == CLIENTS
    assert len(set(re.findall(r"^clientid: (.+)$", told, re.MULTILINE))) == 2


def test_the_clients_together_read_what_the_server_gave(host: Host) -> None:
    """Nothing but the measuring reads: making files only writes."""
    seconds = RECORDS[0]["parameters"]["runtime_seconds"]
    counted = re.search(r"^io (\d+) ", host.file("/proc/net/rpc/nfsd").content_string, re.MULTILINE)
    assert counted is not None
    assert int(counted[1]) == pytest.approx(summed("read_bandwidth") * seconds, rel=0.1)


def test_the_table_sums_both_clients_at_each_queue_depth() -> None:
    loaded = load([FIRST])
    (row,), notes = rows(read_cases(loaded), loaded.runs)
    assert notes == []
    assert (row["filesystem_source"], row["clients"], row["points"]) == (VOLUME, 2, len(DEPTHS))
    highest = max(summed("(read|write)_iops", depth) for depth in DEPTHS)
    assert row["edge_rate"] == pytest.approx(highest)
