"""The benchmark blob_copy: what its tool prints (output) and how its figures are shown (view)."""
