"""Imports what is not there."""

import no_such_package_at_all
from torch import nn


class Net(nn.Module):
    table = no_such_package_at_all.table
