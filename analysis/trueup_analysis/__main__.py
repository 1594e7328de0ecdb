"""Where the command ``trueup`` begins."""

from __future__ import annotations

import signal


def main() -> None:
    """Entry point of the command. Ctrl-C while the rest is loaded ends it without a traceback."""
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .cli import main as run  # noqa: PLC0415 WHY: it takes a while

    signal.signal(signal.SIGINT, handler)
    run()


if __name__ == "__main__":
    main()
