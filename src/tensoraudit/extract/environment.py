"""Facts about one side's environment: installed packages, variables that frameworks read, devices.

Variables are taken by name from a closed list of prefixes and names, and never when the name speaks of a secret: no
token may end in a report. Packages and devices of another interpreter come from its worker's hello.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from typing import Any, Final

from tensoraudit.facts import Device, Fact, Package, Side, Variable

PREFIXES: Final = (
    "TORCH_", "TORCHDYNAMO_", "TORCHINDUCTOR_", "PYTORCH_", "CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_", "NCCL_", "GLOO_",
    "ORT_", "ONNXRUNTIME_", "ONNX_", "OMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "OPENBLAS_", "NUMEXPR_", "VECLIB_",
    "TF_", "XLA_", "JAX_", "TPU_", "KERAS_", "LIBTPU_", "TRITON_", "ATEN_", "HIP_", "ROCR_",
)  # fmt: skip
"""The variables that PyTorch, ONNX Runtime, TensorFlow, JAX, Keras and the libraries under them read."""

NAMES: Final = frozenset({
    "PYTHONHASHSEED", "PYTHONOPTIMIZE", "LD_PRELOAD", "MALLOC_CONF", "DYLD_INSERT_LIBRARIES", "GOMP_CPU_AFFINITY",
    "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "TOKENIZERS_PARALLELISM", "HF_HUB_OFFLINE",
    "TRANSFORMERS_OFFLINE", "SLURM_NTASKS",
})  # fmt: skip
"""Single variables beside the prefixes."""

_SECRET: Final = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|PRIVATE|AUTH|COOKIE|SESSION|LICENSE|(?:^|_)KEY(?:$|_)|API_?KEY|ACCESS_?KEY"
)
_ADDRESS_WITH_LOGIN: Final = re.compile(r"://[^/\s@]+@")
_LONGEST_VALUE: Final = 2000


def read_environment(
    side: Side,
    packages: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    devices: Iterable[Any] = (),
) -> list[Fact]:
    """Return Package, Variable and Device facts of one side.

    `packages` maps distribution names to versions (None: those of this interpreter, and itself as `python`);
    `variables` are an environment (None: that of this process); `devices` are the rows of a worker's hello, with `kind`
    and, where known, `name`, `capability` and `driver`.
    """
    environment = os.environ if variables is None else variables
    names = sorted(name for name in environment if _is_read(name, environment[name]))
    return [
        *_packages(_installed() if packages is None else packages, side),
        *(Variable(name, environment[name][:_LONGEST_VALUE], side) for name in names),
        *(_device(row, side) for row in devices),
    ]


def normalised(name: str) -> str:
    """Return a distribution's name as package indexes compare it (PEP 503): lower case, one hyphen for `-_.`."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _installed() -> dict[str, str]:
    """Return every installed distribution; of two with one name the first on the path, which is the one imported."""
    found = {"python": platform.python_version()}
    for distribution in metadata.distributions():
        headers = distribution.metadata  # parsed anew each time it is asked for
        if headers["Name"]:
            found.setdefault(normalised(headers["Name"]), headers["Version"])
    return found


def _packages(found: Mapping[str, str], side: Side) -> Iterator[Package]:
    versions = {normalised(name): version for name, version in found.items()}
    yield from (Package(name, versions[name], side) for name in sorted(versions))


def _is_read(name: str, value: str) -> bool:
    if not (name.startswith(PREFIXES) or name in NAMES) or _SECRET.search(name):
        return False
    return not _ADDRESS_WITH_LOGIN.search(value)


def _device(row: Mapping[str, Any], side: Side) -> Device:
    kind, name, capability, driver = (str(row.get(key) or "") for key in ("kind", "name", "capability", "driver"))
    return Device(kind, name, capability, driver, side)
