"""The simulated Ansible modules: one file a group. Importing this registers all."""

from __future__ import annotations

from . import basic, commands, facts, files, nvidia, registry

__all__ = ["basic", "commands", "facts", "files", "nvidia", "registry"]
