"""Where the command ``trueup`` begins."""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import NoReturn

# Objects that are made before the collector looks for cycles: modules and a fleet's records are
# millions that all stay, and Python's own 700 has it look through them again and again.
_COLLECTED_EVERY = 200_000


def main() -> NoReturn:
    """Entry point of the command. Ctrl-C while the rest is loaded ends it without a traceback."""
    # Arrow's own pool gives nothing back to the system: of 100,000 packed records 90 MB and half of
    # the system's time.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    gc.set_threshold(_COLLECTED_EVERY)
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .cli import main as run  # noqa: PLC0415 WHY: it takes a while

    signal.signal(signal.SIGINT, handler)
    run()
    sys.exit()


if __name__ == "__main__":
    main()
