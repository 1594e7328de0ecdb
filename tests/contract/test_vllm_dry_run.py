"""A server's unit finds what the server starts, by its own variables alone: every recipe, on every
size that it names, on every replica of Azure's images."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import vllm_dry_run as dry

EACH = [
    (name, size, image)
    for name, recipe in dry.RECIPES.items()
    for size in recipe["sizes"]
    for image in dry.replica.images()
]
STAND_IN = Path(__file__).parents[1] / "data/vllm/flashinfer_stand_in.py"
NINJA = """\
#!/bin/sh
# Stand-in: runs the one command of the file.
exec $(sed -n 's/^ *command = \\([^ ]*\\).*/\\1/p' "$5")
"""


@pytest.mark.parametrize(("name", "size", "image"), EACH)
def test_a_unit_finds_every_program(name: str, size: str, image: str) -> None:
    one = dry.run(name, size, image)
    # Enterprise Linux 8 has an older glibc than the pins' wheels need.
    old = [skip.why for skip in one.made.skipped if "has glibc 2.28" in skip.why]
    assert (one.made.refused, len(one.made.skipped), len(old)) == (
        [],
        *([1, 1] if image == "alma-8.10" else [0, 0]),
    )
    assert [program for program, place in one.places.items() if not place] == []
    venv = one.made.values["environment"]["path"]
    assert {one.places[own] for own in ("vllm", "ninja")} == {
        f"{venv}/bin/vllm",
        f"{venv}/bin/ninja",
    }
    compiler = "nvcc" if dry.RECIPES[name]["device"] == "cuda" else "g++"
    assert one.places[compiler] in ("/usr/local/cuda/bin/nvcc", "/usr/bin/g++")


# The Python of a build: the image's, one of its repositories, or a standalone one.
PYTHONS = {
    ("cuda", "alma-8.10"): "/opt/trueup/python/3.12-c218f50baeb2/bin/python3.12",
    ("cuda", "alma-9"): "/usr/bin/python3.12",
    ("cuda", "ubuntu-22.04"): "/opt/trueup/python/3.12-c218f50baeb2/bin/python3.12",
    ("cuda", "ubuntu-24.04"): "/usr/bin/python3",
    ("cpu", "alma-8.10"): "/opt/trueup/python/3.11-171dffd8c0f6/bin/python3.11",
    ("cpu", "alma-9"): "/usr/bin/python3.11",
    ("cpu", "ubuntu-22.04"): "/usr/bin/python3.11",
    ("cpu", "ubuntu-24.04"): "/opt/trueup/python/3.11-171dffd8c0f6/bin/python3.11",
}


@pytest.mark.parametrize(("build", "image"), PYTHONS)
def test_every_image_gets_the_python_of_the_pins_with_headers(build: str, image: str) -> None:
    name = next(name for name, recipe in dry.RECIPES.items() if recipe["device"] == build)
    environment = dry.run(name, dry.RECIPES[name]["sizes"][0], image).made.values["environment"]
    assert environment["python"] == PYTHONS[build, image]
    install = environment["to_install"]
    # Of a package that is there without them, the headers alone.
    if (build, image) == ("cuda", "alma-9"):
        assert install["packages"] == ["python3.12-devel"]
    assert bool(install.get("archive")) is environment["python"].startswith("/opt/trueup/python")


def test_what_is_not_there_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    name, size, image = next(
        each
        for each in EACH
        if dry.RECIPES[each[0]]["device"] == "cuda" and each[2] == "ubuntu-24.04"
    )
    one = dry.run(name, size, image)
    bare = re.sub(r'(?m)^Environment="PATH=.*\n', "", one.unit)
    assert dry.found(bare, one.made, image)["ninja"] == ""
    kept = {
        path: target
        for path, target in dry.paths(image).items()
        if not path.startswith("/usr/local/cuda")
    }
    monkeypatch.setattr(dry, "paths", lambda _: kept)
    elsewhere = dry.run(name, size, image)
    [only] = elsewhere.made.skipped
    assert "there is no /usr/local/cuda/bin/nvcc" in only.why
    assert elsewhere.places["nvcc"] == ""


def test_the_replicas_have_no_ninja_of_their_own() -> None:
    # Otherwise nothing above would tell.
    named = {path for image in dry.replica.images() for path in dry.paths(image)}
    assert [path for path in named if path.endswith("/ninja")] == []


@pytest.mark.parametrize("with_path", [True, False])
def test_a_stand_in_that_builds_as_flashinfer_does_starts_with_the_units_variables(
    with_path: bool, tmp_path: Path
) -> None:
    name, size, image = next(each for each in EACH if dry.RECIPES[each[0]]["device"] == "cuda")
    one = dry.run(name, size, image)
    venv = one.made.values["environment"]["path"]
    for path, text in (
        (f"{venv}/bin/ninja", NINJA),
        ("/usr/local/cuda/bin/nvcc", "#!/bin/sh\necho stand-in: compiled\n"),
    ):
        program = Path(f"{tmp_path}{path}")
        program.parent.mkdir(parents=True)
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)
    # Its places are below a folder here; the system's are the system's.
    given = {
        key: re.sub(r"(/opt/trueup|/usr/local/cuda|/var/cache)/?", f"{tmp_path}\\g<0>", value)
        for key, value in dry.variables(one.unit).items()
    }
    if not with_path:
        # As a system without a ninja of its own; this machine may have one.
        given["PATH"] = f"{tmp_path}/usr/bin"
    ran = subprocess.run(
        [sys.executable, str(STAND_IN)], env=given, capture_output=True, text=True, check=False
    )
    if with_path:
        assert (ran.stdout, ran.returncode) == (
            "stand-in: compiled\nApplication startup complete.\n",
            0,
        )
    else:
        assert "No such file or directory: 'ninja'" in ran.stderr
