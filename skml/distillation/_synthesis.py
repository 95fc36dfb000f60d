"""How each base method makes a chunk of synthetic samples. Torch optimisers live here."""

import math
from dataclasses import dataclass

import torch
from torch import nn

from skml.utils._torch_classifiers import PenultimateFeatures

from ._generator_losses import (
    BatchStatistics,
    adversarial_loss,
    balance_loss,
    contrastive_loss,
    onehot_loss,
)
from ._networks import reset_parameters
from ._views import global_view, local_view

_BETAS = (0.5, 0.999)
_ROUNDS_PER_GENERATOR = 10  # of nayer
_BANK_SIZE, _N_NEGATIVES = 4096, 512
_HEAD_WIDTH, _CONTRAST_TEMPERATURE = 128, 0.1


@dataclass(frozen=True)
class Domain:
    """Where samples live.

    Attributes
    ----------
    shape : tuple of int
        Shape of a sample.
    low, high : Tensor of that shape
        Bounds of the features.
    n_classes : int
        Number of classes.
    """

    shape: tuple
    low: torch.Tensor
    high: torch.Tensor
    n_classes: int

    def scale(self, unit):
        """Samples from the output in [0, 1] of a generator."""
        # Teachers may expect the usual order of memory, whatever the generator has.
        unit = unit.reshape(-1, *self.shape).contiguous()
        x = self.low + (self.high - self.low) * unit
        # Rounding may lead a hair's breadth beyond.
        return torch.minimum(torch.maximum(x, self.low), self.high)


class Synthesizer:
    """Makes chunks of samples by one generator that is kept (DFQ).

    Parameters
    ----------
    teacher : torch.nn.Module
        Frozen, in evaluation mode; gives logits.
    generator : torch.nn.Module
        Maps latent vectors to [0, 1].
    domain : Domain
        Where samples live.
    base : Base
        Weights and steps.
    latent_dim, batch_size, pool_size : int
        Length of latent vectors; samples in a step and in a chunk.
    n_warm_up : int
        Number of first rounds without the adversarial term.
    rng : torch.Generator
        Source of latent vectors, on the CPU.
    """

    def __init__(
        self,
        teacher,
        generator,
        domain,
        base,
        *,
        latent_dim,
        batch_size,
        pool_size,
        n_warm_up,
        rng,
    ):
        self.teacher = teacher
        self.generator = generator
        self.domain = domain
        self.base = base
        self.latent_dim = latent_dim
        self.batch_size = batch_size
        self.pool_size = pool_size
        self.n_warm_up = n_warm_up
        self.rng = rng
        self.optimizer = None

    def synthesize(self, student, round_):
        """Train the generator against teacher and student, and make a chunk.

        Parameters
        ----------
        student : torch.nn.Module
            The student, in evaluation mode.
        round_ : int
            Number of the round, from 0.

        Returns
        -------
        samples : Tensor of shape (pool_size, ...)
            The chunk.
        terms : dict of str to float
            Mean over the steps of each term of the loss, unweighted, and of the loss.
        """
        self._start(round_)
        sums = {}
        self.generator.train()
        with BatchStatistics(self.teacher) as statistics:
            for _ in range(self.base.generator_steps):
                for name, value in self._step(student, statistics, round_).items():
                    sums[name] = sums.get(name, 0.0) + value
        n_steps = max(self.base.generator_steps, 1)
        return self._chunk(), {name: value / n_steps for name, value in sums.items()}

    def _start(self, round_):
        if self.optimizer is None:
            self.optimizer = self._adam(self.generator.parameters())

    def _step(self, student, statistics, round_):
        x = self.domain.scale(self.generator(self._latent(self.batch_size)))
        terms = self._terms(x, student, statistics, round_)
        return self._descend(terms, round_)

    def _chunk(self):
        return generate(self.generator, self._latent(self.pool_size), self.domain)

    def _latent(self, n):
        latent = torch.randn(n, self.latent_dim, generator=self.rng)
        return latent.to(self.domain.low.device)

    def _terms(self, x, student, statistics, round_, target=None):
        base = self.base
        statistics.forget()
        logits = self.teacher(x)
        terms = {
            "bn": statistics.loss(),
            "onehot": onehot_loss(logits, target),
            "balance": balance_loss(logits),
        }
        if base.adversarial_weight and round_ >= max(1, self.n_warm_up):
            terms["adversarial"] = adversarial_loss(
                logits, student(x), agreeing_only=base.agreeing_only
            )
        return terms

    def _descend(self, terms, round_):
        loss = 0.0
        for name, term in terms.items():
            loss = loss + getattr(self.base, f"{name}_weight") * term
        values = {name: term.item() for name, term in terms.items()} | {"generator": loss.item()}
        for name, value in values.items():
            if not math.isfinite(value):
                raise RuntimeError(
                    f"The {name} term of the generator's loss became {value} in round {round_}. "
                    "Look at the teacher's outputs on its input range, and lower the weight of "
                    "that term."
                )
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        self.optimizer.zero_grad()
        # Neither the student nor the teacher shall get a gradient.
        loss.backward(inputs=parameters)
        self.optimizer.step()
        return values

    def _adam(self, parameters):
        return torch.optim.Adam(parameters, lr=self.base.generator_learning_rate, betas=_BETAS)


