"""Let the benchmarks import their shared plumbing by its bare name."""

import sys
from pathlib import Path

# pytest's importlib mode leaves sys.path alone, so `import _timing` would not be found.
sys.path.insert(0, str(Path(__file__).parent))
