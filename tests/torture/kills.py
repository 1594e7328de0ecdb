"""A benchmark's controller, killed: nothing may be left (orphans.py says how)."""

from __future__ import annotations

import loopback_slurm
import loopback_sshd
from orphans import LEFT_SECONDS, attacks

from torture import Tally


def _tally(start: str, count: int, seed: int) -> Tally:
    tally = Tally()
    last = 0.0
    for delay, started, took, rest in attacks(start, count, seed=seed):
        if rest:
            had = "ran" if started else "had not started"
            tally.lose(f"{delay:.3f} s (seed {seed}), driver {had}: left {rest}")
        else:
            tally.survived()
            last = max(last, took)
    tally.figures.append(f"nothing left after {last:.1f} s of the {LEFT_SECONDS:g} s allowed")
    return tally


def local(count: int, seed: int) -> Tally:
    return _tally("local", count, seed)


def ssh(count: int, seed: int) -> Tally:
    return _by_ssh("ssh", count, seed)


def beside(count: int, seed: int) -> Tally:
    return _by_ssh("beside", count, seed)


def _by_ssh(start: str, count: int, seed: int) -> Tally:
    if loopback_sshd.program() is None:
        return Tally(skipped="there is no sshd here: install openssh-server")
    return _tally(start, count, seed)


def slurm(count: int, seed: int) -> Tally:
    lacks = loopback_slurm.missing()
    if lacks:
        return Tally(skipped=f"not here: {', '.join(lacks)} (install slurm-wlm, as root)")
    return _tally("slurm", count, seed)


def stand_ins(count: int, seed: int) -> Tally:
    return _tally("stand_ins", count, seed)
