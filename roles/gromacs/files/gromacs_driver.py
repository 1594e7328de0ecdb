"""Run one case of GROMACS' mdrun and print its log.

The input is a .tpr file, or a .zip with one in it, whose sha256 must be the one given, or a box of
water that this driver builds with the tool's own programs: solvate, energy minimisation, 2 ps at
300 K with velocities from a fixed seed, grompp. SPC water with the files that every GROMACS has,
PME, 2 fs steps.

The last line printed is `trueup-gromacs ` and a JSON object with the sha256 of the log above it,
which benchmarks/gromacs/output.py reads. Where a program of GROMACS fails, its log and its output
are printed instead, and the exit status is its own (128 + the signal's number where one ended it).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib

PREFIX = "trueup-gromacs "
FORMAT = 1
# Errors of zipfile and its compressions: damaged, encrypted, of an unknown method (RuntimeError),
# cut short, unreadable, or no space for its content.
_BROKEN_ARCHIVE = (
    *(zipfile.BadZipFile, RuntimeError, EOFError, OSError),
    *(zlib.error, lzma.LZMAError),
)
# Long-range electrostatics by PME with 0.9 nm cut-offs; bonds of hydrogens rigid (water: SETTLE).
COMMON = """cutoff-scheme = Verlet
coulombtype = PME
rcoulomb = 0.9
rvdw = 0.9
"""
MINIMISE = "integrator = steep\nnsteps = 100\nnstlog = 100\n"
DYNAMICS = """integrator = md
dt = 0.002
constraints = h-bonds
tcoupl = v-rescale
tc-grps = System
ref-t = 300
ld-seed = 4711
nstcalcenergy = 100
nstenergy = 1000
nstlog = 1000
"""
EQUILIBRATE = "nsteps = 1000\ntau-t = 0.1\ngen-vel = yes\ngen-temp = 300\ngen-seed = 4711\n"
MEASURE = "nsteps = {steps}\ntau-t = 1\ngen-vel = no\ncontinuation = yes\n"
TOPOLOGY = """#include "oplsaa.ff/forcefield.itp"
#include "oplsaa.ff/spc.itp"
[ system ]
water
[ molecules ]
"""
LINES_SHOWN = 60
# Of the one rank that prepares the water: more threads than this do not help it.
MOST_THREADS_TO_BUILD = 16


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--program", required=True, help="gmx or gmx_mpi, by name or path")
    parser.add_argument("--below", help="variable with the folder in which the program must be")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--image", help="a container image, whose sha256 must be the one given")
    parser.add_argument("--image-sha256")
    parser.add_argument("--inside", action="append", default=[], help="a word before each program")
    parser.add_argument("--folder", required=True, help="an empty folder for the run's files")
    parser.add_argument("--tpr")
    parser.add_argument("--sha256")
    parser.add_argument("--water-box", type=float, help="edge in nm")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--reset-step", type=int, required=True)
    parser.add_argument("--pme-ranks", type=int, default=-1)
    parser.add_argument("--pin", default="on")
    parser.add_argument("--tune-pme", action="store_true")
    for name in ("nb", "pme", "bonded", "update"):
        parser.add_argument(f"--{name}", default="auto")
    return parser.parse_args()


class Failed(Exception):
    """A program of GROMACS failed; ``status`` is for our own exit."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def digest(path: str) -> str:
    total = hashlib.sha256()
    with open(path, "rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            total.update(block)
    return total.hexdigest()


def require(path: str, expected_sha256: str) -> None:
    """Refuse a file that has another sha256."""
    total = digest(path)
    if total != expected_sha256:
        raise Failed(2, f"{path} has the sha256 {total}, not {expected_sha256}")


def unpacked(path: str, folder: str) -> str:
    """The .tpr that a .zip holds, in ``folder``; another file is the input itself."""
    if not path.endswith(".zip"):
        return path
    try:
        with zipfile.ZipFile(path) as archive:
            inputs = [name for name in archive.namelist() if name.endswith(".tpr")]
            if len(inputs) != 1:
                raise Failed(2, f"{path} holds {len(inputs)} .tpr files, one is expected")
            target = os.path.join(folder, "input.tpr")
            with archive.open(inputs[0]) as packed, open(target, "wb") as stream:
                shutil.copyfileobj(packed, stream, 1 << 20)
    except _BROKEN_ARCHIVE as error:
        raise Failed(2, f"{path} cannot be unpacked: {error}") from error
    return target


def require_below(program: str, variable: str) -> None:
    """Refuse a program that is not of the module that was loaded, but the node's own."""
    folder, path = os.environ.get(variable), shutil.which(program)
    if not folder or not path or not path.startswith(folder.rstrip("/") + "/"):
        raise Failed(2, f"{program} is {path}, not below {variable}, which is {folder}")


def text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as stream:
            return stream.read()
    except FileNotFoundError:
        return ""


def run(argv: list[str], folder: str, name: str) -> str:
    """Run one program; its output goes to a file, since mdrun prints its result there too."""
    output_path = os.path.join(folder, f"{name}.out")
    with open(output_path, "wb") as stream:
        try:
            done = subprocess.run(  # noqa: S603 WHY: an argv, and no shell
                argv,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                check=False,
            )
        except OSError as error:
            raise Failed(127, f"{argv[0]} cannot be run: {error.strerror}") from error
    text = text_of(output_path)
    if done.returncode:
        status = 128 - done.returncode if done.returncode < 0 else done.returncode
        log = text_of(os.path.join(folder, "md.log")).splitlines()[-LINES_SHOWN:]
        last_lines = "\n".join([*log, *text.splitlines()[-LINES_SHOWN:]])
        raise Failed(status, f"{last_lines}\n{name} failed: {' '.join(argv)}")
    return text


def mpi_of(arguments: argparse.Namespace) -> str:
    """How this build makes its ranks: thread_mpi, none, or an MPI library."""
    program = arguments.program
    text = run([*arguments.inside, program, "--version"], arguments.folder, "version")
    match = re.search(r"^MPI library: +(\S.*)", text, re.MULTILINE)
    if not match:
        raise Failed(2, f"{program} --version names no MPI library: is it GROMACS?\n{text[:2000]}")
    library = match.group(1).rstrip()
    return library if library in ("thread_mpi", "none") else "mpi"


def build_water(arguments: argparse.Namespace, mpi: str, folder: str) -> str:
    """A .tpr of a box of water that is at rest at 300 K."""

    def gmx(name: str, *words: str) -> None:
        run([*arguments.inside, arguments.program, *words], folder, name)

    def write(name: str, *parts: str) -> None:
        with open(os.path.join(folder, name), "w", encoding="ascii") as stream:
            stream.write("".join(parts))

    write("topol.top", TOPOLOGY)
    write("em.mdp", COMMON, MINIMISE)
    write("eq.mdp", COMMON, DYNAMICS, EQUILIBRATE)
    write("md.mdp", COMMON, DYNAMICS, MEASURE.format(steps=arguments.steps))
    threads = min(arguments.ranks * arguments.threads, MOST_THREADS_TO_BUILD)
    alone = ["-ntomp", str(threads), *(["-ntmpi", "1"] if mpi == "thread_mpi" else [])]
    edge = f"{arguments.water_box:g}"
    water = ("-cs", "spc216.gro", "-box", edge, edge, edge, "-o", "conf.gro", "-p", "topol.top")
    gmx("solvate", "solvate", *water)
    for name, start in (("em", ["-c", "conf.gro"]), ("eq", ["-c", "em.gro"])):
        inputs = ["-f", f"{name}.mdp", *start, "-p", "topol.top", "-o", f"{name}.tpr"]
        gmx(f"grompp-{name}", "grompp", *inputs, "-po", f"{name}.out.mdp")
        gmx(f"mdrun-{name}", "mdrun", "-s", f"{name}.tpr", "-deffnm", name, *alone)
    inputs = ["-f", "md.mdp", "-c", "eq.gro", "-t", "eq.cpt", "-p", "topol.top", "-o", "md.tpr"]
    gmx("grompp-md", "grompp", *inputs, "-po", "md.out.mdp")
    return os.path.join(folder, "md.tpr")


def mdrun_argv(arguments: argparse.Namespace, mpi: str, tpr: str) -> list[str]:
    argv = [*arguments.inside, arguments.program, "mdrun", "-s", tpr, "-g", "md.log"]
    argv += ["-noconfout", "-cpt", "-1"]
    argv += ["-resetstep", str(arguments.reset_step)]
    if arguments.tpr:
        argv += ["-nsteps", str(arguments.steps)]
    argv += ["-pin", arguments.pin, "-ntomp", str(arguments.threads)]
    argv += ["-tunepme" if arguments.tune_pme else "-notunepme"]
    if arguments.pme_ranks >= 0:
        argv += ["-npme", str(arguments.pme_ranks)]
    for name in ("nb", "pme", "bonded", "update"):
        # GROMACS 2018 has no -bonded, 2019 no -update.
        if getattr(arguments, name) != "auto":
            argv += [f"-{name}", getattr(arguments, name)]
    if mpi == "thread_mpi":
        return [*argv, "-ntmpi", str(arguments.ranks)]
    if arguments.ranks == 1:
        return argv
    if mpi == "none":
        raise Failed(2, f"{arguments.program} has no MPI: it can run 1 rank, not {arguments.ranks}")
    # mdrun pins its own threads: mpirun's binding would put all threads of a rank on one core.
    return [arguments.mpirun, "--bind-to", "none", "-np", str(arguments.ranks), *argv]


def measure(arguments: argparse.Namespace) -> str:
    folder = arguments.folder
    if arguments.below:
        require_below(arguments.program, arguments.below)
    if arguments.image:
        require(arguments.image, arguments.image_sha256)
    mpi = mpi_of(arguments)
    if arguments.tpr:
        total = arguments.sha256
        require(arguments.tpr, total)
        tpr = unpacked(arguments.tpr, folder)
    else:
        tpr = build_water(arguments, mpi, folder)
        total = digest(tpr)
    argv = mdrun_argv(arguments, mpi, tpr)
    run(argv, folder, "mdrun")
    log = text_of(os.path.join(folder, "md.log"))
    if not log.endswith("\n"):
        log += "\n"
    result = {
        "format": FORMAT,
        "log_sha256": hashlib.sha256(log.encode("utf-8")).hexdigest(),
        "tpr_sha256": total,
        "mdrun": " ".join(argv),
    }
    return log + PREFIX + json.dumps(result) + "\n"


def main() -> int:
    try:
        text = measure(parse_arguments())
    except Failed as error:
        sys.stdout.buffer.write(f"{error}\n".encode("utf-8", errors="replace"))
        return error.status
    except OSError as error:
        sys.stdout.write(f"{error}\n")
        return 2
    sys.stdout.buffer.write(text.encode("utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
