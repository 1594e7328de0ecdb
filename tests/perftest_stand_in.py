"""A stand-in for perftest: both ends of it, and a node with devices."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from helpers import free_port
from trueup_node.benchmarks.ib import case as ib

DATA = Path(__file__).parent / "data" / "ib"
CLIENT_TEXT, _, SERVER_TEXT = (DATA / "write_bw_loopback.txt").read_text().partition("[server]\n")
CLIENT_TEXT = CLIENT_TEXT.replace("[client]\n", "")

# Speaks as perftest does: the server listens, takes one client, and both print.
PERFTEST = """#!{python}
import os, socket, sys, time
folder = os.path.dirname(os.path.abspath(sys.argv[0]))
if "--version" in sys.argv:
    print("Version: 6.06")
    sys.exit(1)
open(os.path.join(folder, "cpus"), "a").write(str(sorted(os.sched_getaffinity(0))) + "\\n")
open(os.path.join(folder, "pid"), "a").write(str(os.getpid()) + "\\n")
port = next(int(word.split("=")[1]) for word in sys.argv if word.startswith("--port="))
side = "client" if not sys.argv[-1].startswith("--") else "server"
plan = os.path.join(folder, side + ".plan")
if os.path.exists(plan):
    exec(open(plan).read())
if side == "server":
    waiter = socket.socket()
    waiter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    waiter.bind(("127.0.0.1", port))
    waiter.listen(1)
    link = waiter.accept()[0]
else:
    link = socket.socket()
    if link.connect_ex(("127.0.0.1", port)):
        print("Couldn't connect to 127.0.0.1:%d" % port, file=sys.stderr)
        sys.exit(1)
link.sendall(b"x")
link.recv(1)
sys.stdout.write(open(os.path.join(folder, side + ".txt")).read())
"""


class Machine:
    """A node with two devices, a perftest of ours, and a port."""

    def __init__(self, root: Path) -> None:
        self.folder, self.sysfs, self.port = root / "bin", root / "sys", free_port()
        self.folder.mkdir()
        for name in ib.PROGRAMS.values():
            (self.folder / name).write_text(PERFTEST.replace("{python}", sys.executable))
            (self.folder / name).chmod(0o755)
        (self.folder / "client.txt").write_text(CLIENT_TEXT)
        (self.folder / "server.txt").write_text(SERVER_TEXT)
        for number, (device, state) in enumerate(
            (("mlx5_ib3", "4: ACTIVE"), ("mlx5_ib4", "1: DOWN"))
        ):
            port = self.sysfs / "class" / "infiniband" / device / "ports" / "1"
            port.mkdir(parents=True)
            (port / "link_layer").write_text("InfiniBand\n")
            (port / "state").write_text(f"{state}\n")
            (port / "rate").write_text("200 Gb/sec (4X HDR)\n")
            (port.parents[1] / "device").mkdir()
            (port.parents[1] / "device" / "numa_node").write_text(f"{number}\n")

    def plan(self, side: str, text: str) -> None:
        (self.folder / f"{side}.plan").write_text(text)

    def left_running(self) -> list[str]:
        """Ends that still run: one that nobody has ended waits for the other, and stays. What is
        killed may be listed until a busy machine comes to it."""
        pids = (self.folder / "pid").read_text().split() if (self.folder / "pid").exists() else []
        deadline = time.monotonic() + 20
        while left := [pid for pid in pids if os.path.exists(f"/proc/{pid}/fd/0")]:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        return left
