"""How figures of encoded sessions are shown."""

from __future__ import annotations

from ...view import Chart, Measure, View, rate, seconds

_RATE = rate("session_frame_rate", "each session", "frames/s", grows=False)
_TIME = seconds("session_frame_time", "frame time", "ms", grows=False)
_LATENCY = seconds("encoder_latency", "encoder's latency", "ms", grows=False)
_CPU = seconds("frame_cpu_time", "CPU time of a frame", "ms", grows=False)
_COPY = rate("frame_copy_rate", "frames copied, each way", "GB/s", grows=False)
_HELD = Measure("sessions_held", "sessions held", "1", "higher", "")

VIEW = View(
    title="Encoded sessions (ffmpeg)",
    headlines=(_RATE, _COPY),
    figures=(_TIME, _LATENCY, _CPU, _HELD),
    apart=("encoder", "width", "height", "chroma", "sessions"),
    charts=(Chart("lines", (_RATE,), "sessions", "Frames a second of each session"),),
    method="One ffmpeg encodes the same moving picture for N sessions at once, as fast as it can,"
    " and a session's rate is its frames over the time of all. Drawing, capture, network and the"
    " client are not in it.",
    resource="gpus",
    scales=False,
)
