"""The benchmark vllm: what its tool prints (output) and how its figures are shown (view)."""
