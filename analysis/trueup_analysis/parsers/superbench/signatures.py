"""Marks that identify summaries of SuperBench."""

from __future__ import annotations

import re

from trueup_node.reading import Signature

# What stands before the slash in the name of a figure.
_BENCHMARKS = (
    r"(?:(?:bert|densenet|gpt|lstm|resnet|vgg|mixtral|llama)_models|model-benchmarks|megatron-\w+"
    r"|onnxruntime-ort-models|kernel-launch|gemm-flops|(?:cub|hipb)laslt-gemm|cublas-function"
    r"|cudnn-function|tensorrt-inference|ort-inference|pytorch-\w+(?:-\w+){0,3}|gpu-burn|cpu-hpl"
    r"|cpu-stream|cpu-memory-bw-latency|mem-bw|gpu-copy-bw|gpu-sm-copy-bw|gpu-stream|nvbandwidth"
    r"|ib-loopback|ib-traffic|nccl-bw|rccl-bw|tcp-connectivity|gpcnet-network-(?:load-)?test"
    r"|disk-benchmark|dist-inference|trueup-\w+)"
)
FIGURE = re.compile(
    rf'"{_BENCHMARKS}(?::[\w.-]{{1,60}})?/[^"\n]{{1,300}}" ?: ?(?:-?\d|null|NaN|"N/A")'
    r'|"[\w-]{1,60}(?::[\w.-]{1,60})?/return_code(?::\d{1,6})?" ?: ?-?\d'
)
# A node's line of a fleet's file.
SIGNATURE = Signature(
    marks=(
        *("/return_code", "model-benchmarks", "bert_models", "resnet_models", "gpt_models"),
        *("lstm_models", "vgg_models", "densenet_models", "kernel-launch", "gemm-flops", "nccl-bw"),
        *("rccl-bw", "mem-bw", "gpu-copy-bw", "ib-loopback", "ib-traffic", "cpu-stream"),
        *("disk-benchmark", "cudnn-function", "cublas-function", "nvbandwidth"),
    ),
    forms=((FIGURE,),),
    run=(r'\s*\{ ?"', r"$^"),
)
