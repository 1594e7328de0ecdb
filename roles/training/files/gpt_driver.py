"""Train a small GPT on made-up tokens and print each iteration as Megatron-LM does.

This is a program of ours in plain PyTorch, not Megatron: records call it ``gpt_driver``. Each
process holds the whole model and a share of the batch (data parallel); gradients are averaged by
one all-reduce in an iteration, over gloo on CPUs and nccl on GPUs. With --deepspeed DeepSpeed takes
the model, the optimizer and the exchange over (ZeRO). It has no fp16: a loss scale skips steps.

Start it by torchrun, srun or mpirun: the process takes its place from RANK and WORLD_SIZE, else
from SLURM_PROCID or OMPI_COMM_WORLD_RANK, and meets the others at MASTER_ADDR:MASTER_PORT.

The data is a cycle over the vocabulary (its first 64 tokens) with a little noise, the same in every
run, so that a model that learns shows a falling loss within a few iterations.

The first line that rank 0 prints says that it begins; the last is ``trueup-megatron `` and a JSON
object, which benchmarks/megatron/output.py reads.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import os
import platform
import socket
import sys
import time
import zlib
from collections.abc import Sequence
from typing import Any, NoReturn

FIRST = "trueup gpt_driver begins"
PREFIX = "trueup-megatron "
FORMAT = 1
NOISE = 0.05  # share of tokens that do not follow from the one before
STRIDE = 7
WORDS = 64  # tokens of the vocabulary that the data has


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden-size", type=int, default=128)
    parser.add_argument("--attention-heads", type=int, default=4)
    parser.add_argument("--sequence-length", type=int, default=64)
    parser.add_argument("--vocabulary-size", type=int, default=512)
    parser.add_argument("--micro-batch", type=int, default=4, help="samples of each process")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument(
        "--learning-rate", type=float, default=0.0, help="0: 1e-3 x 128 / hidden-size"
    )
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("--recompute", action="store_true", help="recompute activations")
    parser.add_argument("--bf16", action="store_true", help="compute in bfloat16")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0: PyTorch's choice")
    parser.add_argument(
        "--backend",
        choices=["nccl", "gloo"],
        help="nccl: on GPUs, or not at all; gloo: on CPUs; without: nccl where there is a GPU",
    )
    parser.add_argument("--deepspeed", help="DeepSpeed's JSON configuration")
    parser.add_argument("--save", help="folder of all nodes for checkpoints, which are not read")
    parser.add_argument("--save-interval", type=int, default=0, help="iterations between two")
    parser.add_argument("--rendezvous-seconds", type=int, default=300)
    return parser.parse_args()


def first_of(names: Sequence[str], otherwise: int) -> int:
    """The first of the variables that is set, as a number."""
    return int(next((os.environ[name] for name in names if name in os.environ), otherwise))


def place() -> tuple[int, int, int]:
    """(rank, world size, rank within the node), whoever started us."""
    # OMPI before SLURM: inside a Slurm job mpirun's processes have both, and Slurm's number is that
    # of mpirun itself.
    rank = first_of(("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"), 0)
    world = first_of(("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"), 1)
    local = first_of(("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"), 0)
    return rank, world, local


def make_model(torch: Any, arguments: argparse.Namespace) -> Any:
    """A decoder like GPT-2's: layer norm first, learned positions, input and output tied."""
    from torch import nn
    from torch.nn import functional
    from torch.utils.checkpoint import checkpoint

    size, heads = arguments.hidden_size, arguments.attention_heads

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = nn.LayerNorm(size), nn.LayerNorm(size)
            self.projections, self.output = nn.Linear(size, 3 * size), nn.Linear(size, size)
            self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            parts = self.projections(self.before(x)).view(batch, length, 3, heads, size // heads)
            query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.output(mixed.transpose(1, 2).reshape(batch, length, size))
            return x + self.down(functional.gelu(self.up(self.between(x))))

    class Gpt(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(arguments.vocabulary_size, size)
            self.positions = nn.Embedding(arguments.sequence_length, size)
            self.layers = nn.ModuleList([Layer() for _ in range(arguments.layers)])
            self.last = nn.LayerNorm(size)
            for weights in self.parameters():
                if weights.dim() > 1:
                    nn.init.normal_(weights, std=0.02)

        def forward(self, tokens: Any, labels: Any) -> Any:
            where = torch.arange(tokens.shape[1], device=tokens.device)
            x = self.tokens(tokens) + self.positions(where)
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=False) if arguments.recompute else layer(x)
            logits = functional.linear(self.last(x), self.tokens.weight)
            return functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())

    return Gpt()


