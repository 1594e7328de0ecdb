"""Marks that identify the output of trueup's program for copying to Blob storage."""

from __future__ import annotations

import re

from ...reading import Signature

DRIVER_PREFIX = "trueup-blob_copy "
SIGNATURE = Signature(
    marks=("trueup",),
    forms=((re.compile(r"(?m)^" + DRIVER_PREFIX.rstrip()),),),
)
