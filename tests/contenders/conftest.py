"""The workers that these tests start import fake players from this directory."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
