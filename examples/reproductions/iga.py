"""IGA: networks of coordinates learn fine detail earlier than by the plain gradient.

The claim (Shi et al., ICML 2025): multiplying the residuals by a matrix that balances the leading
eigenvalues of the empirical neural tangent kernel raises the fidelity that a coordinate network
reaches in a given number of steps, more than a Fourier reparametrisation of the weights (FR) or
batch normalisation (BN) does.

- images: photographs of scikit-image, centre crops averaged down to 64 or 128 pixels a side; peak
  signal-to-noise ratio (PSNR, dB) of the best weights on the pixels;
- solid: a sphere carved by a gyroid, 32 points a side; intersection over union on these points,
  and on a grid twice as fine;
- waves: a sum of five sines, 256 points; relative error of the Fourier coefficient of the highest.

All trainings get the best of three learning rates: the plain gradient, where a gain over it is
claimed, by its mean over all seeds, everything else by the first seed. The rate falls to a tenth
after four fifths of the steps, for all. ``seconds`` are of processor time on one thread;
``seconds to plain`` is the time after which IGA has reached the best PSNR of the plain gradient.

``--quick`` uses a photograph of scikit-learn, and few steps.
"""

import sys
import time
from dataclasses import dataclass

import numpy as np
import torch
from _report import Measurement, at_least, at_most, mean_and_spread, reproduce
from sklearn.datasets import load_sample_image

from skml.datasets._wheel_data import find_wheel_file
from skml.implicit import INRRegressor
from skml.metrics import intersection_over_union
from skml.utils._progress import progress

SEEDS = [0, 1, 2]
RELU_RATES = (2e-3, 5e-3, 1e-2)
SINE_RATES = (1e-3, 2e-3, 4e-3)
N_BALANCED = (0, 2, 4, 8, 16)
# Scale of the Fourier basis: with 0.01 the weights of a sine network move too far in a step.
FR_ALPHA = {"siren": 1e-3, "relu": 1e-2, "relu_pe": 1e-2}


@dataclass(frozen=True)
class Case:
    """A signal and the network that is fitted to it."""

    name: str
    signal: str
    side: int
    architecture: str
    hidden_width: int
    max_iter: int
    trainings: tuple = ("standard", "fr", "bn")
    update_interval: int = 10
    colour: bool = True
    gain: float | None = None  # the mean gain over plain training that is claimed, dB
    every_seed: bool = False  # whether each seed has to show it

    @property
    def rates(self):
        return RELU_RATES if self.architecture.startswith("relu") else SINE_RATES


PLAIN = ("standard",)
CASES = (
    Case("SIREN 128", "astronaut", 128, "siren", 64, 300, ("standard", "fr"), 1, gain=1.0),
    Case("PE 128", "astronaut", 128, "relu_pe", 64, 300, PLAIN, gain=2.0),
    Case("ReLU 64", "camera", 64, "relu", 128, 400, colour=False, gain=1.5),
    Case("PE 64", "astronaut", 64, "relu_pe", 128, 300, gain=5.0, every_seed=True),
    Case("FINER 128", "astronaut", 128, "finer", 64, 300, PLAIN, 1, gain=0.0),
    Case("PE 64", "coffee", 64, "relu_pe", 128, 300, PLAIN),
    Case("PE 64", "chelsea", 64, "relu_pe", 128, 300, PLAIN),
    Case("PE 32", "solid", 32, "relu_pe", 64, 200, PLAIN),
)
QUICK = (
    Case("PE 24", "china", 24, "relu_pe", 32, 60, PLAIN, gain=0.0),
    Case("PE 8", "solid", 8, "relu_pe", 16, 10, PLAIN),
)


# Signals.


def photograph(name, side, colour):
    """A centre crop averaged down to side x side pixels, values from 0 to 1."""
    if name == "china":
        pixels = load_sample_image("china.jpg")
    else:
        from PIL import Image

        path = find_wheel_file(
            "scikit-image", f"skimage/data/{name}.png", needed_by="The reproduction of IGA"
        )
        pixels = np.asarray(Image.open(path).convert("RGB" if colour else "L"))
    factor = min(pixels.shape[:2]) // side
    top, left = ((n - factor * side) // 2 for n in pixels.shape[:2])
    crop = pixels[top : top + factor * side, left : left + factor * side] / 255
    blocks = crop.reshape(side, factor, side, factor, -1).mean(axis=(1, 3))
    return blocks.reshape(side * side, -1)


def grid(side, d):
    axis = np.linspace(-1, 1, side)
    return np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)


def solid(X):
    """Whether points are inside a sphere carved by a gyroid."""
    x, y, z = 7 * X.T
    gyroid = np.sin(x) * np.cos(y) + np.sin(y) * np.cos(z) + np.sin(z) * np.cos(x)
    return ((X**2).sum(axis=1) < 0.8) & (np.abs(gyroid) < 0.45)


# One fit.


