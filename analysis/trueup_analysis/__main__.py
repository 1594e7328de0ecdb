"""Where the command ``trueup`` begins."""

from __future__ import annotations

import atexit
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
    # Nothing here is a product of large matrices. Threads for that, which numpy's BLAS starts when
    # it is imported, take 0.02 s on two cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(_COLLECTED_EVERY)
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .cli import main as run  # noqa: PLC0415 WHY: it takes a while

    signal.signal(signal.SIGINT, handler)
    try:
        run()
    except SystemExit as ended:
        _end(ended)
    sys.exit()


def _end(ended: SystemExit) -> NoReturn:
    """End without giving back the memory piece by piece, which the system does at once: 0.02 s of
    any command, and a tenth of a second of one that read many records."""
    if isinstance(ended.code, str):
        raise ended
    atexit._run_exitfuncs()  # noqa: SLF001 WHY: os._exit runs none
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except (OSError, ValueError):
        # The stream is closed: leave the report to Python.
        raise ended from None
    os._exit(ended.code or 0)


if __name__ == "__main__":
    main()