class InversionSynthesizer(Synthesizer):
    """Makes a chunk by optimising latent vectors and a new generator together (CMI).

    Every round draws the generator anew. All samples of the chunk take part in every step, and
    those of the step with the least loss are kept. Their features go to a bank with which later
    samples are contrasted.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.bank = None
        self.head = self.head_optimizer = None

    def _start(self, round_):
        reset_parameters(self.generator)
        self.latent = self._latent(self.pool_size).requires_grad_(True)
        self.optimizer = self._adam([*self.generator.parameters(), self.latent])
        draws = torch.randint(self.domain.n_classes, (self.pool_size,), generator=self.rng)
        self.target = draws.to(self.latent.device)
        self.best_loss, self.best, self.best_features = math.inf, None, None

    def _step(self, student, statistics, round_):
        x = self.domain.scale(self.generator(self.latent))
        with PenultimateFeatures(self.teacher) as features:
            terms = self._terms(global_view(x, self.rng), student, statistics, round_, self.target)
            pair = [features.take()]
            if self.base.contrastive_weight:
                self.teacher(local_view(x, self.rng))
                pair.append(features.take())
                terms["contrastive"] = self._contrast(pair)
        values = self._descend(terms, round_)
        if values["generator"] < self.best_loss:
            self.best_loss, self.best = values["generator"], x.detach()
            self.best_features = [part.detach() for part in pair]
        return values

    def _contrast(self, pair):
        if self.head is None:
            width = pair[0].shape[1]
            self.head = nn.Sequential(
                nn.Linear(width, _HEAD_WIDTH), nn.ReLU(), nn.Linear(_HEAD_WIDTH, _HEAD_WIDTH)
            ).to(pair[0].device)
            self.head_optimizer = self._adam(self.head.parameters())
            self.bank = [part.detach()[:0] for part in pair]
        rows = torch.randperm(len(self.bank[0]), generator=self.rng)[:_N_NEGATIVES]
        negatives = [part[rows.to(part.device)] for part in self.bank]
        return contrastive_loss(pair, negatives, self.head, _CONTRAST_TEMPERATURE)

    def _descend(self, terms, round_):
        if "contrastive" not in terms:
            return super()._descend(terms, round_)
        self.head_optimizer.zero_grad()
        weighted = self.base.contrastive_weight * terms["contrastive"]
        weighted.backward(inputs=list(self.head.parameters()), retain_graph=True)
        values = super()._descend(terms, round_)
        self.head_optimizer.step()
        return values

    def _chunk(self):
        if self.best is None:  # no step was asked for
            return generate(self.generator, self.latent.detach(), self.domain)
        if self.bank is not None:
            self.bank = [
                torch.cat([old, new])[-_BANK_SIZE:]
                for old, new in zip(self.bank, self.best_features, strict=True)
            ]
        return self.best


class NoisyLayerSynthesizer(Synthesizer):
    """Makes a chunk from class embeddings behind noisy layers that are drawn every round (NAYER).

    One noisy layer serves all classes: with W_m ~ N(0, 1) the latent vector of class k is
    ``W_m e_k + b_m``, where e_k is a fixed random unit vector. The generator is drawn anew
    every tenth round.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        n_classes = self.domain.n_classes
        embeddings = torch.randn(n_classes, self.latent_dim, generator=self.rng)
        self.embeddings = nn.functional.normalize(embeddings, dim=1).to(self.domain.low.device)
        self.n_layers = math.ceil(self.pool_size / n_classes)
        self.layers_per_step = min(math.ceil(self.batch_size / n_classes), self.n_layers)

    def _start(self, round_):
        if round_ % _ROUNDS_PER_GENERATOR == 0 and round_ > 0:
            reset_parameters(self.generator)
        size = (self.n_layers, self.latent_dim, self.latent_dim)
        weight = torch.randn(size, generator=self.rng).to(self.embeddings.device)
        self.weight = weight.requires_grad_(True)
        self.bias = torch.zeros_like(weight[:, 0]).requires_grad_(True)
        self.optimizer = self._adam([*self.generator.parameters(), self.weight, self.bias])

    def _step(self, student, statistics, round_):
        layers = torch.randperm(self.n_layers, generator=self.rng)[: self.layers_per_step]
        latent, target = self._noisy(layers.to(self.embeddings.device))
        x = self.domain.scale(self.generator(latent))
        return self._descend(self._terms(x, student, statistics, round_, target), round_)

    def _noisy(self, layers):
        latent = torch.einsum("mij,kj->mki", self.weight[layers], self.embeddings)
        latent = latent + self.bias[layers, None]
        target = torch.arange(self.domain.n_classes, device=latent.device).repeat(len(layers))
        return latent.flatten(0, 1), target

    def _chunk(self):
        everything = torch.arange(self.n_layers, device=self.embeddings.device)
        with torch.no_grad():
            latent, _ = self._noisy(everything)
        return generate(self.generator, latent[: self.pool_size], self.domain)


SYNTHESIZERS = {
    "dfq": Synthesizer,
    "cmi": InversionSynthesizer,
    "nayer": NoisyLayerSynthesizer,
}


@torch.no_grad()
def generate(generator, latent, domain, chunk_size=512):
    """Samples of latent vectors, with the running statistics of the generator."""
    generator.eval()
    parts = [domain.scale(generator(part)) for part in latent.split(chunk_size)]
    return torch.cat(parts) if parts else domain.scale(latent.new_zeros(0, domain.low.numel()))
