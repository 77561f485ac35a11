"""One whole rule over each kind of source: code, graph, weights, environment, measurements. Its examples hold, and
they need every condition."""

import pytest

from tensoraudit.language.examples import dropped_conditions, run_examples
from tensoraudit.language.load import parse_rules

CODE = r"""
title: torch.load relies on a default of weights_only that changed
when:
  - {package: torch, version: "<2.6"}
  - {package: torch, side: target, version: ">=2.6"}
match:
  call: [torch.load, torch.serialization.load]
  args: {weights_only: {present: false}}
  written: {not: {regex: '^self\.'}}
  not: {inside: {with: torch.serialization.safe_globals}}
examples:
  - environment: {source: {torch: "2.5.1"}, target: {torch: "2.6.0"}}
    python: |
      from torch import load as restore
      import torch as th
      restore("a.pt")                          # flag
      th.load("a.pt", **options)               # suspect
      th.serialization.load("a.pt")            # flag
      th.load("a.pt", weights_only=False)
      with th.serialization.safe_globals([Config]):
          th.load("a.pt")
      class Loader:
          def __init__(self):
              self.load = th.load
          def read(self):
              self.load("a.pt")
  - environment: {source: {torch: "2.6.0"}, target: {torch: "2.7.0"}}
    python: "import torch; torch.load('a.pt')"
  - environment: {source: {torch: "2.6.0"}, target: {torch: "2.5.0"}}
    python: "import torch; torch.load('a.pt')"
  - environment: {source: {numpy: "2.0"}, target: {torch: "2.6.0"}}
    python: "import torch; torch.load('a.pt')"
  - environment: {source: {torch: "2.5.0"}, target: {numpy: "2.0"}}
    python: "import torch; torch.load('a.pt')"
"""

GRAPH = """
title: SAME padding with a stride above one may not be symmetric
certainty: likely
match:
  node: [Conv, MaxPool]
  domain: ""
  attributes: {auto_pad: [SAME_UPPER, SAME_LOWER], strides: {any: {gt: 1}}}
  not: {producer: {index: 0, node: Pad}}
examples:
  - onnx: |
      y = Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (x, w)   # flag
      m = MaxPool <auto_pad = "SAME_LOWER", kernel_shape = [2, 2], strides = [1, 2]> (x)   # flag
      z = Conv <auto_pad = "SAME_UPPER", strides = [1, 1]> (y, w)
      v = Conv <auto_pad = "VALID", strides = [2, 2]> (y, w)
      o = my.ops.Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (x, w)
      p = Pad (z, pads)
      q = Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (p, w)
      k = Pad (w, pads)
      r = Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (x, k)   # flag
      n = Neg (x)
      s = Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (n, w)   # flag
  - onnx: |
      y = Conv <strides = [2, 2]> (x, w)
"""

WEIGHTS = """
title: float8 weight stored without its scale
match:
  tensor: "{layer}.weight"
  dtype: [float8_e4m3fn, float8_e5m2]
  absent: {in: checkpoint, tensor: ["{layer}.weight_scale", "{layer}.weight_scale_inv"]}
message: "{layer} has no scale"
examples:
  - tensors:
      a.weight: "float8_e4m3fn[4,4]"
      b.weight: "float8_e5m2[4,4]"
      b.weight_scale: "float32[1]"
      d.weight: "float8_e5m2[1]"
    flag: [a.weight, d.weight]
  - tensors: {c.weight: "float32[4,4]", e.weight: "float8_e4m3fn[4]", e.weight_scale_inv: "float32[1]"}
"""

ENVIRONMENT = """
title: TF32 is forced off on one side only
match:
  variable: NVIDIA_TF32_OVERRIDE
  side: source
  value: "0"
  absent: {variable: NVIDIA_TF32_OVERRIDE, side: target, value: "0"}
examples:
  - environment: {variables: {source: {NVIDIA_TF32_OVERRIDE: "0"}, target: {NVIDIA_TF32_OVERRIDE: "1"}}}
    flag: [NVIDIA_TF32_OVERRIDE]
  - environment: {variables: {source: {NVIDIA_TF32_OVERRIDE: "0"}, target: {NVIDIA_TF32_OVERRIDE: "0"}}}
  - environment: {variables: {source: {NVIDIA_TF32_OVERRIDE: "1"}, target: {OTHER: "0"}}}
  - environment: {variables: {source: {OTHER: "1"}, target: {NVIDIA_TF32_OVERRIDE: "0"}}}
  - environment: {target: {numpy: "2.0"}, variables: {source: {OTHER: "1"}}}
"""

