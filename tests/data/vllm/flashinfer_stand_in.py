"""Stand-in for a vLLM server on GPUs: at its start it builds a kernel as FlashInfer 0.7.0 does
(flashinfer/jit/cpp_ext.py, run_ninja), by the name ninja alone, and serves nothing."""

import os
import pathlib
import subprocess

folder = pathlib.Path(os.environ["HOME"]) / ".cache" / "flashinfer"
folder.mkdir(parents=True, exist_ok=True)
nvcc = os.path.join(os.environ.get("CUDA_HOME") or "/usr/local/cuda", "bin", "nvcc")
recipe = folder / "build.ninja"
recipe.write_text(
    f"rule cuda\n  command = {nvcc} -c $in -o $out\nbuild sampling.o: cuda sampling.cu\n"
)
subprocess.run(["ninja", "-v", "-C", str(folder), "-f", str(recipe)], check=True)
print("Application startup complete.")