def samples(torch: Any, arguments: argparse.Namespace, generator: Any) -> tuple[Any, Any]:
    """One micro batch: token k is followed by k + STRIDE, but for a little noise."""
    count, length, words = (
        arguments.micro_batch,
        arguments.sequence_length + 1,
        min(arguments.vocabulary_size, WORDS),
    )
    start = torch.randint(words, (count, 1), generator=generator)
    tokens = (start + STRIDE * torch.arange(length)) % words
    wrong = torch.rand(count, length, generator=generator) < NOISE
    noise = torch.randint(words, (count, length), generator=generator)
    tokens = torch.where(wrong, noise, tokens)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


class Plain:
    """Data parallel by one all-reduce of all gradients, and AdamW."""

    def __init__(self, torch: Any, model: Any, arguments: argparse.Namespace, world: int) -> None:
        self.torch, self.model, self.world = torch, model, world
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate)

    def step(self, tokens: Any, labels: Any, scale: Any) -> tuple[Any, float]:
        """(loss, norm of the gradients) of this process after one iteration."""
        torch = self.torch
        self.optimizer.zero_grad(set_to_none=True)
        with scale:
            loss = self.model(tokens, labels)
        loss.backward()
        gradients = [weights.grad for weights in self.model.parameters()]
        if self.world > 1:
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            torch.distributed.all_reduce(flat)
            flat /= self.world
            at = 0
            for gradient in gradients:
                gradient.copy_(flat[at : at + gradient.numel()].view_as(gradient))
                at += gradient.numel()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach(), float(norm)

    def save(self, folder: str, tag: str, rank: int) -> None:
        """The whole state, which every process has, by the first one."""
        if rank == 0:
            os.makedirs(os.path.join(folder, tag), exist_ok=True)
            path = os.path.join(folder, tag, "state.pt")
            state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
            self.torch.save(state, f"{path}.new")
            os.replace(f"{path}.new", path)


class Zero:
    """DeepSpeed's engine, by its own configuration."""

    def __init__(self, model: Any, arguments: argparse.Namespace) -> None:
        import deepspeed

        self.version = deepspeed.__version__
        with open(arguments.deepspeed, encoding="utf-8") as stream:
            configuration = json.load(stream)
        if configuration.get("fp16", {}).get("enabled"):
            sys.exit("gpt_driver: it has no fp16, which --deepspeed enables: take bf16")
        configuration["train_micro_batch_size_per_gpu"] = arguments.micro_batch
        configuration["gradient_accumulation_steps"] = 1
        configuration.pop("train_batch_size", None)
        configuration.setdefault(
            "optimizer", {"type": "AdamW", "params": {"lr": arguments.learning_rate}}
        )
        self.stage = int(configuration.get("zero_optimization", {}).get("stage", 0))
        self.engine = deepspeed.initialize(
            model=model, model_parameters=model.parameters(), config=configuration
        )[0]

    def step(self, tokens: Any, labels: Any, scale: Any) -> tuple[Any, float]:
        with scale:
            loss = self.engine(tokens, labels)
        self.engine.backward(loss)
        self.engine.step()
        norm = self.engine.get_global_grad_norm()
        return loss.detach(), math.nan if norm is None else float(norm)

    def save(self, folder: str, tag: str, _: int) -> None:
        """Each process its share of model and optimizer."""
        self.engine.save_checkpoint(folder, tag=tag)


