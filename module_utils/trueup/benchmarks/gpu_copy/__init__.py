"""The benchmark gpu_copy: what its tool prints (output) and how its figures are shown (view)."""
