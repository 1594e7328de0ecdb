"""Installed programs, as their uninstall keys say."""

from __future__ import annotations

from dataclasses import dataclass

UNINSTALL = r"HKLM:\SOFTWARE\Microsoft\Windows\CurrentVersion\Uninstall"


@dataclass
class Product:
    """An installed program; without a ``product_id`` its key is named as it is."""

    version: str
    publisher: str = ""
    product_id: str = ""