def line(
    arguments: argparse.Namespace,
    iteration: int,
    consumed: int,
    seconds: float,
    batch: int,
    loss: float,
    norm: float,
    broken: bool,
) -> str:
    """One iteration in Megatron-LM's layout, for people's eyes and tools that know it."""
    now = dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")
    parts = [
        f" [{now}] iteration {iteration:8d}/{arguments.iterations:8d} |",
        f" consumed samples: {consumed:12d} |",
        f" elapsed time per iteration (ms): {seconds * 1000:.1f} |",
        f" learning rate: {arguments.learning_rate:.6E} |",
        f" global batch size: {batch:5d} |",
        f" lm loss: {loss:.6E} |",
        " loss scale: 1.0 |",
        f" grad norm: {norm:.3f} |" if math.isfinite(norm) else "",
        " number of skipped iterations:   0 |",
        f" number of nan iterations: {int(broken):3d} |",
    ]
    return "".join(parts)


def find_gpu(torch: Any, backend: str | None, local: int) -> Any:
    """This process's GPU, or None for the CPU; ends where the backend asked for cannot be had."""
    if backend == "gloo" or (backend is None and not torch.cuda.is_available()):
        return None
    count = torch.cuda.device_count()
    if local >= count:
        sys.exit(
            f"gpt_driver: nccl needs a GPU for each process, and PyTorch {torch.__version__} finds"
            f" {count} for process {local} (from 0) of this node: take --backend gloo, or fewer"
            " processes"
        )
    torch.cuda.set_device(local)
    return torch.device("cuda", local)


def write_checkpoint(
    torch: Any, engine: Plain | Zero, folder: str, iteration: int, rank: int, world: int
) -> None:
    """Write a checkpoint, its time on the fastest and slowest process as Megatron-LM's timers print
    it, and as Megatron-LM the file that names the last complete one."""
    begin = time.perf_counter()
    try:
        engine.save(folder, f"iter_{iteration:07d}", rank)
    except OSError as error:
        sys.exit(f"gpt_driver: no checkpoint can be written to {folder}: {error.strerror}")
    seconds = [time.perf_counter() - begin] * world
    if world > 1:
        # It waits for all.
        torch.distributed.all_gather_object(seconds, seconds[0])
    if rank == 0:
        path = os.path.join(folder, "latest_checkpointed_iteration.txt")
        with open(f"{path}.new", "w", encoding="ascii") as stream:
            stream.write(str(iteration))
        os.replace(f"{path}.new", path)
        least, most = min(seconds) * 1000, max(seconds) * 1000
        # Six digits: no two saves have the same.
        print(f"    save-checkpoint {'.' * 32}: ({least:.6f}, {most:.6f})", flush=True)


def train(
    torch: Any, arguments: argparse.Namespace, rank: int, world: int, device: Any
) -> tuple[list[float], list[float], Plain | Zero, int]:
    """(step times, losses, the engine, parameters) of the whole run; every rank has the same."""
    torch.manual_seed(arguments.seed)  # the same weights everywhere
    model = make_model(torch, arguments).to(device)
    count = sum(weights.numel() for weights in model.parameters())
    engine: Plain | Zero = (
        Zero(model, arguments) if arguments.deepspeed else Plain(torch, model, arguments, world)
    )
    generator = torch.Generator().manual_seed(arguments.seed + 1 + rank)
    batch = arguments.micro_batch * world
    seconds: list[float] = []
    losses: list[float] = []
    for iteration in range(1, arguments.iterations + 1):
        tokens, labels = (tensor.to(device) for tensor in samples(torch, arguments, generator))
        if world > 1:
            torch.distributed.barrier()
        begin = time.perf_counter()
        scale = torch.autocast(device.type, dtype=torch.bfloat16, enabled=arguments.bf16)
        loss, norm = engine.step(tokens, labels, scale)
        if device.type == "cuda":
            torch.cuda.synchronize()
        # The slowest rank's time, and the mean of all losses.
        figures = torch.tensor([time.perf_counter() - begin], dtype=torch.float64, device=device)
        mean = loss.double().reshape(1).to(device)
        if world > 1:
            torch.distributed.all_reduce(figures, op=torch.distributed.ReduceOp.MAX)
            torch.distributed.all_reduce(mean)
            mean /= world
        seconds.append(float(figures[0]))
        losses.append(float(mean[0]))
        if rank == 0:
            consumed = batch * iteration
            broken = not math.isfinite(losses[-1])
            print(
                line(arguments, iteration, consumed, seconds[-1], batch, losses[-1], norm, broken),
                flush=True,
            )
        if arguments.save and iteration % arguments.save_interval == 0:
            write_checkpoint(torch, engine, arguments.save, iteration, rank, world)
    return seconds, losses, engine, count


