"""What every reproduction shares: its command line, its printed table, its gates, its record.

A reproduction is a script whose ``measure`` function takes a truth value (quick or full) and
returns a :class:`Measurement`; the last lines of the script are ::

    if __name__ == "__main__":
        sys.exit(reproduce("page_name", measure, description=__doc__))

The command line is the same for all:

``--check``
    exit with status 1 when a gate does not hold;
``--quick``
    small data and few seeds, seconds instead of minutes; a trial of the script, whose figures
    mean little, so it never replaces the record in ``docs/reproductions``;
``--output FILE``
    write the record to FILE.

The record is a JSON object with the keys ``page``, ``table`` (list of row dicts), ``gates`` (list
of ``{name, value, bound, holds}`` where bound is ``"<= number"`` or ``">= number"``), ``seeds``,
``versions``, ``machine``, ``seconds`` and ``quick``. Where a row holds ``score`` and ``score_sd``,
the printed table shows them as one column, mean ± standard deviation over the seeds.
"""

import argparse
import json
import math
import operator
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from skml.utils._environment import machine_summary, package_versions

RECORDS = Path(__file__).resolve().parents[2] / "docs" / "reproductions"
_RELATIONS = {"<=": operator.le, ">=": operator.ge}


@dataclass
class Measurement:
    """What a reproduction has measured.

    Attributes
    ----------
    table : list of dict
        One row per setting; values are str, int, float, bool or None.
    gates : list of dict
        Made by :func:`at_most` and :func:`at_least`.
    seeds : list of int
        The seeds over which means and spreads are taken.
    packages : tuple of str
        Distributions beyond the core whose versions matter.
    seconds : float or None
        What the parts took together, if some may have been kept from an earlier run; None: the
        time of this run.
    """

    table: list
    gates: list
    seeds: list
    packages: tuple = field(default=())
    seconds: float | None = None


def at_most(name, value, bound):
    """Gate that holds when value <= bound; NaN never holds."""
    return _gate(name, value, "<=", bound)


def at_least(name, value, bound):
    """Gate that holds when value >= bound; NaN never holds."""
    return _gate(name, value, ">=", bound)


def gate_holds(gate):
    """Work out from a recorded gate's value and bound whether it holds."""
    relation, bound = gate["bound"].split()
    return gate["value"] is not None and _RELATIONS[relation](gate["value"], float(bound))


def _gate(name, value, relation, bound):
    value = None if math.isnan(value) else float(value)
    gate = {"name": name, "value": value, "bound": f"{relation} {float(bound)!r}"}
    return {**gate, "holds": bool(gate_holds(gate))}


def mean_and_spread(name, values):
    """Two entries of a row: the mean over the seeds and its sample standard deviation."""
    values = np.asarray(values, dtype=float)
    spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return {name: float(values.mean()), f"{name}_sd": spread}


def reproduce(page, measure, *, description="", arguments=None):
    """Run a reproduction from the command line.

    Parameters
    ----------
    page : str
        Name of the method's page, which names the record.
    measure : callable
        ``measure(quick)`` returns a :class:`Measurement`.
    description : str
        Help text; the module's docstring.
    arguments : list of str or None
        Command-line arguments; those of the process when None.

    Returns
    -------
    int
        Exit status: 1 if ``--check`` was asked for and a gate does not hold, else 0.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="exit 1 when a gate is missed")
    parser.add_argument("--quick", action="store_true", help="small sizes; keeps no record")
    parser.add_argument("--output", type=Path, help="where to write the record (JSON)")
    options = parser.parse_args(arguments)

    start = time.perf_counter()
    measured = measure(options.quick)
    seconds = time.perf_counter() - start if measured.seconds is None else measured.seconds
    record = {
        "page": page,
        "table": measured.table,
        "gates": measured.gates,
        "seeds": list(measured.seeds),
        "versions": package_versions(*measured.packages),
        "machine": machine_summary(),
        "seconds": round(seconds, 1),
        "quick": options.quick,
    }
    print_table(measured.table)
    print_gates(measured.gates)
    print(f"\n{record['seconds']} s on {record['machine']}; seeds {record['seeds']}")

    output = options.output
    if output is None and not options.quick:
        output = RECORDS / f"{page}.json"
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        # NaN is no JSON: a row that has none to show says None.
        output.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        print(f"record: {output.name}")
    missed = not all(gate["holds"] for gate in measured.gates)
    return 1 if options.check and missed else 0


def print_table(rows):
    """Print row dicts as an aligned table; a key and its ``_sd`` share one column."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    keys = [key for key in keys if not (key.endswith("_sd") and key[:-3] in keys)]
    lines = [keys, *([_cell(row, key) for key in keys] for row in rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(keys))]
    print()
    for number, line in enumerate(lines):
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)))
        if number == 0:
            print("  ".join("-" * width for width in widths))


def print_gates(gates):
    """Print each claim, what was measured and whether it holds."""
    print()
    for gate in gates:
        verdict = "holds " if gate["holds"] else "MISSED"
        value = "none" if gate["value"] is None else f"{gate['value']:.4f}"
        relation, bound = gate["bound"].split()
        print(f"{verdict}  {gate['name']}: {value} {relation} {float(bound):.4f}")


def _cell(row, key):
    value = row.get(key)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    if f"{key}_sd" in row:
        return f"{value:.3f} ± {row[f'{key}_sd']:.3f}"
    return f"{value:.4g}"
