"""Create ONNX Runtime sessions with every setting pinned, and tell which provider really runs.

`get_available_providers()` lists what a build was compiled for; a session that could not have CUDA falls back to the
CPU without an error. So the session itself is asked, and its graph assignment where the runtime records one. It must
not know samples or results.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from io import StringIO
from typing import Any, NamedTuple

from tensoraudit.probes.onnxruntime.explain import explain
from tensoraudit.probes.onnxruntime.model_file import file_key, load_structure
from tensoraudit.probes.protocol import JobFailed, JobUnsupported, Session

CACHE = "onnxruntime.sessions"
KEPT_SESSIONS = 2

DEFAULT_THREADS = 2
"""Fixed, not the machine's core count: reductions are split by thread, so results would differ between machines."""

LEVELS = {
    "disable": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
"""Optimisation levels from none to all, and their names in ONNX Runtime."""

CUDA = "CUDAExecutionProvider"
CPU = "CPUExecutionProvider"
# TF32 rounds float32 to 10 bits of mantissa; the exhaustive search picks another cuDNN algorithm from run to run.
CUDA_OPTIONS = {"use_tf32": "0", "cudnn_conv_algo_search": "DEFAULT"}
PROVIDERS: dict[str, list[Any]] = {"cpu": [CPU], "cuda": [(CUDA, CUDA_OPTIONS), CPU]}

FOLDER_KEY = "session.model_external_initializers_file_folder_path"
PLACEMENT_KEY = "session.record_ep_graph_assignment_info"
SPINNING_KEY = "session.intra_op.allow_spinning"
FATAL = 4


class Settings(NamedTuple):
    """How to create a session; the same settings give the same session."""

    provider: str = "cpu"
    level: str = "all"
    threads: int = DEFAULT_THREADS


class Opened(NamedTuple):
    """A session of ONNX Runtime, the provider it really holds ("cpu" or "cuda"), and its settings for the report."""

    runtime: Any
    provider: str
    settings: dict[str, Any]


def settings_from(params: dict[str, Any]) -> Settings:
    """Read provider, level and threads of a job. Raises JobFailed for a name that is not known."""
    settings = Settings(
        params.get("provider") or "cpu", params.get("level") or "all", int(params.get("threads") or DEFAULT_THREADS)
    )
    if settings.provider not in PROVIDERS:
        raise JobFailed(f"Unknown provider {settings.provider!r}; use one of {', '.join(PROVIDERS)}")
    if settings.level not in LEVELS:
        raise JobFailed(f"Unknown optimisation level {settings.level!r}; use one of {', '.join(LEVELS)}")
    return settings


def open_file(path: str, settings: Settings, session: Session) -> Opened:
    """Return a session on a model file, from the cache when the file has not changed.

    Raises JobFailed when the runtime refuses the model, JobUnsupported when the provider is not active.
    """
    cache = session.cache.setdefault(CACHE, {})
    key = (*file_key(path), *settings)
    if key not in cache:
        load_structure(path, session)  # hostile external data is refused before the runtime sees the file
        while len(cache) >= KEPT_SESSIONS:
            cache.pop(next(iter(cache)))
        cache[key] = _open(path, settings, None)
    opened: Opened = cache[key]
    return opened


def open_bytes(model: bytes, folder: str | None, settings: Settings) -> Opened:
    """Return a session on a serialised model whose external data, if any, lies in `folder`. Raises as `open_file`."""
    return _open(model, settings, folder)


def session_options(settings: Settings, folder: str | None = None) -> Any:
    """Return SessionOptions with all that can move a result pinned."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, LEVELS[settings.level])
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.intra_op_num_threads = settings.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = FATAL
    if hasattr(options, "use_deterministic_compute"):
        options.use_deterministic_compute = True
    options.add_session_config_entry(SPINNING_KEY, "0")  # a warm worker must not burn a core between runs
    options.add_session_config_entry(PLACEMENT_KEY, "1")
    if folder is not None:
        options.add_session_config_entry(FOLDER_KEY, folder)
    return options


def _open(model: str | bytes, settings: Settings, folder: str | None) -> Opened:
    import onnxruntime

    if settings.provider == "cuda":
        preload_cuda()
    # Only there is the runtime's log needed; elsewhere it stays where a crash can be read from.
    capture = captured_stderr() if settings.provider == "cuda" else nullcontext([""])
    with capture as said:
        try:
            runtime = onnxruntime.InferenceSession(
                model,
                session_options(settings, folder),
                providers=PROVIDERS[settings.provider],
                enable_fallback=0,
            )
        except Exception as problem:
            sentence, details = explain(problem)
            raise JobFailed(sentence, text=str(problem), **details) from None
    if settings.provider == "cuda" and CUDA not in runtime.get_providers():
        raise JobUnsupported(f"CUDA provider not active: {why_inactive(said[0])}", providers=runtime.get_providers())
    return Opened(runtime, settings.provider, _report(runtime, settings))


def _report(runtime: Any, settings: Settings) -> dict[str, Any]:
    import onnxruntime

    report: dict[str, Any] = {
        "runtime": f"onnxruntime {onnxruntime.__version__}",
        "providers": list(runtime.get_providers()),
        "level": settings.level,
        "threads": settings.threads,
        "deterministic_compute": hasattr(runtime.get_session_options(), "use_deterministic_compute"),
    }
    if settings.provider == "cuda":
        report["cuda"] = dict(CUDA_OPTIONS)
    placed = placement(runtime)
    return {**report, "placement": placed} if placed else report


def placement(runtime: Any) -> dict[str, int]:
    """Return how many nodes each provider runs, after optimisation; empty where the runtime does not record it."""
    try:
        subgraphs = runtime.get_provider_graph_assignment_info()
    except Exception:  # an older runtime without the call, or a session without the record
        return {}
    counts: Counter[str] = Counter()
    for subgraph in subgraphs:
        counts[subgraph.ep_name] += len(subgraph.get_nodes())
    return dict(sorted(counts.items()))


def preload_cuda() -> None:
    """Load CUDA libraries that were installed as wheels; where there are none the session says so itself."""
    import onnxruntime

    if hasattr(onnxruntime, "preload_dlls"):
        # It prints what it does not find, to both streams.
        with captured_stderr(), redirect_stdout(StringIO()):
            onnxruntime.preload_dlls(msvc=False)


@contextmanager
def captured_stderr() -> Iterator[list[str]]:
    """Collect what C++ code writes to standard error; the list holds one text afterwards.

    The runtime tells why a provider could not be loaded nowhere else.
    """
    said = [""]
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield said
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            said[0] = file.read(1 << 16).decode("utf-8", "replace")


def why_inactive(said: str) -> str:
    """Return the reason in what the runtime logged while it failed to load its CUDA provider."""
    _, found, rest = said.partition("with error: ")
    if found:
        return rest.splitlines()[0].strip()
    for line in said.splitlines():
        if "CUDA" in line and "rror" in line:
            return line.split("] ", 1)[-1].strip()[:300]
    return f"the session fell back to {CPU}; this build, driver or machine has no usable CUDA device"
