"""Print the version, which is written in one place only: skml/__init__.py."""

import re
from pathlib import Path

source = Path(__file__).parents[1] / "skml" / "__init__.py"
print(re.search(r'^__version__ = "([^"]+)"', source.read_text(), re.MULTILINE).group(1))
