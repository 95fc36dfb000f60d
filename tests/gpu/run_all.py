"""All that needs a CUDA device, in one run of less than six minutes.

::

    python tests/gpu/run_all.py              # on a device, with a torch for CUDA
    python tests/gpu/run_all.py --rehearse   # tiny shapes in numba's simulator, without a device

First every kernel is compared with float64, on data that is new in every run and in outputs that
held NaN. Then each is timed beside cuBLAS in half precision: one hundred launches in one CUDA
graph, over weights in rotation that are four times the size of the cache, for both sides. The
table is printed and written to ``docs/benchmarks/quantized_gemm_cuda.json``, with the name of the
device, the bandwidth of a copy, and whether the targets are met. The exit status says whether all
products were right; times do not change it.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "docs" / "benchmarks" / "quantized_gemm_cuda.json"


def main(arguments=None):
    """Run the checks, then the timings; return the exit status."""
    options = parse(arguments)
    sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]
    start = time.monotonic()
    if options.rehearse:
        # Numba reads this when it is imported, which nothing has done yet.
        os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
        from tests.quantization._cuda_simulator import take_turns

        take_turns()
    from _checks import Checks
    from _device import SimulatedDevice, TorchDevice
    from _timings import Timings

    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(3))
    device = SimulatedDevice(seed) if options.rehearse else TorchDevice()
    print(f"{device.name}; seed {seed}")
    checks = Checks(device, seed)
    checks.run()
    right = [result["holds"] for result in checks.results]
    print(f"{sum(right)} of {len(right)} products right, {time.monotonic() - start:.0f} s")
    for name in checks.left_out:
        print(f"left out: {name}")
    sizes = (40,) if options.rehearse else (4096, 8192)
    samples = (1, 9) if options.rehearse else (1, 2, 4, 8, 16, 32, 64)
    # What the targets are about comes first, should the time run out.
    widths = (4,) if options.rehearse else (4, 3, 2)
    timings = Timings(device, sizes[::-1], samples, widths, start + options.seconds)
    timings.run()
    gates = timings.gates()
    for gate in gates:
        verdict = "holds" if gate["holds"] else "MISSED"
        print(f"{gate['name']}: {gate['value']:.2f}, target {gate['bound']:g}: {verdict}")
    for name in timings.left_out:
        print(f"left out for want of time: {name}")
    seconds = time.monotonic() - start
    print(f"{seconds:.0f} s")
    path = options.output or (None if options.rehearse else RECORD)
    if path is not None:
        write(path, device, checks, timings, gates, seconds)
        print(f"written: {Path(path).name}")
    return 0 if all(right) else 1


def parse(arguments):
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rehearse", action="store_true", help="tiny shapes in the simulator")
    parser.add_argument("--seed", type=int, help="seed of the data; new in every run by default")
    parser.add_argument(
        "--seconds", type=float, default=330, help="begin no measurement after this time"
    )
    parser.add_argument("--output", type=Path, help="where to write the record")
    return parser.parse_args(arguments)


def write(path, device, checks, timings, gates, seconds):
    """Write the record."""
    from skml.utils._environment import machine_summary, package_versions

    content = {
        "page": "quantized_gemm_cuda",
        "device": device.facts(),
        "copy_bytes_per_s": timings.copy_rate,
        "rows": timings.rows,
        "gates": gates,
        "checks": {
            "count": len(checks.results),
            "failed": [result for result in checks.results if not result["holds"]],
            "left_out": checks.left_out + timings.left_out,
        },
        "versions": package_versions("torch", "numba", "numba-cuda", "nvidia-cuda-nvrtc"),
        "machine": machine_summary(),
        "seconds": seconds,
    }
    text = json.dumps(content, indent=1, default=lambda number: number.item())
    Path(path).write_text(text.replace("NaN", "null") + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
