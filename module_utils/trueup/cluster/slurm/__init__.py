"""A Slurm cluster of the inventory's hosts: what each of them is given (role slurm)."""

from .plan import plan

__all__ = ["plan"]
