"""Temporary folder of a case for the files of Open MPI. A kill leaves them behind: some 8 MB of its
daemon, and 4 MB of each rank.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Dict

# Of memory, as the ranks' own files are; each node has it, and its path is short, as names of
# sockets must be. Daemons on other nodes make the folder there.
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 WHY: a folder of this name is made for each case
# Session folder and shared memory: of Open MPI 4 and 5 (prrte's, btl/sm).
_NAMES = (
    *("OMPI_MCA_orte_tmpdir_base", "OMPI_MCA_btl_vader_backing_directory"),
    *("PRTE_MCA_prte_tmpdir_base", "OMPI_MCA_btl_sm_backing_directory"),
)


def new_folder() -> str:
    """Make a folder, and return its path."""
    writable = os.access(_SHARED_MEMORY, os.W_OK | os.X_OK)
    return tempfile.mkdtemp(prefix="trueup-case-", dir=_SHARED_MEMORY if writable else None)


def remove(path: str) -> None:
    """Remove a folder with all that is in it, if it is there."""
    shutil.rmtree(path, ignore_errors=True)


def variables(path: str) -> Dict[str, str]:
    """Variables with which Open MPI keeps its files in a folder. No record has them: they differ
    from case to case."""
    return dict.fromkeys(_NAMES, path)
