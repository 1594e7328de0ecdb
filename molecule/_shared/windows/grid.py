"""NVIDIA's GRID driver for a simulated host: what it can download, and what that leaves."""

from __future__ import annotations

import hashlib
import struct

from .host import File, Host, Installer, Leaves

URL = (
    "https://download.microsoft.com/download/e9a86343-1981-4ac8-883a-49bf5e2c4d18/"
    "574.24_grid_win10_win11_server2022_dch_server2025_64bit_international_azure_swl.exe"
)
SIGNER = "CN=NVIDIA Corporation, O=NVIDIA Corporation, L=Santa Clara, S=California, C=US"


def program(version: str = "574.24") -> bytes:
    """A program for Windows that does nothing, whole by the digest in its signature; the signature
    is none."""
    head = bytearray(0x80 + 24 + 112 + 16 * 8)
    head[:2], head[0x80:0x84] = b"MZ", b"PE\0\0"
    struct.pack_into("<I", head, 0x3C, 0x80)
    struct.pack_into("<H", head, 0x80 + 24, 0x20B)
    checksum, entry = 0x80 + 24 + 64, 0x80 + 24 + 112 + 32
    whole = bytes(head) + f"simulated GRID driver {version}\n".encode() * 100
    about = whole[:checksum] + whole[checksum + 4 : entry] + whole[entry + 8 :]
    signature = hashlib.sha256(about).digest() + b"NVIDIA Corporation"
    made = bytearray(whole + signature)
    struct.pack_into("<II", made, entry, len(whole), len(signature))
    return bytes(made)


def offer(host: Host, version: str = "574.24", *, url: str = URL, status: int = 1) -> Host:
    """Let a host download a driver, whose installer ends with ``status``."""
    file = File(program(version), signer=SIGNER)
    host.downloads[url] = file
    host.installers[file.digest("sha256")] = Installer(
        arguments=["-s", "-noreboot", "-clean", "-noeula"],
        needs=["-s", "-noreboot"],
        status=status,
        leaves=Leaves(gpu_driver=version),
        reboot=True,
    )
    return host


def settled(host: Host, version: str = "574.24") -> Host:
    """A host as role windows_gpu leaves it: a driver that works, and the policies of its defaults
    (windows_a10.md, section 2)."""
    host.drive(version)
    policies = r"HKLM:\SOFTWARE\Policies\Microsoft\Windows NT\Terminal Services"
    for name in ("bEnumerateHWBeforeSW", "AVCHardwareEncodePreferred", "AVC444ModePreferred"):
        host.registry.set(policies, name, "dword", 1)
    host.registry.set(policies, "ImageQuality", "dword", 2)
    stations = r"HKLM:\SYSTEM\CurrentControlSet\Control\Terminal Server\WinStations"
    host.registry.set(stations, "DWMFRAMEINTERVAL", "dword", 15)
    return host
