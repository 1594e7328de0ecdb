"""What the unit tests are spared."""

import sys

# jsonschema compiles 38 grammars of it where it is there, in each worker: 1.6 s of processor time.
# No schema of ours has an address to be checked (format: iri).
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
