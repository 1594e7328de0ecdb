"""MPI micro-benchmarks (OSU, IMB): parser (output) and view. No role installs them."""
