"""Tunings that the driver of Devito keeps: one of the same key is used, a damaged or foreign one is
not."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import helpers
import pytest
from helpers import parametrized

driver: Any = helpers.program("roles/devito/files/devito_driver.py")
KEY = {"cpu": "EPYC", "devito": "4.8.23", "shape": "256x256x256", "cpus": ["0-3", "4-7"]}
FOUND = [{"x0_blk0_size": 8, "y0_blk0_size": 16}, {"x0_blk0_size": 16, "y0_blk0_size": 16}]


@pytest.fixture(name="tunings")
def _tunings(tmp_path: Path) -> Any:
    return driver.Tunings(str(tmp_path / "tunings"), KEY)


def test_what_was_kept_is_read_by_the_same_key_alone(tunings: Any, tmp_path: Path) -> None:
    assert tunings.read() is None
    kept = tunings.keep(FOUND)
    assert tunings.read() == kept
    assert (kept["tuned"], kept["found_at"][-1]) == (FOUND, "Z")
    others = [{**KEY, name: f"another {name}"} for name in ("cpu", "devito", "shape")]
    others.append({**KEY, "cpus": ["0-3", "5-8"]})
    assert [driver.Tunings(str(tmp_path / "tunings"), key).read() for key in others] == [None] * 4
    # The later one takes the place of the earlier, and nothing else is left.
    assert tunings.keep(FOUND[::-1])["tuned"] == tunings.read()["tuned"] == FOUND[::-1]
    assert [path.name for path in (tmp_path / "tunings").iterdir()] == [Path(tunings.path).name]


def refused(tunings: Any) -> str:
    with pytest.raises(driver.UnusableTuning) as caught:
        tunings.read()
    return str(caught.value)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[:-9],
        lambda text: "[]",
        lambda text: "[" * 100_000,
        lambda text: text.replace('"x0_blk0_size": 8', '"x0_blk0_size": 9'),
        lambda text: text.replace("4.8.23", "4.8.24"),
        lambda text: json.dumps({**json.loads(text), "found_at": 5}),
    ],
)
def test_a_damaged_one_is_not_used(tunings: Any, damage: Any) -> None:
    tunings.keep(FOUND)
    path = Path(tunings.path)
    path.write_text(damage(path.read_text()))
    assert refused(tunings) == "it is damaged"
    # The next search takes its place.
    tunings.keep(FOUND)
    assert tunings.read()["tuned"] == FOUND


@parametrized("shape")
def test_what_is_no_block_shape_is_not_used(tunings: Any, shape: Any) -> None:
    tunings.keep([shape, shape])
    assert refused(tunings) == "it is damaged"


def test_one_of_another_number_of_ranks_is_not_used(tunings: Any) -> None:
    tunings.keep(FOUND[:1])
    assert refused(tunings) == "it is damaged"


def test_what_another_user_could_have_written_is_not_used(
    tunings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tunings.keep(FOUND)
    for mode in (0o664, 0o646):
        os.chmod(tunings.path, mode)
        assert refused(tunings) == "another user may have written it"
    os.chmod(tunings.path, 0o644)
    assert tunings.read()["tuned"] == FOUND
    # A file of root is read by all; one of this user by nobody else, root neither.
    owner = os.stat(tunings.path).st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    if owner:
        assert refused(tunings) == "another user may have written it"
    else:
        assert tunings.read()["tuned"] == FOUND
    state = list(os.stat(tunings.path))
    state[4] = owner + 2
    monkeypatch.setattr(os, "fstat", lambda _: os.stat_result(state))
    assert refused(tunings) == "another user may have written it"


def test_a_link_a_folder_and_a_pipe_are_not_read(tunings: Any, tmp_path: Path) -> None:
    tunings.keep(FOUND)
    path = Path(tunings.path)
    kept = path.rename(tmp_path / "elsewhere")
    path.symlink_to(kept)
    assert refused(tunings) == "Too many levels of symbolic links"
    path.unlink()
    os.mkfifo(path)
    assert refused(tunings) == "it is no file of ours"
    path.unlink()
    path.mkdir()
    assert refused(tunings) == "it is no file of ours"


class Ranks(SimpleNamespace):
    """Of one process, which plays several: gathers what it is told to."""

    first = True
    several = True
    number = 1

    def gather(self, value: Any) -> list[Any]:
        return [value, value]

    def share(self, value: Any) -> Any:
        return value


def test_what_is_said_of_a_tuning(tunings: Any, tmp_path: Path) -> None:
    ranks = Ranks()
    assert driver.known_tuning(tunings, ranks) == (None, {})
    said = driver.keep_tuning(tunings, ranks, FOUND[0])
    assert (said["reused"], list(said)) == (False, ["reused", "found_at"])
    kept, again = driver.known_tuning(tunings, ranks)
    assert kept["tuned"] == [FOUND[0]] * 2
    assert again == {"reused": True, "found_at": said["found_at"]}
    Path(tunings.path).write_text("{}")
    why = f"{tunings.path} is not used: it is damaged"
    assert driver.known_tuning(tunings, ranks) == (None, {"ignored": why})
    # What Devito has not found as a block shape, such as a number of threads, is not kept.
    assert driver.keep_tuning(tunings, ranks, {"nthreads": 2}) == {}
    (tmp_path / "file").touch()
    nowhere = driver.Tunings(str(tmp_path / "file" / "tunings"), KEY)
    assert driver.keep_tuning(nowhere, ranks, FOUND[0]) == {
        "reused": False,
        "ignored": f"{nowhere.path} is not written: Not a directory",
    }


def test_the_key_has_machine_versions_problem_and_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setenv("DEVITO_MPI", "basic")
    usual = {"model": "acoustic", "shape": "8x8x8", "space_order": 4, "tn": 50.0, "nbl": 10}
    arguments = {**usual, "autotune": "basic", "tunings": str(tmp_path)}
    versions = {"devito": "4.8.23", "compiler": "GNUCompiler 12.2.0", "mpi": None}

    def path(**changes: Any) -> str:
        given = argparse.Namespace(**{**arguments, **changes})
        return str(driver.tunings_of(given, Ranks(), versions).path)

    places = {path(), path(shape="8x8x9"), path(autotune="max"), path(space_order=8)}
    monkeypatch.setenv("DEVITO_MPI", "full")
    places.add(path())
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    places.add(path())
    versions["compiler"] = "GNUCompiler 13.2.0"
    places.add(path())
    monkeypatch.setattr(driver, "machine", lambda: {"cpu": "another"})
    places.add(path())
    assert len(places) == 8
    assert driver.tunings_of(argparse.Namespace(tunings=None), Ranks(), versions) is None


def test_this_machine_has_a_cpu_and_cores() -> None:
    found = driver.machine()
    assert set(found["cpu"]) <= {*driver.CPU_FIELDS}
    assert found["cpu"] != {}
    assert found["cores"] == os.cpu_count()


@pytest.mark.parametrize("known", [None, FOUND[1]])
def test_the_operator_is_tuned_once_or_not_at_all(known: dict[str, int] | None) -> None:
    applied = SimpleNamespace(_state={"autotuning": [{"tuned": {**FOUND[0], "nthreads": 4}}]})
    solver = SimpleNamespace(op_fwd=lambda _: applied)
    configuration = {"autotuning": ["aggressive", "preemptive"]}
    calls: list[tuple[Any, Any]] = []

    def run_op(*_: Any, **options: Any) -> tuple[str]:
        calls.append((options, configuration["autotuning"]))
        return ("summary",)

    repeater = driver.Repeater(run_op, configuration, Ranks(), 3, known)
    repeater._measure = lambda *_: None
    repeater(solver, "forward", autotune="aggressive")
    tuned = known or FOUND[0]
    first = ({"autotune": "aggressive"}, ["aggressive", "preemptive"])
    assert calls == [(tuned, "off") if known else first, (tuned, "off"), (tuned, "off")]
    assert repeater.tuned == tuned
