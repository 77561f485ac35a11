"""The texts of `tensoraudit --help` and `tensoraudit rules --help`.

Constants, because importing an option parser to print them costs ten times more. A test compares them
with the commands.
"""

HELP = """\
Usage: tensoraudit COMMAND [OPTIONS]

Audit a model before it moves between PyTorch, TensorFlow/Keras, JAX and ONNX Runtime.

Commands:
  scan ARTIFACT --target onnx    audit one migration, end to end
  compare REFERENCE CANDIDATE    two artifacts that should be the same model
  checkpoint show A | diff A B   weights and training state, from headers alone; diff --values reads them
  checkpoint resume F.py:STEP    train through and interrupted, and name the state that a resume loses
  lint PATH...                   rules over source code only, no framework needed
  fix PATH...                    mend what has a mechanical fix; --diff only shows it
  rules list | show | explain .. the rules, their pages, why one is silent, and your own
  baseline write REPORT.json     known findings, which do not fail the gate
  doctor                         versions, devices, what each probe can do here, and why not

Artifacts: .pt/.pth (TorchScript, state_dict, pickled module), .pt2, .onnx, model.py:factory, package.module:name.

  tensoraudit scan model.py:make_model --target onnx
  tensoraudit scan model.jit --target onnx --input 'x:float32[batch,3,224,224]' --report json=report.json
  tensoraudit checkpoint show model.safetensors
  tensoraudit COMMAND --help     the options of one command

Exit codes: 0 nothing at or above --fail-on, 1 findings, 2 wrong input, 3 cannot tell, 4 a fault of tensoraudit.
"""

RULES_HELP = """\
Usage: tensoraudit rules COMMAND [OPTIONS]

The rules: their pages, their examples, and your own.

Commands:
  list [WORD]...         every rule, or those that filters and words leave
  show ID                the page of one rule
  explain ID FILE        the place in a file that comes nearest, and the first condition that fails
  test [PACK]...         run the examples inside the rules
  new [TITLE]            the skeleton of a rule under the next free id
  cost [PATH]...         how each rule finds its candidates, and how many there are
  schema                 the JSON Schema of a rule file, for editors
  pages --out FOLDER     a Markdown page for each rule, and an index

A PACK is `default`, a folder such as ./audit, or the name of an installed pack.

  tensoraudit rules list --severity critical --source pytorch
  tensoraudit rules COMMAND --help    the options of one command
"""

TEXTS = {(): HELP, ("rules",): RULES_HELP}
"""What is answered without an option parser, by the words of the command line."""
