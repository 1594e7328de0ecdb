"""The plots of a benchmark's section, a file each kind."""
