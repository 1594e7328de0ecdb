"""Where the command ``trueup`` begins."""

from __future__ import annotations

import os
import signal


def main() -> None:
    """Entry point of the command. Ctrl-C while the rest is loaded ends it without a traceback."""
    # Arrow's own pool gives nothing back to the system: of 100,000 packed records 90 MB and half of
    # the system's time.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .cli import main as run  # noqa: PLC0415 WHY: it takes a while

    signal.signal(signal.SIGINT, handler)
    run()


if __name__ == "__main__":
    main()
