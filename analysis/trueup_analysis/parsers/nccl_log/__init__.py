"""NCCL's own log, alone or between the lines of a program: parser (output) and view."""
