"""The benchmark nccl: its output's parser (output) and how its figures are shown (view)."""
