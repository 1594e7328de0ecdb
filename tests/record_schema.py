"""What records must keep to: their schema, itself checked once and not for each record (10 ms)."""

from __future__ import annotations

import json

import jsonschema
from helpers import ROOT

_PATH = ROOT / "module_utils" / "trueup_node" / "record.schema.json"
_SCHEMA = json.loads(_PATH.read_text(encoding="utf-8"))
jsonschema.Draft202012Validator.check_schema(_SCHEMA)
RECORDS = jsonschema.Draft202012Validator(_SCHEMA)
