"""The text of `tensoraudit --help`: a constant, because importing an option parser to print it costs ten times more.

A test holds it against the commands that exist.
"""

HELP = """\
Usage: tensoraudit COMMAND [OPTIONS]

Audit a model before it moves between PyTorch, TensorFlow/Keras, JAX and ONNX Runtime.

Commands:
  scan ARTIFACT --target onnx    audit one migration, end to end
  compare REFERENCE CANDIDATE    two artifacts that should be the same model
  lint PATH...                   rules over source code only, no framework needed
  rules list | show ID | test    the rules, their pages, and their examples
  baseline write REPORT.json     known findings, which do not fail the gate
  doctor                         versions, devices, what each probe can do here, and why not

Artifacts: .pt/.pth (TorchScript, state_dict, pickled module), .pt2, .onnx, model.py:factory, package.module:name.

  tensoraudit scan model.py:make_model --target onnx
  tensoraudit scan model.jit --target onnx --input 'x:float32[batch,3,224,224]' --report json=report.json
  tensoraudit COMMAND --help     the options of one command

Exit codes: 0 nothing at or above --fail-on, 1 findings, 2 wrong input, 3 cannot tell, 4 a fault of tensoraudit.
"""
