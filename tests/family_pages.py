"""The pages of docs/families, written from the catalog and from docs/families/notes.yml.

``make options`` runs it. Prices, limits and sizes are the catalog's; the notes are written by hand.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER = "docs/families"
NOTES = f"{FOLDER}/notes.yml"
LIMITS = {"at_least": "floor", "at_most": "ceiling", "exactly": "value"}
WORDS = {"at_least": "at least", "at_most": "at most", "exactly": "exactly"}
Rows = list[dict[str, str]]
HEAD = "<!-- `make options` writes this page from the catalog. -->"
INDEX = """\
# VM families

<!-- `make options` writes this page from the catalog. -->

`trueup sizes --gpu H100 --gpus 8 --rdma` searches all sizes; a size that is not listed is measured
with a warning.

| family | sizes | GPUs | InfiniBand | lowest price, US$/h |
| --- | --- | --- | --- | --- |
"""


def pages(root: Path) -> Iterator[tuple[str, str]]:
    """Each page's path and text."""
    catalog = root / "catalog"
    sizes = _rows(catalog / "vm_sizes.csv")
    prices = _lowest(_rows(catalog / "prices.csv"))
    entries = _yaml(catalog / "expectations.yml")["expectations"]
    lists = _yaml(root / "playbooks/group_vars/all.yml")["trueup_families"]
    notes = _yaml(root / NOTES)
    index = []
    for family in _families(lists):
        rows = [row for row in sizes if row["family"] == family]
        index.append(_entry(family, rows, prices))
        blocks = [
            f"# {rows[0]['series']} (`{family}`)\n\n{HEAD}\n",
            _to_do(family, lists, notes.get(family, [])),
            _to_expect(rows, entries),
            _costs(rows, prices),
        ]
        yield f"{FOLDER}/{family}.md", "\n".join(blocks)
    yield f"{FOLDER}/index.md", INDEX + "".join(index)


def _rows(path: Path) -> Rows:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _families(lists: list[dict[str, Any]]) -> list[str]:
    names = [name for entry in lists for name in entry["families"]]
    return [name for name in dict.fromkeys(names) if not name.startswith("unlisted")]


def _lowest(rows: Rows) -> dict[str, dict[str, str]]:
    """The lowest pay-as-you-go price of each size for Linux, by the newest row of each region."""
    newest: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        if (row["os"], row["offer"]) == ("linux", "payg") and row["as_of_date"]:
            key = (row["size"], row["region"])
            if key not in newest or newest[key]["as_of_date"] < row["as_of_date"]:
                newest[key] = row
    lowest: dict[str, dict[str, str]] = {}
    for (size, _), row in sorted(newest.items()):
        if size not in lowest or float(row["usd_per_hour"]) < float(lowest[size]["usd_per_hour"]):
            lowest[size] = row
    return lowest


def _short(size: str) -> str:
    return size.removeprefix("Standard_")


def _entry(family: str, rows: Rows, prices: dict[str, dict[str, str]]) -> str:
    gpus = sorted({row["gpus"] for row in rows if row["gpus"] not in ("", "0")}, key=float)
    models = ", ".join(sorted({row["gpu_model"] for row in rows if row["gpu_model"]}))
    adapters = sorted({(row["rdma_nics"], row["rdma_gbps_per_nic"]) for row in rows})
    rdma = ", ".join(f"{count} x {rate} Gb/s" for count, rate in adapters if count not in ("", "0"))
    known = [float(prices[row["size"]]["usd_per_hour"]) for row in rows if row["size"] in prices]
    price = f"{min(known):g}" if known else "unknown"
    cells = (
        f"[{rows[0]['series']}]({family}.md)",
        ", ".join(_short(row["size"]) for row in rows),
        f"{' or '.join(gpus)} {models}" if gpus else "none",
        rdma or "none",
        price,
    )
    return f"| {' | '.join(cells)} |\n"


def _to_do(family: str, lists: list[dict[str, Any]], notes: list[str]) -> str:
    entries = [entry for entry in lists if family in entry["families"]]
    rows = "".join(
        f"| {entry.get('system', 'linux')} | {_code(entry['roles'])} |"
        f" {_code(entry['benchmarks'])} | {_code(entry.get('presets', []))} |\n"
        for entry in entries
    )
    advice = "".join(f"- {note}\n" for note in notes)
    return (
        "## What to do\n\n"
        "    ansible-playbook -i inventories/mine site.yml --check\n"
        "    ansible-playbook -i inventories/mine site.yml\n"
        f"    trueup presets --family {family}\n\n"
        f"| system | roles, in order | benchmarks | presets |\n| --- | --- | --- | --- |\n{rows}"
        + (f"\n{advice}" if advice else "")
    )


