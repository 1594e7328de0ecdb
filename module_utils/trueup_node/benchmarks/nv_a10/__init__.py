"""The benchmark nv_a10: the parser of ffmpeg and nvidia-smi (output), the case, and its view."""
