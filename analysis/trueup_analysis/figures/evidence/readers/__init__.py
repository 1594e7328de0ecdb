"""The readers of publications, one file each."""

from __future__ import annotations

from typing import Final

from . import (
    github_thread,
    inferencex,
    llm_d,
    megatron_bridge,
    mlperf_inference,
    mlperf_training,
    sglang_cookbook,
    tensorrt_llm,
    training_tables,
)
from .reading import Reader

READERS: Final[dict[str, Reader]] = {
    reader.name: reader
    for reader in (
        github_thread.READER,
        inferencex.READER,
        llm_d.READER,
        megatron_bridge.READER,
        mlperf_inference.READER,
        mlperf_training.READER,
        sglang_cookbook.READER,
        tensorrt_llm.READER,
        training_tables.MAXTEXT,
        training_tables.TORCHTITAN,
    )
}
