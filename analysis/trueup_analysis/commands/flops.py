"""``trueup flops``: operations of a training step."""

from __future__ import annotations

from typing import Annotated

import typer
from trueup_node.errors import BadInput

from .interface import Common, examples, flag, option, taking

app = typer.Typer()


@app.command(
    epilog=examples(
        "trueup flops --published      # DeepSpeed on Azure, with % of peak",
        "trueup flops --layers 96 --hidden 12288 --sequence 512 --micro-batch 32",
        "trueup flops --layers 96 --hidden 12288 --sequence 512 --micro-batch 32",
        "    --gpus 256 --tflops-per-gpu 204.49 --size Standard_ND96amsr_A100_v4",
        "trueup flops --layers 32 --hidden 4096 --sequence 8192 --micro-batch 1",
        "    --gpus 8 --step-seconds 1.6 --ffn 14336 --heads 32 --query-groups 8",
        "    --gated --untied --vocabulary 128256 --peak 989.4     # Llama 3.1 8B",
    ),
)
@taking(common=Common)
def flops(
    context: typer.Context,
    *,
    layers: Annotated[int | None, option("L", "Decoder layers.")] = None,
    hidden: Annotated[int | None, option("H", "Hidden size.")] = None,
    sequence: Annotated[int | None, option("S", "Sequence length, tokens.")] = None,
    vocabulary: Annotated[
        int | None, option("V", "Padded vocabulary; else GPT-2's, 51200.")
    ] = None,
    micro_batch: Annotated[int, option("N", "Samples of each GPU in an iteration.")] = 1,
    global_batch: Annotated[
        int | None, option("N", "Samples of all GPUs; else micro batch x GPUs.")
    ] = None,
    gpus: Annotated[int, option("N", "GPUs of the job.")] = 1,
    step_seconds: Annotated[float | None, option("S", "The time of an iteration.")] = None,
    tflops_per_gpu: Annotated[
        float | None, option("TFLOP/S", "Instead: each GPU's rate by --formula.")
    ] = None,
    formula: Annotated[
        str, option("NAME", "How that rate was counted: article, megatron or megatron_lm.")
    ] = "article",
    peak: Annotated[float | None, option("TFLOP/S", "Peak of one GPU (312 for an A100).")] = None,
    size: Annotated[
        str | None, option("SIZE", "Instead: that of this VM size's GPUs (BF16, dense).")
    ] = None,
    heads: Annotated[int | None, option("N", "Attention heads; for --query-groups.")] = None,
    query_groups: Annotated[
        int | None, option("N", "Key and value heads of grouped attention.")
    ] = None,
    ffn: Annotated[int | None, option("N", "Feed-forward size; else 4 x hidden.")] = None,
    gated: Annotated[bool, flag("--gated", "SwiGLU: a third matrix.")] = False,
    untied: Annotated[
        bool, flag("--untied", "Input and output embeddings are two matrices.")
    ] = False,
    published: Annotated[
        bool, flag("--published", "The published rates instead of a model.")
    ] = False,
    common: Common,
) -> None:
    """Operations of one training step by three formulas, and a rate or a step time converted by
    each of them: step time, samples/s, tokens/s, percent of peak. Rates of one run differ by a
    third between formulas: article counts recomputed activations (hardware FLOPs), megatron does
    not (model FLOPs), megatron_lm, which Megatron-LM prints, also halves the attention scores."""
    from trueup_node.benchmarks.megatron.flops import Model, parameters

    from ..catalog import folder
    from ..figures import flops as analysis
    from ..sheets import flops as flops_sheets

    catalog_folder = folder(common.catalog)
    if published:
        _refuse_others(context)
        common.write([flops_sheets.published(analysis.published(catalog_folder))])
        return
    if layers is None or hidden is None or sequence is None:
        raise BadInput("give --layers, --hidden and --sequence of a model, or --published")
    if peak is not None and size is not None:
        raise BadInput("--peak and --size both say the peak; give one of them")
    model = Model(
        layers=layers,
        hidden_size=hidden,
        sequence_length=sequence,
        vocabulary_size=analysis.vocabulary(catalog_folder) if vocabulary is None else vocabulary,
        attention_heads=heads,
        ffn_hidden_size=ffn,
        query_groups=query_groups,
        gated=gated,
        tied=not untied,
        learned_positions=not (gated or query_groups),
    )
    most = None if peak is None else peak * 1e12
    if size is not None:
        most, _ = analysis.peak_of_size(size, catalog_folder)
    counts = analysis.count(
        model,
        micro_batch=micro_batch,
        gpus=gpus,
        global_batch=global_batch,
        seconds=step_seconds,
        rate=None if tflops_per_gpu is None else tflops_per_gpu * 1e12,
        rate_by=formula,
        peak=most,
    )
    batch = micro_batch * gpus if global_batch is None else global_batch
    sheet = flops_sheets.counts(
        counts, model, batch=batch, gpus=gpus, parameters=parameters(model), peak=most
    )
    common.write([sheet])


def _refuse_others(context: typer.Context) -> None:
    """Refuse options of a model beside --published."""
    taken = {"published", "catalog", "format_", "output"}
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if parameter.name not in taken and source is not None and source.name == "COMMANDLINE":
            raise BadInput(f"--published takes no {parameter.opts[0]}: its rates are the catalog's")
