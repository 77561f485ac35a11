"""A script without a guard."""

import sys

sys.exit("usage: exits.py FILE")
