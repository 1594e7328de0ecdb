"""Starts a simulated Windows host: python molecule/_shared/windows --help"""

from __future__ import annotations

import sys
from pathlib import Path

# The package, and not what is in it, is what is imported.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from windows.serve import main  # noqa: E402

if __name__ == "__main__":
    main()
