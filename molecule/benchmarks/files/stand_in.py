"""A stand-in for a benchmark's program: prints a file, and ends as it is told.

STAND_IN_OUTPUT names the file; STAND_IN_ENDING is well, garbage (exit 0), fails (exit 1 after all
of it), hangs (after half of it) or dies (killed half-way). It measures nothing. Its help (-h) names
no option for JSON.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

if sys.argv[1:] == ["-h"]:
    sys.exit("stand-in: no options")
ending = os.environ["STAND_IN_ENDING"]
text = Path(os.environ["STAND_IN_OUTPUT"]).read_text(encoding="utf-8")
half = text[: len(text) // 2]
sys.stdout.write(
    {"garbage": "\x00\x01 no output of any benchmark\n", "hangs": half, "dies": half}.get(
        ending, text
    )
)
sys.stdout.flush()
if ending == "hangs":
    time.sleep(600)
if ending == "dies":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(ending == "fails")
