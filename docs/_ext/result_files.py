"""Read the JSON files that reproductions and benchmarks write, and refuse malformed ones."""

import json
from pathlib import Path

REPRODUCTION_KEYS = frozenset({"page", "table", "gates", "seeds", "versions", "machine", "seconds"})
GATE_KEYS = frozenset({"name", "value", "bound", "holds"})
BENCHMARK_KEYS = frozenset({"page", "rows", "versions", "machine"})
ROW_KEYS = frozenset({"name", "ours_s", "peer", "peer_s", "ratio", "goal", "holds"})


def read_results(folder, keys, row_field, row_keys):
    """Return the checked content of every JSON file of a folder, sorted by file name.

    Parameters
    ----------
    folder : path
        Folder to look in; it may be empty or absent.
    keys, row_keys : set of str
        Keys that each file, and each dict in its list ``row_field``, must have.
    row_field : str
        Name of the list whose dicts are checked.

    Returns
    -------
    list of dict
        One per file.
    """
    results = []
    for path in sorted(Path(folder).glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        missing = keys - content.keys()
        if missing:
            raise ValueError(f"{path.name} lacks {sorted(missing)}")
        for row in content[row_field]:
            missing = row_keys - row.keys()
            if missing:
                raise ValueError(f"{path.name}: an entry of {row_field!r} lacks {sorted(missing)}")
        results.append(content)
    return results


def read_reproductions(folder):
    """Results of examples/reproductions, as written to docs/reproductions."""
    return read_results(folder, REPRODUCTION_KEYS, "gates", GATE_KEYS)


def read_benchmarks(folder):
    """Results of tests/benchmarks, as written to docs/benchmarks."""
    return read_results(folder, BENCHMARK_KEYS, "rows", ROW_KEYS)