def _code(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def _to_expect(rows: Rows, entries: list[dict[str, Any]]) -> str:
    sizes = [row["size"] for row in rows]
    columns = {
        "size": [_short(size) for size in sizes],
        "vCPUs": [row["vcpus"] for row in rows],
        "memory, GiB": [row["memory_gib"] for row in rows],
        "GPUs": list(map(_gpus, rows)),
        "InfiniBand": list(map(_adapters, rows)),
        "NVMe disks": list(map(_disks, rows)),
        "status": [row["status"] for row in rows],
    }
    # A column that has nothing for any size is left out, and named below the table.
    absent = [name for name, cells in columns.items() if {*cells} == {"none"}]
    shown = {name: cells for name, cells in columns.items() if name not in absent}
    head = f"| {' | '.join(shown)} |\n|{' --- |' * len(shown)}\n"
    parts = "".join(f"| {' | '.join(row)} |\n" for row in zip(*shown.values(), strict=True))
    parts += f"\nNone has {' or '.join(absent)}.\n" if absent else ""
    limits = [
        (entry, value)
        for entry in entries
        for value in entry["values"]
        if {*value["sizes"]} & {*sizes}
    ]
    speeds = [pair for pair in limits if pair[0]["benchmark"] not in ("node_state", "topo")]
    cells = [_limit(entry, value, sizes) for entry, value in speeds]
    table = "".join(f"| {' | '.join(row)} |\n" for row in merged(cells))
    found = (
        "\nA node must meet these limits:\n\n"
        "| figure | limit | message | healthy nodes | sizes |\n| --- | --- | --- | --- | --- |\n"
        f"{table}\nSources: {_sources([entry for entry, _ in speeds])}.\n"
        if table
        else "\nNobody publishes a speed for these sizes: figures have no verdict.\n"
    )
    return f"## What to expect\n\n{head}{parts}{found}"


def _gpus(row: dict[str, str]) -> str:
    if row["gpus"] in ("", "0"):
        return "none"
    count = row["gpu_fraction"] if row["gpu_fraction"] not in ("", "1") else row["gpus"]
    return f"{count} x {row['gpu_model']}"


def _adapters(row: dict[str, str]) -> str:
    count = row["rdma_nics"]
    return f"{count} x {row['rdma_gbps_per_nic']} Gb/s" if count not in ("", "0") else "none"


def _disks(row: dict[str, str]) -> str:
    count = row["nvme_disks"]
    return f"{count} x {row['nvme_gib_each']} GiB" if count not in ("", "0") else "none"


def merged(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Rows whose first cells differ in one word, and the others in nothing, are one row."""
    kept: list[list[list[str]]] = []
    tails: list[tuple[str, ...]] = []
    for first, *tail in rows:
        words = first.split()
        for names, other in zip(kept, tails, strict=True):
            at = [i for i, name in enumerate(names) if name != words[i : i + 1]]
            if other == tuple(tail) and len(names) == len(words) and len(at) == 1:
                names[at[0]].append(words[at[0]])
                break
        else:
            kept.append([[word] for word in words])
            tails.append(tuple(tail))
    return [
        (" ".join(_joined(name) for name in names), *tail)
        for names, tail in zip(kept, tails, strict=True)
    ]


def _joined(words: list[str]) -> str:
    *first, last = words
    return f"{', '.join(word.rstrip(',') for word in first)} and {last}" if first else last


def _sources(entries: list[dict[str, Any]]) -> str:
    """Sources with their dates; of files of one folder the folder once."""
    files: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        folder, _, file = entry["source"].rpartition(" ")
        names = files.setdefault((folder, str(entry["date"])), [])
        if file not in names:
            names.append(file)
    return "; ".join(
        f"{folder} {', '.join(sorted(names))} ({date})"
        for (folder, date), names in sorted(files.items())
    )


def _limit(entry: dict[str, Any], value: dict[str, Any], sizes: list[str]) -> tuple[str, ...]:
    number = value[LIMITS[entry["comparison"]]]
    unit = "" if str(entry["unit"]) == "1" else f" {entry['unit']}"
    healthy = value.get("healthy")
    shown = [_short(size) for size in sizes if size in value["sizes"]]
    return (
        f"{entry['what']} ([{entry['benchmark']}](../benchmarks/{entry['benchmark']}.md))",
        f"{WORDS[entry['comparison']]} {number:,}{unit}",
        _message(value.get("message_bytes", entry.get("message_bytes"))),
        f"{healthy['value']:,}{unit}" if healthy else "",
        "all" if len(shown) == len(sizes) else ", ".join(shown),
    )


def _message(count: int | None) -> str:
    if not count:
        return ""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count % size == 0:
            return f"{count // size} {unit}"
    return f"{count} bytes"


def _costs(rows: Rows, prices: dict[str, dict[str, str]]) -> str:
    sizes: dict[str, list[str]] = {}
    for row in rows:
        price = prices.get(row["size"])
        shown = (
            f"{price['usd_per_hour']} | {price['region']} | {price['as_of_date']}"
            if price
            else "unknown | |"
        )
        sizes.setdefault(shown, []).append(_short(row["size"]))
    lines = "".join(
        f"| {'all' if len(names) == len(rows) else ', '.join(names)} | {shown} |\n"
        for shown, names in sizes.items()
    )
    return (
        "## What it costs\n\nLowest pay-as-you-go price for Linux in the catalog "
        "([prices](../guides/prices.md)):\n\n| size | US$ an hour | region | date |\n"
        f"| --- | --- | --- | --- |\n{lines}"
    )
