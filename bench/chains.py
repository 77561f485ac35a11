"""The work that no audit of the small CNN can spare, one chain a process: `chains.py onnx|tensorflow|jax FOLDER`.

Each starts its frameworks, converts by the tool that an audit ships, and runs both sides twice at two batch sizes.
Prints nothing: what counts is how long the process takes.
"""

import contextlib
import io
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
HERE = Path(__file__).parent
SIZES = (2, 5)


def source():
    import torch

    sys.path.append(str(HERE))
    import cnn

    model, (sample,) = cnn.make_model(), cnn.sample_inputs()
    batches = [torch.cat([sample] * size)[:size] for size in SIZES]
    with torch.no_grad():
        for batch in (*batches, *batches):
            model(batch)
    return torch, model, sample, [batch.numpy() for batch in batches]


def to_onnx(folder):
    torch, model, sample, batches = source()
    path = folder / "model.onnx"
    how = {"dynamic_shapes": ({0: torch.export.Dim.DYNAMIC},), "external_data": False, "verbose": False}
    torch.onnx.export(model, (sample,), path, dynamo=True, **how)
    return path, batches


def onnx(folder):
    path, batches = to_onnx(folder)
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for batch in (*batches, *batches):
        session.run(None, {session.get_inputs()[0].name: batch})


def tensorflow(folder):
    path, batches = to_onnx(folder)
    import onnx2tf
    import tensorflow as tf

    onnx2tf.convert(
        input_onnx_file_path=str(path),
        output_folder_path=str(folder / "saved"),
        not_use_onnxsim=True,
        keep_ncw_or_nchw_or_ncdhw_input_names=["input"],
        verbosity="error",
    )
    run = tf.saved_model.load(str(folder / "saved")).signatures["serving_default"]
    name = next(iter(run.structured_input_signature[1]))
    for batch in (*batches, *batches):
        run(**{name: tf.constant(batch)})


def jax(folder):
    torch, model, sample, batches = source()
    import jax

    from tensoraudit.routes.torch_to_jax_torchax import translate

    program = torch.export.export(model, (sample,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    translation = translate(program)
    states = {name: translation.array(tensor) for name, tensor in translation.states.items()}
    run = jax.jit(lambda leaf: translation.function(states, [leaf]))
    for batch in (*batches, *batches):
        jax.block_until_ready(run(batch))


if __name__ == "__main__":
    with contextlib.redirect_stdout(io.StringIO()):
        {"onnx": onnx, "tensorflow": tensorflow, "jax": jax}[sys.argv[1]](Path(sys.argv[2]))
