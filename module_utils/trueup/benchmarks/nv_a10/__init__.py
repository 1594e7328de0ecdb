"""The benchmark nv_a10: what ffmpeg and nvidia-smi print (output), the case, and its view."""
