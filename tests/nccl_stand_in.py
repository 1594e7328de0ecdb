"""Stands in for all_reduce_perf of nccl-tests: prints the recorded run, and with -J writes its JSON
file, by the form of NVIDIA/nccl-tests@a0b82b2 src/common.cu and src/util.cu. An option that this
build does not have is refused as there: usage, nothing measured, status 0.
"""

from __future__ import annotations

import getopt
import json
import os
import re
import sys
from pathlib import Path

OPTIONS = "b:e:f:g:n:w:c:h"
TEXT = Path(__file__).parent / "data" / "nccl" / "nvlink.txt"
ROW = re.compile(r"^ +(\d+) +(\d+) +float +sum +-1 ", re.MULTILINE)


def usage(option: str, *, has_json: bool) -> None:
    if option != "h":
        print(f"invalid option '{option}'")
    more = "[-J,--output_file <file write output to filepath, if accessible.] \n\t" * has_json
    print(
        f"USAGE: all_reduce_perf \n\t[-g,--ngpus <gpus per thread>] \n\t{more}[-h,--help]",
        flush=True,
    )


def body(size: int, side: int) -> str:
    """The figures from which the row of the recording was rounded."""
    time = (21.37 + size / 3.1e5) * (1 + 0.003 * side)
    rate = size / time / 1e3
    return f'{{"time":{time:f},"alg_bw":{rate:f},"bus_bw":{rate:f},"nwrong":0.000000}}'


def report(text: str, argv: list[str]) -> str:
    rows = [(int(row[1]), int(row[2])) for row in ROW.finditer(text)]
    results = ",".join(
        f'{{"size":{size},"count":{count},"type":"float","redop":"sum","root":"    -1",'
        f'"out_of_place":{body(size, 0)},"in_place":{body(size, 1)},"actual_iterations":20,'
        f'"experiment_name":""}}'
        for size, count in rows
    )
    device = {"rank": 0, "group": 0, "pid": 4000, "hostname": "gpu-1", "device": 0}
    config = {"nthreads": 1, "ngpus": 2, "minimum_bytes": rows[0][0], "maximum_bytes": rows[-1][0]}
    config.update(step_factor=2, warmup_iters=1, iterations=20, aggregated_iterations=1)
    config.update(validation=1, graph=0, per_iter_skip=0)
    devices = [{**device, "device_hex": "0001:00:00", "device_info": "NVIDIA A100-SXM4-40GB"}]
    variables = [f"{name}={value}" for name, value in os.environ.items()]
    head = {"version": 3, "start_time": "2026-11-21 10:11:12", "args": argv, "env": variables}
    head.update(nccl_version=23004, config={**config, "devices": devices})
    average = re.search(r"Avg bus bandwidth +: ([\d.]+)", text)
    assert average
    return (
        f'{json.dumps(head, separators=(",", ":"))[:-1]},"results":[{results}],'
        f'"out_of_bounds":{{"count":0,"okay":"true"}},"average_bus_bandwidth":{{"bandwidth":'
        f'{average[1]},"okay":"unchecked"}},"errors":[],"end_time":"2026-11-21 10:11:13"}}'
    )


def main(argv: list[str], *, has_json: bool) -> None:
    try:
        options = dict(getopt.getopt(argv[1:], OPTIONS + "J:" * has_json)[0])
    except getopt.GetoptError as error:
        usage(error.opt, has_json=has_json)
        return
    if "-h" in options:
        usage("h", has_json=has_json)
        return
    text = TEXT.read_text()
    if "-J" in options:
        with open(options["-J"], "x") as stream:
            stream.write(report(text, argv))
    print(text, flush=True)


if __name__ == "__main__":
    main(sys.argv, has_json=True)
