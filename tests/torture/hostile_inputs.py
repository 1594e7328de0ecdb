"""What ``torture.hostile`` puts beside a good record, by name."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forged import forge
from helpers import a_record

RUN_ID = "20261120T091300Z-7c1e"
GOOD = "good.json"
BAD = "bad.json"
Make = Callable[[Path], None]

# Each in one string, so that whoever shows it is seen.
PAYLOADS = {
    "terminal": "a\x1b]0;x\x07\x1b[31m\x9b2J\rb\x08",
    "bidi": "a\u202eb\u2066c\u200fd\u2028e\u00ade\ufefff",
    "markup": "</td></text><script>alert(1)</script><img src=x onerror=alert(2)><b>",
    "formula": "=HYPERLINK(1)",
    "formula after a tab": "\t=1+1",
    "formula with a sign": "+1|cmd",
    "path": "../../secret.txt",
    "NUL": "a\0b",
    "megabyte": "x" * 2**20,
    "megabyte of words": "x y" * 2**18,
    "surrogate": "\ud800",
    "braces": "{{ 1 + 1 }}{% raw %}${HOME}`id`$(id)",
    "percent": "%s%n{0}{x.__class__}",
    "lines": "a\nb\r\nc\n\n| d | e |\n# f",
}


@dataclass(frozen=True)
class Item:
    """One hostile thing.

    Attributes:
        make: puts it into the run's folder.
        kind: ``records`` (a source of records), ``file`` (a tool's output or a user's file) or
            ``catalog`` (a folder of prices).
        named: what the message on it has in it.
        taken: whether it is read as what it says it is.
        changes: whether other figures may change with it (a manifest, another record).
        source: below the results, what the command is given instead of them.
        beside: whether the results are given too.
        refuses: whether the command must end in one sentence.
        verify: whether ``list --verify`` looks at it.
        nobody: read as the user nobody.
        strace: faults that strace puts into the command's calls.
    """

    name: str
    make: Make
    kind: str = "records"
    named: tuple[str, ...] = ()
    taken: bool = False
    changes: bool = False
    source: str | None = None
    beside: bool = False
    refuses: bool = False
    verify: bool = False
    nobody: bool = False
    strace: Sequence[str] = ()


def good_record(**changes: Any) -> dict[str, Any]:
    """A whole record, with some fields replaced."""

    def figure(name: str, value: float, unit: str, direction: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "value": value, "unit": unit, "direction": direction, **more}

    parameters = {"model": "acoustic", "shape": "256x256x256", "points": 256**3, "space_order": 8}
    made = {
        "run_id": RUN_ID,
        "case": "acoustic-good",
        "nodes": ["made-1"],
        "vm_size": "Standard_HB120rs_v3",
        "region": "eastus",
        "offer": "payg",
        "threads_per_rank": 1,
        "parameters": {**parameters, "tn_ms": 200, "layout": "1x1", "scaling": "strong"},
        "environment": {"OMP_NUM_THREADS": "1"},
        "duration_seconds": 40.0,
        "metrics": [
            figure("run_time", 10.0, "s", "lower", statistic="median", n=3),
            figure("flop_rate", 4e11, "flop/s", "higher", statistic="median", n=3),
        ],
    }
    return a_record(**{**made, **changes})


def _bad(**changes: Any) -> dict[str, Any]:
    return good_record(**{"case": "bad-one", "duration_seconds": 41.0, **changes})


def _content(content: bytes, name: str = BAD) -> Make:
    return lambda run: _write(run / name, content)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _json(value: Any) -> bytes:
    # With lone surrogates as escapes.
    return json.dumps(value).encode()


def items(seed: int) -> list[Item]:
    """All of them; where chance decides, by the seed."""
    return [
        *_unreadable_records(),
        *_wrong_types(),
        *_hostile_texts(),
        *_folders(),
        *_raw_outputs(),
        *_manifests(),
        *_packed(seed),
        *_caches(),
        *_sources(),
        *_files(),
        *_catalogs(),
    ]


def _unreadable_records() -> Iterator[Item]:
    whole = _json(_bad())
    inside = whole[:-1]
    deep = b"[" * 100_000 + b"]" * 100_000
    table = {
        "empty": b"",
        "half of it": whole[: len(whole) // 2],
        "its last byte lost": inside,
        "UTF-16": whole.decode().encode("utf-16"),
        "UTF-8 with a byte order mark": b"\xef\xbb\xbf" + whole,
        "gzip": gzip.compress(whole),
        "zeros": bytes(5000),
        "no UTF-8": whole.replace(b"made-1", b"made-\xff"),
        "text": b"nothing to see",
        "a number": b"7",
        "a number of a million digits": b"1" * 10**6,
        "deep lists": deep,
        "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        "a deep parameter": inside + b',"x":' + deep + b"}",
        "a name twice": inside + b',"outcome":"ok"}',
        "a parameter twice": whole.replace(b'"space_order":', b'"shape": "1", "space_order":'),
        "NaN": whole.replace(b"10.0", b"NaN"),
        "Infinity": whole.replace(b"10.0", b"Infinity"),
        "1e999": whole.replace(b"10.0", b"1e999"),
        "a negative time": whole.replace(b"10.0", b"-10.0"),
        "a time of zero": whole.replace(b"10.0", b"0.0"),
        "a count of 4,300 digits": whole.replace(b'"gpus": 0', b'"gpus": ' + b"9" * 4300),
        "a count of 5,000 digits": whole.replace(b'"gpus": 0', b'"gpus": ' + b"9" * 5000),
        "ranks of 2**31": whole.replace(b'"ranks": 1', b'"ranks": 2147483648'),
        "no ranks": whole.replace(b'"ranks": 1', b'"ranks": 0'),
        "negative ranks": whole.replace(b'"ranks": 1', b'"ranks": -1'),
        "a time in ms": whole.replace(b'"unit": "s"', b'"unit": "ms"'),
        "a rate in GFLOP/s": whole.replace(b"flop/s", b"GFLOP/s"),
        "two objects": whole + whole,
        "bytes after it": whole + b"\0\0\0",
        "a list of it": b"[" + whole + b"]",
        "schema of the future": whole.replace(b"record/1", b"record/2"),
        "schema of another": whole.replace(b"trueup.record/1", b"other/1"),
        "a field too many": inside + b',"extra":1}',
        "60 MiB of blanks": b" " * (60 * 2**20) + whole[:-1],
        "a million numbers": inside + b',"x":[' + b"0," * 10**6 + b"0]}",
        "a million names": inside
        + b"".join(b',"n%d":1' % number for number in range(10**6))
        + b"}",
        "a day that is none": whole.replace(b"2026-11-20T", b"2026-02-30T"),
        "more nodes than it names": whole.replace(b'"node_count": 1', b'"node_count": 2'),
        "median below the least": _json(
            _bad(
                metrics=[
                    {**row, "statistic": word}
                    for row in good_record()["metrics"][:1]
                    for word in ("median",)
                ]
                + [{**good_record()["metrics"][0], "statistic": "min", "value": 11.0}]
            )
        ),
    }
    for name, content in table.items():
        yield Item(name, _content(content), named=(BAD,))
    for field_ in good_record():
        lacking = {key: value for key, value in _bad().items() if key != field_}
        # Without a schema a file is nobody's.
        yield Item(f"without {field_}", _content(_json(lacking)), named=(BAD,))
    yield Item(
        "200,000 figures",
        _content(
            _json(
                _bad(
                    metrics=[
                        {**good_record()["metrics"][1], "device": f"gpu{number}"}
                        for number in range(200_000)
                    ]
                )
            )
        ),
        taken=True,
        changes=True,
    )
    yield Item(
        "20,000 nodes",
        _content(_json(_bad(nodes=[f"n{n}" for n in range(20_000)], node_count=20_000))),
        taken=True,
        changes=True,
    )


def _wrong_types() -> Iterator[Item]:
    """A file for each field and each type that it is not."""
    others: list[Any] = [None, True, -1, 1.5, "text", [], ["text"], {}, {"a": 1}]
    right: dict[str, list[Any]] = {
        "reason": [None],
        "vm_size": [None, "text"],
        "region": [None, "text"],
        "offer": [None, "text"],
        "nodes": [["text"]],
        "parameters": [{}, {"a": 1}],
        "system": [{}, {"a": 1}],
        "environment": [{}],
        "software": [{}],
        "command": [[], ["text"]],
        "duration_seconds": [1.5],
        "benchmark": ["text"],
        "case": ["text"],
        "raw": [None],
    }

    def make(run: Path) -> None:
        for number, (field_, value) in enumerate(wrong):
            (run / f"bad-{number:03d}.json").write_bytes(_json(_bad(**{field_: value})))

    wrong = [
        (field_, value)
        for field_ in good_record()
        for value in others
        # JSON's True is no 1.
        if not any(value == one and type(value) is type(one) for one in right.get(field_, []))
    ]
    yield Item(f"{len(wrong)} fields of wrong types", make, named=("bad-000.json",))


def _hostile_texts() -> Iterator[Item]:
    """Each text in each place that takes one; most places that name something refuse most."""
    places: dict[str, Callable[[str], dict[str, Any]]] = {
        "nodes": lambda text: {"nodes": [text]},
        "vm_size": lambda text: {"vm_size": text},
        "region": lambda text: {"region": text},
        "offer": lambda text: {"offer": text},
        "reason": lambda text: {"outcome": "failed", "reason": text, "metrics": []},
        "parameters": lambda text: {"parameters": {text: text, "layout": text, "model": text}},
        "command": lambda text: {"command": [text]},
        "environment": lambda text: {"environment": {text: text}},
        "software": lambda text: {"software": {text: text, "devito": text}},
        "system": lambda text: {"system": {text: text, "cpu_model": text, "image": text}},
        "run_id": lambda text: {"run_id": text},
        "benchmark": lambda text: {"benchmark": text},
        "case": lambda text: {"case": text},
        "started_at": lambda text: {"started_at": text},
        "unit": lambda text: {"metrics": [{**good_record()["metrics"][0], "unit": text}]},
        "metric": lambda text: {"metrics": [{**good_record()["metrics"][0], "name": text}]},
        "device": lambda text: {"metrics": [{**good_record()["metrics"][0], "device": text}]},
        "statistic": lambda text: {"metrics": [{**good_record()["metrics"][0], "statistic": text}]},
        "raw.path": lambda text: {"raw": {"path": text, "sha256": "0" * 64}},
    }
    large = {"megabyte", "megabyte of words"}

    def put(place: str, names: Sequence[str]) -> Make:
        def make(run: Path) -> None:
            for number, name in enumerate(names):
                record = _bad(case=f"bad-{number}", duration_seconds=50.0 + number)
                record.update(places[place](PAYLOADS[name]))
                (run / f"bad-{number}.json").write_bytes(_json(record))

        return make

    short = [name for name in PAYLOADS if name not in large]
    for place in places:
        yield Item(
            f"{len(short)} hostile texts as {place}", put(place, short), taken=True, changes=True
        )
        yield Item(
            f"texts of a megabyte as {place}", put(place, sorted(large)), taken=True, changes=True
        )
    for title, outcome in (("failed", "failed"), ("invalid", "invalid")):
        yield Item(
            f"hostile texts in {title} records of other benchmarks",
            lambda run, outcome=outcome: (
                [
                    (run / f"bad-{number}.json").write_bytes(
                        _json(
                            _bad(
                                benchmark=("nccl", "vllm", "made_up")[number % 3],
                                case=f"bad-{number}",
                                outcome=outcome,
                                reason=text,
                                nodes=[text],
                                vm_size=text,
                                duration_seconds=60.0 + number,
                            )
                        )
                    )
                    for number, text in enumerate(PAYLOADS[name] for name in short)
                ]
                and None
            ),
            taken=True,
            changes=True,
        )


def _folders() -> Iterator[Item]:  # noqa: C901 WHY: a row each, not a decision
    def link(target: str, name: str = BAD) -> Make:
        return lambda run: (run / name).symlink_to(target)

    def two_links(run: Path) -> None:
        (run / BAD).symlink_to("other.json")
        (run / "other.json").symlink_to(BAD)

    def pipe(run: Path) -> None:
        os.mkfifo(run / BAD)

    def listening(run: Path) -> None:
        before = Path.cwd()
        with socket.socket(socket.AF_UNIX) as one:
            # Its name may have 108 bytes.
            os.chdir(run)
            one.bind(BAD)
            os.chdir(before)

    def sparse(run: Path) -> None:
        with (run / BAD).open("wb") as stream:
            stream.truncate(20 * 2**30)

    def unreadable(run: Path) -> None:
        (run / BAD).write_bytes(_json(_bad()))
        (run / BAD).chmod(0)

    def unlisted(run: Path) -> None:
        other = run.with_name("20261120T091300Z-0000")
        other.mkdir()
        (other / BAD).write_bytes(_json(_bad()))
        other.chmod(0)

    def unsearchable(run: Path) -> None:
        other = run.with_name("unsearchable")
        other.mkdir()
        (other / "below").mkdir()
        other.chmod(0o444)

    def named(name: bytes) -> Make:
        def make(run: Path) -> None:
            path = os.path.join(os.fsencode(run), name)
            with open(path, "wb") as stream:
                stream.write(b"{")

        return make

    def again(run: Path) -> None:
        (run / "again.json").write_bytes(_json(good_record()))

    def hard(run: Path) -> None:
        (run / "again.json").hardlink_to(run / GOOD)

    def many(run: Path) -> None:
        for number in range(5000):
            (run / f"bad-{number:05d}.json").write_bytes(b"{")

    def deep(run: Path) -> None:
        # As deep as a path of Linux may be (PATH_MAX: 4,096 bytes), with room for a record's name.
        while len(str(run)) + 2 * len(RUN_ID) < 4000:
            run = run / RUN_ID
            run.mkdir()

    yield Item("a link to itself", link(BAD), named=(BAD,))
    yield Item("two links to each other", two_links, named=(BAD, "other.json"))
    yield Item("a link to nothing", link("nowhere"), named=(BAD,))
    yield Item("a link to its own run", link(".", RUN_ID[:-1] + "f"))
    yield Item("a link to the folder above", link("..", RUN_ID[:-1] + "f"))
    yield Item("a link to /", link("/", RUN_ID[:-1] + "f"))
    yield Item("a link to /dev/zero", link("/dev/zero"), named=(BAD,))
    yield Item("a link to /dev/full", link("/dev/full"), named=(BAD,))
    yield Item("a link to /proc/self/mem", link("/proc/self/mem"), named=(BAD,))
    yield Item("a link to /dev/stdin", link("/dev/stdin"), named=(BAD,))
    yield Item("a link out of the results", link("../../secret.txt"), named=(BAD,))
    yield Item("a pipe", pipe, named=(BAD,))
    yield Item("a socket", listening, named=(BAD,))
    yield Item("a folder named as a record", lambda run: (run / BAD).mkdir())
    yield Item("20 GiB of nothing", sparse, named=(BAD,))
    yield Item("a file that may not be read", unreadable, named=(BAD,), nobody=True)
    yield Item(
        "a run that may not be listed", unlisted, named=("20261120T091300Z-0000",), nobody=True
    )
    yield Item(
        "a folder that may not be searched", unsearchable, named=("unsearchable",), nobody=True
    )
    yield Item("the same case twice", again, changes=True)
    yield Item("the same file under two names", hard, changes=True)
    yield Item("5,000 bad files", many, named=("bad-00000.json",))
    yield Item("runs 200 deep", deep)
    for title, name in (
        ("a name that is no UTF-8", b"bad\xff.json"),
        ("a name that a terminal obeys", b"bad\x1b]0;x\x07\x1b[2J.json"),
        ("a name of two lines", b"bad\nrm -rf.json"),
        ("a name with bidirectional controls", "bad\u202egnp.json".encode()),
        ("a name of markup", b"bad<script>alert(1)<b>.json"),
        ("a formula for a name", b"=bad+1.json"),
        ("a name of 255 bytes", b"bad" + b"x" * 247 + b".json"),
    ):
        yield Item(title, named(name), named=("bad",))
    where = f"/results/{RUN_ID}/{BAD}"
    for call, error in (
        ("openat", "ESTALE"),
        ("openat", "EIO"),
        ("openat", "EMFILE"),
        ("read", "EIO"),
        ("read", "ESTALE"),
        ("newfstatat,fstat,statx", "ESTALE"),
    ):
        yield Item(
            f"{error} of {call}",
            # A link, so that the folder's entry alone does not say what it is.
            lambda run: _content(_json(_bad()), "there")(run) or (run / BAD).symlink_to("there"),
            named=(BAD,) if call != "read" else ("bad.json",),
            strace=(
                "-P",
                where,
                "-P",
                where.replace(BAD, "there"),
                "-e",
                f"inject={call}:error={error}",
            ),
        )


def _raw_outputs() -> Iterator[Item]:
    def raw(path: str, **more: Any) -> Callable[[Path], None]:
        def make(run: Path) -> None:
            digest = hashlib.sha256(b"canary-outside-the-results\n").hexdigest()
            record = _bad(raw={"path": path, "sha256": more.get("sha256", digest)})
            (run / BAD).write_bytes(_json(record))

        return make

    def linked(run: Path) -> None:
        raw("raw.txt")(run)
        (run / "raw.txt").symlink_to("../../secret.txt")

    def piped(run: Path) -> None:
        raw("raw.txt")(run)
        os.mkfifo(run / "raw.txt")

    def folder(run: Path) -> None:
        raw("raw.txt")(run)
        (run / "raw.txt").mkdir()

    def other(run: Path) -> None:
        raw("raw.txt")(run)
        (run / "raw.txt").write_text("changed")

    for path in ("../../secret.txt", "/etc/passwd", "a\0b", "..", ".", "", "a/b", "./raw.txt"):
        yield Item(f"a raw output at {path!r}", raw(path), named=(BAD,))
    for title, make in (
        ("a raw output that is a link out of the results", linked),
        ("a raw output that is a pipe", piped),
        ("a raw output that is a folder", folder),
        ("a raw output that was changed", other),
        ("a raw output that is gone", raw("raw.txt")),
        ("a raw output with a name of a megabyte", raw("x" * 2**20)),
    ):
        yield Item(title, make, taken=True, changes=True, verify=True)


def _manifests() -> Iterator[Item]:
    def manifest(**changes: Any) -> Make:
        found = {
            "schema": "trueup.run/1",
            "run_id": RUN_ID,
            "count": 1,
            "playbook": "site.yml",
            "started_at": "2026-11-20T09:12:00Z",
            "finished_at": "2026-11-20T09:14:00Z",
            "expected": ["made-1"],
            "hosts": {"made-1": {"failed": 0, "unreachable": 0}},
            "failed_in": {},
            "skipped": [],
            "chosen": {},
            "warnings": [],
            **changes,
        }
        return _content(_json(found), "run.json")

    wrong: dict[str, list[Any]] = {
        "count": ["x", 1.5, None, [1]],
        "expected": ["x", [1], {"a": 1}],
        "hosts": [["x"], {"a": "b"}, {"a": {"failed": "x"}}],
        "failed_in": ["x", {"a": 1}],
        "skipped": ["x", ["x"], [{"node": 1}]],
        "warnings": ["x", [1]],
        "run_id": [None, 7, ["x"]],
        "started_at": [7, {}],
        "schema": ["trueup.run/2", None],
    }
    for name, values in wrong.items():
        for value in values:
            yield Item(
                f"run.json whose {name} is {value!r}",
                manifest(**{name: value}),
                named=("run.json",),
            )
    for title, content in (
        ("empty", b""),
        ("deep", b"[" * 100_000),
        ("a number", b"7"),
        ("NaN", b'{"schema": "trueup.run/1", "count": NaN}'),
        ("of 5,000 digits", b'{"schema": "trueup.run/1", "count": ' + b"9" * 5000 + b"}"),
    ):
        yield Item(f"run.json that is {title}", _content(content, "run.json"), named=("run.json",))
    odd: dict[str, Any] = {
        "count": 10**30,
        "started_at": "not a time",
        "finished_at": "9999-99-99",
        "expected": ["", "made-1", "made-1"],
        "skipped": [{}, {"what": "x"}, {"reason": "y"}],
        "chosen": {"nccl": 7},
        "hosts": {"": {}, "made-1": {}},
        "failed_in": {"nobody": "x"},
    }
    for name, value in odd.items():
        yield Item(
            f"run.json with an odd {name}", manifest(**{name: value}), taken=True, changes=True
        )
    for name, text in PAYLOADS.items():
        yield Item(
            f"run.json full of: {name}",
            manifest(
                expected=["made-1", text],
                hosts={text: {"failed": 1, "unreachable": 1}},
                failed_in={text: text, "made-1": text},
                skipped=[{"node": text, "what": text, "reason": text, "benchmark": text}],
                warnings=[text],
                playbook=text,
                chosen={text: text, "nccl": {"made-1": text}},
            ),
            taken=True,
            changes=True,
        )


def _packed(seed: int) -> Iterator[Item]:  # noqa: C901 WHY: a row each, not a decision
    def pack(change: Callable[[Any, dict[str, Any]], tuple[Any, Any]], **options: Any) -> Make:
        def make(run: Path) -> None:
            from trueup_analysis.load import load
            from trueup_analysis.load import pack as pack_

            path = run / "x.parquet"
            pid = os.fork()
            if pid == 0:
                # Arrow's threads would not live on in what is forked from this process.
                try:
                    (run / "other.json").write_bytes(_json(_bad()))
                    pack_(load([run / "other.json"]), path)
                    forge(path, lambda figures, *rest: (figures, *change(*rest)), **options)
                    (run / "other.json").unlink()
                    os._exit(0)
                finally:
                    os._exit(1)
            if os.waitpid(pid, 0)[1]:
                raise RuntimeError("the packed file could not be made")

        return make

    def item(title: str, make: Make, **more: Any) -> Item:
        return Item(
            f"a packed file {title}",
            make,
            source=f"{RUN_ID}/x.parquet",
            **{"refuses": True, **more},
        )

    def column(name: str, value: Any) -> Make:
        def change(table: Any, rest: Any) -> tuple[Any, Any]:
            import pyarrow as pa

            place = table.schema.get_field_index(name)
            kind = table.schema.field(name).type
            kind = kind.value_type if pa.types.is_dictionary(kind) else kind
            return table.set_column(place, name, pa.array([value], type=kind)), rest

        return pack(change)

    def bomb(table: Any, rest: Any) -> tuple[Any, Any]:
        import pyarrow as pa

        # Equal values take no place in the file, and 24 x 256 MiB in memory.
        part = pa.array(["x" * 2**20] * 256)
        many = pa.concat_tables([table] * (24 * 256))
        place = many.schema.get_field_index("reason")
        return many.set_column(place, "reason", pa.chunked_array([part] * 24)), rest

    def cut(share: float) -> Make:
        whole = pack(lambda table, rest: (table, rest))

        def make(run: Path) -> None:
            whole(run)
            content = (run / "x.parquet").read_bytes()
            (run / "x.parquet").write_bytes(content[: int(len(content) * share)])

        return make

    def flipped(run: Path) -> None:
        pack(lambda table, rest: (table, rest))(run)
        content = bytearray((run / "x.parquet").read_bytes())
        chance = random.Random(seed)
        for _ in range(8):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        (run / "x.parquet").write_bytes(bytes(content))

    for share in (0.0, 0.001, 0.3, 0.9, 0.999):
        yield item(f"cut to {share:g} of it", cut(share))
    # May hit what is not read; a checksum would be another format.
    yield item("with 8 bits flipped", flipped)
    yield item("that is JSON", _content(_json(_bad()), "x.parquet"))
    yield item("of zeros", _content(bytes(5000), "x.parquet"))
    yield item("without a column", pack(lambda table, rest: (table.drop_columns(["ranks"]), rest)))
    yield item("of 6 GiB when it is unpacked", pack(bomb))
    yield item("of 6 GiB, a text named 6,144 times", pack(bomb, dictionary_pagesize_limit=2**24))
    for name, value in {
        "excluded": [7, "x", [1], [["a"]], [["a", "b", "c"]], [[1, 2]], {"a": 1}, [None]],
        "runs": [7, "x", ["x"], [[]], [{"run_id": 7, "count": "x"}], {"a": 1}, [None]],
        "notes": [7, "x", [7], {"a": 1}, [None]],
    }.items():
        for one in value:
            yield item(
                f"whose {name} is {one!r}",
                pack(lambda table, rest, name=name, one=one: (table, {**rest, name: one})),
            )
        yield item(
            f"without {name}",
            pack(
                lambda table, rest, name=name: (
                    table,
                    {key: value for key, value in rest.items() if key != name},
                )
            ),
        )
    for title, noted in (
        ("[]", b"[]"),
        ("7", b"7"),
        ("null", b"null"),
        ("deep", b"[" * 100_000),
        ("of 5,000 digits", b'{"runs": ' + b"9" * 5000 + b"}"),
        ("no UTF-8", b"\xff\xfe"),
    ):
        yield item(
            f"whose metadata is {title}", pack(lambda table, rest, noted=noted: (table, noted))
        )
    for name, one in (
        *(("ranks", 0), ("ranks", -1), ("node_count", -5), ("gpus", -1), ("outcome", "fine")),
        *(("duration_seconds", float("nan")), ("duration_seconds", -1.0), ("parameters", "[]")),
        *(("parameters", "{"), ("command", "{}"), ("system", "[" * 100_000), ("node", None)),
        *(("run_id", None), ("environment", "7"), ("software", '{"a": 7}')),
        *(("started_at", "not a time"), ("started_at", None), ("command", "[7]")),
        *(("benchmark", "\x1b[31m"), ("case", "<script>alert(1)</script>"), ("run_id", "../../x")),
    ):
        yield item(f"whose {name} is {str(one)[:20]!r}", column(name, one))
    yield item(
        "whose raw output is elsewhere",
        column("raw_path", "/etc/passwd"),
        refuses=False,
        taken=True,
        changes=True,
        beside=True,
        verify=True,
    )
    for name, text in PAYLOADS.items():
        if name == "surrogate":
            continue
        yield item(
            f"full of: {name}",
            pack(
                lambda table, rest, text=text: (
                    _with_texts(table, text),
                    {
                        "excluded": [[text, text]],
                        "runs": [{"schema": "trueup.run/1", "run_id": text, "expected": [text]}],
                        "notes": [text],
                    },
                )
            ),
            refuses=False,
            taken=True,
            changes=True,
            beside=True,
        )


def _with_texts(table: Any, text: str) -> Any:
    import pyarrow as pa

    for name in ("reason", "vm_size", "region", "offer", "source", "node"):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pa.array([text], pa.string()))
    return table


def _caches() -> Iterator[Item]:
    def cache(value: Any, name: str = "host1") -> Make:
        content = value if isinstance(value, bytes) else _json(value)
        return lambda run: _write(run.parent / name, content)

    tagged: Any = _bad()
    for _ in range(200):
        tagged = {"__ansible_type": "_AnsibleTaggedDict", "value": tagged}
    yield Item(
        "a fact that is a record of the future",
        cache({"trueup_devito": _bad(schema="trueup.record/2")}),
        named=("host1",),
    )
    yield Item(
        "a fact that is half a record",
        cache({"trueup_devito": {"schema": "trueup.record/1"}}),
        named=("host1",),
    )
    yield Item("a cache cut off", cache(_json({"trueup_devito": _bad()})[:-9]), named=("host1",))
    yield Item(
        "a cache that is deep",
        cache(b'{"__payload__": "' + b"[" * 100_000 + b'"}'),
        named=("host1",),
    )
    yield Item(
        "a cache with tags 200 deep",
        cache({"__payload__": json.dumps({"trueup_devito": tagged})}),
        changes=True,
        taken=True,
    )
    yield Item("a cache whose payload is text", cache({"__payload__": "x"}), named=("host1",))
    yield Item(
        "a cache with other facts alone", cache({"trueup_devito": 7, "trueup_x": [[]], "y": 1})
    )
    yield Item(
        "a cache of 10,000 half records",
        cache({f"trueup_{n}": {"schema": "trueup.record/1"} for n in range(10_000)}),
        named=("host1",),
    )
    yield Item(
        "a cache with a hostile key",
        cache({"trueup_\x1b[2J\u202e<script>": {"schema": "trueup.record/1"}}),
        named=("host1",),
    )
    yield Item(
        "a cache that is a list of records",
        cache({"trueup_devito": [_bad(), 7, None, {}]}),
        changes=True,
        taken=True,
    )


def _sources() -> Iterator[Item]:
    def nothing(run: Path) -> None:
        (run / "empty").mkdir()

    def pipe(run: Path) -> None:
        os.mkfifo(run / "pipe")
        os.mkfifo(run / "x.parquet")

    def links(run: Path) -> None:
        (run / "zero").symlink_to("/dev/zero")
        (run / "zero.parquet").symlink_to("/dev/zero")
        (run / "zero.csv").symlink_to("/dev/zero")
        (run / "loop").symlink_to("loop")

    def published(run: Path) -> None:
        (run / "x.csv").write_bytes(b"\xff\xfe" * 1000)
        (run / "y.csv").write_text("a,b\n1,2\n")
        (run / "z.csv").write_bytes(b'"' + b"x" * 2**21)

    yield Item("an empty folder", nothing, source=f"{RUN_ID}/empty", refuses=True)
    yield Item("a pipe as the source", pipe, source=f"{RUN_ID}/pipe", refuses=True)
    yield Item("a pipe as a packed file", pipe, source=f"{RUN_ID}/x.parquet", refuses=True)
    for name in ("zero", "zero.parquet", "zero.csv", "loop", "none", "a" * 300, "a/b"):
        yield Item(f"{name[:20]} as the source", links, source=f"{RUN_ID}/{name}", refuses=True)
    for name in ("x.csv", "y.csv", "z.csv"):
        yield Item(
            f"{name} as published results", published, source=f"{RUN_ID}/{name}", refuses=True
        )


def _files() -> Iterator[Item]:
    """As a tool's output, nodes, expectations, masks, parameters and topology."""
    table = {
        "empty": b"",
        "zeros": bytes(10**6),
        "chance": random.Random(1).randbytes(10**6),
        "one line of 20 MB": b"x" * 20_000_000,
        "gzip of 2 GiB": b"",
        "gzip cut off": gzip.compress(b"x" * 10**6)[:-20],
        "deep": b"[" * 100_000,
        "deep YAML": b"- " * 20_000,
        "aliases": b"a: &a [x,x,x,x,x,x,x,x,x]\n"
        + b"".join(
            b"%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n" % (98 + n, 98 + n, *[97 + n] * 9)
            for n in range(9)
        ),
        "a tag of Python's": b"!!python/object/apply:os.system ['touch /tmp/trueup-hostile']\n",
        "entities": b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "'
        + b"x" * 1000
        + b'">'
        + b"".join(
            b'<!ENTITY b%d "%s">' % (n, b"&b%s;" % (b"%d" % (n - 1) if n else b"") * 10)
            for n in range(9)
        )
        + b"]><system>&b8;</system>",
        "an outer entity": b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM'
        b' "file:///etc/passwd">]><system>&b;</system>',
        "a terminal's": PAYLOADS["terminal"].encode() * 1000,
        "markup": PAYLOADS["markup"].encode(),
        "UTF-16": "x: 1\n".encode("utf-16"),
        "no UTF-8": b"x: \xff\n",
        "5,000 digits": b"nodes: " + b"9" * 5000,
        "a day that is none": b"a: 2026-13-45\n",
    }

    def compressed(run: Path) -> None:
        with gzip.open(run / "file.txt", "wb", compresslevel=9) as stream:
            for _ in range(2048):
                stream.write(bytes(2**20))

    for name, content in table.items():
        make = compressed if name == "gzip of 2 GiB" else _content(content, "file.txt")
        # Nodes may be expected of any name, and a file may say nothing.
        yield Item(f"a file: {name}", make, kind="file", named=("file.txt",), taken=True)
    # A pipe that a user names is waited for, as <(...) of a shell needs it.
    yield Item(
        "a file: a folder", lambda run: (run / "file.txt").mkdir(), kind="file", named=("file.txt",)
    )
    yield Item("a file: none", lambda run: None, kind="file", named=("file.txt",))
    yield Item(
        "a file: a link to itself",
        lambda run: (run / "file.txt").symlink_to("file.txt"),
        kind="file",
        named=("file.txt",),
    )
    yield Item(
        "a file: /dev/zero",
        lambda run: (run / "file.txt").symlink_to("/dev/zero"),
        kind="file",
        named=("file.txt",),
    )


def _catalogs() -> Iterator[Item]:
    own = Path(__file__).parents[2] / "catalog"
    names = (
        *("prices.csv", "vm_sizes.csv", "expectations.yml", "reference_results.csv"),
        "topologies.yml",
    )

    def with_(name: str, content: bytes) -> Make:
        def make(run: Path) -> None:
            folder = run / "catalog"
            folder.mkdir()
            for one in own.iterdir():
                if one.is_file():
                    (folder / one.name).symlink_to(one)
            if (folder / name).exists():
                (folder / name).unlink()
            (folder / name).write_bytes(content)

        return make

    for name in names:
        for title, content in (
            ("empty", b""),
            ("zeros", bytes(5000)),
            ("no UTF-8", b"\xff\xfe\xff"),
            ("deep", b"[" * 50_000),
            ("one row too short", (own / name).read_bytes() + b"\nx\n"),
            ("cut", (own / name).read_bytes()[:-37]),
            ("a number of 5,000 digits", b"a: " + b"9" * 5000 + b"\n"),
        ):
            yield Item(
                f"a catalog whose {name} is {title}",
                with_(name, content),
                kind="catalog",
                named=("catalog",),
                taken=True,
            )
