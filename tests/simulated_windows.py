"""The simulated Windows host (molecule/_shared/windows) for tests."""

from __future__ import annotations

import sys

from helpers import ROOT

sys.path.insert(0, str(ROOT / "molecule" / "_shared"))

from windows import modules
from windows.arguments import MODULES, Call, Option, checked, module
from windows.errors import FailError, UnknownError
from windows.host import Event, Faults, File, Gpu, Host, Installer, Leaves, Product, Service
from windows.modules.commands import PROGRAMS, program
from windows.registry import Registry
from windows.serve import Server, serving, variables

__all__ = [
    "MODULES",
    "PROGRAMS",
    "Call",
    "Event",
    "FailError",
    "Faults",
    "File",
    "Gpu",
    "Host",
    "Installer",
    "Leaves",
    "Option",
    "Product",
    "Registry",
    "Server",
    "Service",
    "UnknownError",
    "checked",
    "module",
    "modules",
    "program",
    "serving",
    "variables",
]
