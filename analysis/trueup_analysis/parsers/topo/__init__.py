"""nvidia-smi topo -m: parser (output) and view. No role starts it."""
