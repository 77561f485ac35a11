"""Imports what is not there."""

import torch
import no_such_package_at_all
