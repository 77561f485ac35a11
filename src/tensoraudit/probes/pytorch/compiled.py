"""Run a module through torch.compile."""

from __future__ import annotations

import torch

from tensoraudit.probes.protocol import JobUnsupported


def compile_module(module: torch.nn.Module) -> None:
    """Let a module compile itself, with the default backend, when it is called; another size compiles it anew.

    Raises JobUnsupported where that means nothing (a script) or cannot work (no C++ compiler): then the model is not at
    fault. What the compiler does not take shows when the module is called.
    """
    if isinstance(module, torch.jit.ScriptModule):
        raise JobUnsupported("a TorchScript program has a compiler of its own, which torch.compile leaves alone")
    _check_compiler()
    from torch import _dynamo
    from torch._inductor import config

    _dynamo.reset()  # what an earlier model was compiled to is not this one's
    config.compile_threads = 1  # its pool of processes would outlive the job
    module.compile()


def _check_compiler() -> None:
    from torch._inductor import cpp_builder

    try:
        cpp_builder.get_cpp_compiler()
    except Exception as problem:
        text = next(iter(str(problem).strip().splitlines()), type(problem).__name__)
        raise JobUnsupported(f"torch.compile finds no C++ compiler: {text}") from problem
