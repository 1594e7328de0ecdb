"""The repair of a node: from a fault to a node that takes jobs again, step by step."""