ASKED = (
    *("layers", "hidden_size", "attention_heads", "sequence_length", "vocabulary_size"),
    *("micro_batch", "iterations", "recompute"),
)


def machine(torch: Any, gpu: Any, local: int) -> dict[str, Any]:
    """Facts about hardware and software, for the result line."""
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cuda": torch.version.cuda if gpu else None,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if gpu else None,
        "device": torch.cuda.get_device_name(local) if gpu else "cpu",
        "threads": torch.get_num_threads(),
    }


def tell(measured: dict[str, Any]) -> None:
    """The result line, with a checksum of the whole, since most of it stands nowhere else. JSON has
    no word for a loss that is not finite."""
    losses = [loss if math.isfinite(loss) else None for loss in measured["losses"]]
    measured = {**measured, "losses": losses}
    measured["check"] = zlib.crc32(json.dumps(measured, sort_keys=True).encode())
    print(PREFIX + json.dumps(measured), flush=True)


def join(torch: Any, arguments: argparse.Namespace, world: int, backend: str) -> bool:
    """Meet the other processes; whether there is anything to meet for."""
    if world == 1 and not arguments.deepspeed:
        return False
    limit = dt.timedelta(seconds=arguments.rendezvous_seconds)
    torch.distributed.init_process_group(backend, timeout=limit)
    return True


def hosts_of(torch: Any, world: int) -> list[str]:
    """The host of each process."""
    hosts = [socket.gethostname()] * world
    if world > 1:
        torch.distributed.all_gather_object(hosts, socket.gethostname())
    return hosts


def environment(rank: int, world: int, local: int) -> None:
    """Variables that torch.distributed reads."""
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(local))


def leave(torch: Any) -> NoReturn:
    """End here: all is said. A thread of gloo's that lets go of its last tensor while Python ends
    aborts the process (torch 2.13: one of five processes)."""
    torch.distributed.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def main() -> None:
    arguments = parse_arguments()
    if arguments.hidden_size % arguments.attention_heads:
        sys.exit("gpt_driver: hidden-size is not a multiple of attention-heads")
    if bool(arguments.save) != (arguments.save_interval > 0):
        sys.exit("gpt_driver: --save needs --save-interval above 0, and the other way round")

    # Adam's rate of wide models goes with 1 / width (arXiv 2203.03466).
    arguments.learning_rate = arguments.learning_rate or 1e-3 * 128 / arguments.hidden_size
    import torch

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    rank, world, local = place()
    if rank == 0:
        print(f"{FIRST}: {world} process(es), torch {torch.__version__}", flush=True)
    gpu = find_gpu(torch, arguments.backend, local)
    device = gpu or torch.device("cpu")
    environment(rank, world, local)
    backend = "nccl" if gpu else "gloo"
    together = join(torch, arguments, world, backend)
    hosts = hosts_of(torch, world)
    seconds, losses, engine, count = train(torch, arguments, rank, world, device)
    measured = {
        "format": FORMAT,
        "program": "gpt_driver",
        "deepspeed": getattr(engine, "version", None),
        **machine(torch, gpu, local),
        "backend": backend if together else "none",
        "world_size": world,
        "hosts": hosts,
        **{name: getattr(arguments, name) for name in ASKED},
        "global_batch": arguments.micro_batch * world,
        "parameters": count,
        "zero_stage": getattr(engine, "stage", 0),
        "precision": "bf16" if arguments.bf16 else "fp32",
        "step_seconds": seconds,
        "losses": losses,
    }
    if rank == 0:
        tell(measured)
    if together:
        leave(torch)


if __name__ == "__main__":
    main()