def train(case, training, learning_rate, seed):
    """Fit once; the scores, the curve and the processor time."""
    if case.signal == "solid":
        X = grid(case.side, 3)
        y = solid(X).astype(float)
    else:
        X, y = grid(case.side, 2), photograph(case.signal, case.side, case.colour)
    model = INRRegressor(
        case.architecture,
        hidden_width=case.hidden_width,
        training=training,
        update_interval=case.update_interval,
        fr_params={"alpha": FR_ALPHA[case.architecture]} if training == "fr" else None,
        learning_rate=learning_rate,
        lr_decay_at=4 * case.max_iter // 5,
        max_iter=case.max_iter,
        random_state=seed,
    )
    start = time.process_time()
    model.fit(X, y)
    result = {
        "seconds": time.process_time() - start,
        "psnr": max(model.psnr_curve_),
        "curve": model.psnr_curve_,
    }
    if case.signal == "solid":
        finer = grid(2 * case.side - 1, 3)
        result["iou"] = intersection_over_union(y, model.predict(X))
        result["iou_finer"] = intersection_over_union(solid(finer), model.predict(finer))
    return result


def train_wave(n_balanced, seed, max_iter):
    """Relative error of the highest of five waves in the values of the fitted network."""
    x = np.linspace(-1, 1, 256, endpoint=False).reshape(-1, 1)
    y = sum(np.sin(2 * np.pi * k * x.ravel()) for k in (2, 4, 6, 8, 10))
    model = INRRegressor(
        "relu",
        hidden_width=128,
        n_balanced=n_balanced,
        group_size=4,
        update_interval=1,
        learning_rate=1e-3,
        max_iter=max_iter,
        random_state=seed,
    ).fit(x, y)
    # Two units long, the domain holds twice as many waves as their number per unit.
    true, found = np.fft.rfft(y)[20], np.fft.rfft(model.predict(x))[20]
    return abs(found - true) / abs(true)


# Tables.


def measure(quick):
    # One thread: the networks are small, and the sums do not depend on the machine's cores.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        seeds = SEEDS[:1] if quick else SEEDS
        table, gates = [], []
        for case in QUICK if quick else CASES:
            rows, results = case_rows(case, seeds)
            table += rows
            gates += case_gates(case, results, quick)
        rows, errors = wave_rows(seeds, quick)
        table += rows
    finally:
        torch.set_num_threads(threads)
    ratio = float(np.mean(errors[N_BALANCED[-1]]) / np.mean(errors[0]))
    gates.append(at_most("waves: error at k=10, end=16 over end=0", ratio, 2.0 if quick else 0.6))
    packages = ("torch",) if quick else ("torch", "scikit-image", "pillow")
    return Measurement(table, gates, seeds, packages=packages)


def case_rows(case, seeds):
    """Rows of all trainings of a case, and for each the results by seed."""
    results = {}
    jobs = progress([*case.trainings, "iga"], desc=f"{case.name}, {case.signal}")
    for training in jobs:
        on_all = training == "standard" and case.gain is not None
        results[training] = tuned(case, training, seeds, len(seeds) if on_all else 1)
    plain = results["standard"][1]
    rows = []
    for training, (rate, runs) in results.items():
        row = {
            "experiment": f"{case.name}, {case.signal}",
            "training": training,
            "learning_rate": rate,
            **mean_and_spread("psnr", [run["psnr"] for run in runs]),
        }
        for key in ("iou", "iou_finer"):
            if key in runs[0]:
                row |= mean_and_spread(key, [run[key] for run in runs])
        row["seconds"] = float(np.mean([run["seconds"] for run in runs]))
        if training == "iga":
            row["seconds to plain"] = time_to_reach(runs, [run["psnr"] for run in plain])
        rows.append(row)
    return rows, {training: runs for training, (_, runs) in results.items()}


def tuned(case, training, seeds, n_tuned):
    """The best learning rate by the first seeds, and the results of all seeds with it."""
    found = {
        rate: [train(case, training, rate, seed) for seed in seeds[:n_tuned]] for rate in case.rates
    }
    best = max(found, key=lambda rate: np.mean([run["psnr"] for run in found[rate]]))
    return best, found[best] + [train(case, training, best, seed) for seed in seeds[n_tuned:]]


def time_to_reach(runs, psnrs):
    """Mean time until the curves reach the values of their seeds; None if one never does."""
    times = []
    for run, psnr in zip(runs, psnrs, strict=True):
        reached = np.flatnonzero(np.array(run["curve"]) >= psnr)
        if len(reached) == 0:
            return None
        times.append(run["seconds"] * (reached[0] + 1) / len(run["curve"]))
    return float(np.mean(times))


def case_gates(case, results, quick):
    if case.gain is None:
        return []
    gains = [
        run["psnr"] - plain["psnr"]
        for run, plain in zip(results["iga"], results["standard"], strict=True)
    ]
    name = f"{case.name}, {case.signal}: gain in PSNR, "
    if case.every_seed and not quick:
        return [at_least(name + "least of the seeds", min(gains), case.gain)]
    return [at_least(name + "mean of the seeds", float(np.mean(gains)), case.gain)]


def wave_rows(seeds, quick):
    errors = {
        n_balanced: [train_wave(n_balanced, seed, 20 if quick else 800) for seed in seeds]
        for n_balanced in progress(N_BALANCED, desc="waves")
    }
    rows = [
        {
            "experiment": "ReLU, five waves",
            "training": f"iga, n_balanced={n_balanced}",
            "learning_rate": 1e-3,
            **mean_and_spread("error", values),
        }
        for n_balanced, values in errors.items()
    ]
    return rows, errors


if __name__ == "__main__":
    sys.exit(reproduce("iga", measure, description=__doc__))
