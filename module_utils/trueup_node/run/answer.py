"""The AnsibleModule of this project's modules: a failure shows no credential that a program has
printed, and not all that it has printed."""

from __future__ import annotations

from typing import Any, NoReturn

from ansible.module_utils import basic


class AnsibleModule(basic.AnsibleModule):  # type: ignore[misc]
    """Ansible's own, but for its failures and warnings."""

    def fail_json(self, msg: str, **result: Any) -> NoReturn:
        """End badly."""
        from ..printable import failure  # noqa: PLC0415 WHY: 8 ms of patterns that few modules need

        super().fail_json(**failure({"msg": msg, **result}))
        raise AssertionError("fail_json does not return")

    def warn(self, warning: str, **more: Any) -> None:
        """Keep a warning for the result."""
        from ..printable import printable  # noqa: PLC0415 WHY: see above

        super().warn(printable(warning), **more)
