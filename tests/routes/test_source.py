"""The user's line in stacks, exceptions and texts."""

import inspect

import numpy as np
import torch

from tensoraudit.routes.source import (
    chain,
    error_place,
    frame_place,
    in_package,
    is_machinery,
    stack_place,
    text_place,
)

HERE = __file__


def test_whose_file_it_is():
    assert not is_machinery(HERE)
    assert is_machinery(torch.nn.functional.__file__)
    assert is_machinery(np.linalg.__file__)
    assert is_machinery(inspect.__file__)
    assert is_machinery("<eval_with_key>.3")
    assert is_machinery("/opt/conda/lib/python3.10/site-packages/torch/nn/modules/conv.py")
    assert not is_machinery("/opt/conda/lib/python3.10/site-packages/transformers/models/bert/modeling_bert.py")
    assert not is_machinery("/home/me/torch/net.py")
    assert in_package(torch.__file__) and in_package(inspect.__file__) and not in_package(HERE)


def test_innermost_frame_of_the_current_stack():
    found = frame_place()
    assert found["path"] == HERE
    assert found["text"] == "found = frame_place()"


def test_an_error_inside_the_framework_belongs_to_the_line_that_called_it():
    try:
        torch.ones(2) @ torch.ones(3)  # here
    except RuntimeError as problem:
        assert error_place(problem)["text"].endswith("# here")


def test_chain_ends_with_the_root_cause():
    try:
        try:
            raise KeyError("root")
        except KeyError as problem:
            raise ValueError("outer") from problem
    except ValueError as problem:
        assert [type(each) for each in chain(problem)] == [ValueError, KeyError]


def test_torch_exports_own_words():
    message = 'Bad\n\nThe following call raised this error:\n  File "/a/net.py", line 5, in forward\n    if x > 0:\n'
    assert text_place(message) == {"path": "/a/net.py", "line": 5, "text": "if x > 0:"}


SCRIPT = """The following operation failed in the TorchScript interpreter.
Traceback of TorchScript, serialized code (most recent call last):
  File "code/__torch__/net.py", line 12, in forward
    _9 = torch.__not__(bool(torch.len(_context)))
                            ~~~~~~~~~ <--- HERE
Traceback of TorchScript, original code (most recent call last):
  File "/home/me/net.py", line 693, in forward
            self.reset_states()

        if not len(self._context):
               ~~~ <--- HERE
            self._context = torch.zeros(1)
RuntimeError: no
"""


def test_a_scripts_original_code_comes_before_its_serialised_code():
    assert text_place(SCRIPT) == {"path": "/home/me/net.py", "line": 693, "text": "if not len(self._context):"}


def test_a_range_over_several_lines_starts_at_the_first():
    text = '  File "/home/me/net.py", line 8\n    pass\n    if a:\n    ~~~~~\n        b()\n        ~~~ <--- HERE\n'
    assert text_place(text)["text"] == "if a:"


def test_printed_stacks():
    fx = f'  File "/x/site-packages/torch/nn/linear.py", line 3, in f\n    y\n  File "{HERE}", line 1, in g\n    z\n'
    assert stack_place(fx)["line"] == 1
    traced = f"/x/site-packages/torch/nn/functional.py(9): relu\n{HERE}(1): forward\n/y/train.py(5): main\n"
    assert stack_place(traced)["path"] == HERE
    assert stack_place(None) is None
    assert stack_place("nothing here") is None


def test_the_innermost_line_that_autograph_names():
    text = (
        "in user code:\n\n"
        '    File "/a/outer.py", line 3, in flat  *\n        found = model.call(x)\n'
        '    File "/a/model.py", line 105, in __call__  *\n        return tf.constant(x.numpy())\n\n'
        "    AttributeError: 'SymbolicTensor' object has no attribute 'numpy'\n"
    )
    assert text_place(text) == {"path": "/a/model.py", "line": 105, "text": "return tf.constant(x.numpy())"}
    assert is_machinery("/tmp/x/__autograph_generated_file9mj2v22d.py")