MEASUREMENTS = """
title: Outputs stay within tolerance but the decision changes
match:
  measurement: output.top1_changes
  value: {gt: 0}
  exists: {measurement: output.verdict, same: [subject], value: [identical, equivalent]}
examples:
  - measurements:
      - {measurement: output.top1_changes, subject: a, value: 3}
      - {measurement: output.verdict, subject: a, value: equivalent}
      - {measurement: output.top1_changes, subject: b, value: 3}
      - {measurement: output.verdict, subject: b, value: drift}
      - {measurement: output.top1_changes, subject: c, value: 0}
      - {measurement: output.verdict, subject: c, value: identical}
      - {measurement: output.top1_changes, subject: d, value: 1}
    flag: ["output.top1_changes@a"]
  - measurements: {output.top1_changes: 3, output.verdict: drift}
  - measurements: {output.top1_changes: 3}
"""

MODEL = """
title: A file of an old format with a fixed batch
match:
  model: onnx
  version: {lt: 8}
  opsets: {"": {lt: 13}}
  inputs: {any: {name: x, shape: {0: {dim: static}, rank: 4}}}
  outputs: {count: {of: {dtype: float16}, ge: 2}}
examples:
  - model: {format: onnx, version: 7, opsets: {"": 12}, inputs: {x: "float32[1,3,8,8]"},
            outputs: {a: "float16[1]", b: "float16[1]"}}
    flag: [onnx]
  - model: {format: onnx, version: 8, opsets: {"": 12}, inputs: {x: "float32[1,3,8,8]"},
            outputs: {a: "float16[1]", b: "float16[1]"}}
  - model: {format: onnx, version: 7, opsets: {"": 13}, inputs: {x: "float32[1,3,8,8]"},
            outputs: {a: "float16[1]", b: "float16[1]"}}
  - model: {format: onnx, version: 7, opsets: {"": 12}, inputs: {x: "float32[n,3,8,8]"},
            outputs: {a: "float16[1]", b: "float16[1]"}}
  - model: {format: onnx, version: 7, opsets: {"": 12}, inputs: {x: "float32[1]"},
            outputs: {a: "float16[1]", b: "float16[1]"}}
  - model: {format: onnx, version: 7, opsets: {"": 12}, inputs: {y: "float32[1,3,8,8]"},
            outputs: {a: "float16[1]", b: "float16[1]"}}
  - model: {format: onnx, version: 7, opsets: {"": 12}, inputs: {x: "float32[1,3,8,8]"},
            outputs: {a: "float16[1]", b: "float32[1]"}}
"""

CHECKPOINT = """
title: A pickle that imports os
match:
  checkpoint: pickle
  imports: "os.*"
  files: {count: {gt: 1}}
examples:
  - checkpoint: {format: pickle, imports: [os.system, torch.Tensor], files: [a, b]}
    flag: [pickle]
  - checkpoint: {format: pickle, imports: [os.system], files: [a]}
  - checkpoint: {format: pickle, imports: [torch.Tensor], files: [a, b]}
"""

HEAD = "id: TST-001\nseverity: high\nlayer: graph\nwhy: Because.\nremedy: Change it."
RULES = {
    "code": CODE, "graph": GRAPH, "weights": WEIGHTS, "environment": ENVIRONMENT, "measurements": MEASUREMENTS,
    "model": MODEL, "checkpoint": CHECKPOINT,
}  # fmt: skip


@pytest.mark.parametrize("text", RULES.values(), ids=RULES)
def test_a_rule_and_its_examples(text):
    message = "" if "message:" in text else '\nmessage: "{name}"'
    (rule,), problems = parse_rules(f"{HEAD}{message}{text}")
    assert problems == []
    assert [outcome for outcome in run_examples(rule) if not outcome.good] == []
    assert [dropped.path for dropped in dropped_conditions(rule)] == []
