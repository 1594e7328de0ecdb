"""A Slurm cluster of the inventory's hosts: the plan of each host (role slurm)."""

from .plan import plan

__all__ = ["plan"]
