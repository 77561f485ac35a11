"""Turn what ONNX Runtime says into one sentence that names the operator, node or type at fault.

Pure text work: imports nothing of the runtime, so the table can be tested against messages written down once.
"""

from __future__ import annotations

import re
from typing import Any

MAX_MESSAGE = 500
"""Characters of a runtime message that go into a sentence; the whole text stands in the details."""

_PREFIX = re.compile(r"^\s*\[ONNXRuntimeError\]\s*:\s*\d+\s*:\s*[A-Z_]+\s*:\s*")
_SOURCE = re.compile(r"/\S*onnxruntime\S*\.(?:cc|h):\d+\s+(?:[\w:<>,&*\s()\[\]{}]*?\)\s)?")
_ADVICE = re.compile(r"\s*Please fix either the inputs/outputs or the model\.?\s*$")

# Messages of ONNX Runtime 1.17 to 1.31. Named groups become details of the failure and fill the sentence.
_CAUSES: tuple[tuple[str, str], ...] = (
    (
        r"Could not find an implementation for (?P<operator>[\w.:]+)\((?P<version>\d+)\) node with name "
        r"'(?P<node>[^']*)'",
        "ONNX Runtime has no kernel for {operator} (version {version}) with these types: node {node!r}",
    ),
    (
        r'In Node, \("(?P<node>[^"]*)", (?P<operator>[\w.]+), "(?P<domain>[^"]*)".*No Op registered for \S+ with '
        r"domain_version of (?P<opset>\d+)",
        "ONNX Runtime does not know the operator {operator} in opset {opset}: node {node!r}",
    ),
    (
        r'In Node, \("(?P<node>[^"]*)", (?P<operator>[\w.]+), .*No opset import for domain \'(?P<domain>[^\']*)\'',
        "The model uses {operator} of the domain {domain!r} (node {node!r}), which it does not import",
    ),
    (
        r"Fatal error: (?P<operator>\S+?)\(-?\d+\) is not a registered function/op",
        "ONNX Runtime does not know the operator {operator}",
    ),
    (
        r"Unsupported model IR version: (?P<version>\d+), max supported IR version: (?P<supported>\d+)",
        "The model has IR version {version}; this ONNX Runtime reads at most {supported}",
    ),
    (
        r"Opset (?P<opset>\d+) is under development.*support for domain (?P<domain>\S+) is till opset "
        r"(?P<supported>\d+)",
        "The model needs opset {opset} of {domain}; this ONNX Runtime supports at most {supported}",
    ),
    (
        r"Type '(?P<type>[^']*)' of input parameter \((?P<tensor>.*?)\) of operator \((?P<operator>.*?)\) in node "
        r"\((?P<node>.*?)\) is invalid",
        "{operator} does not take {type}: input {tensor!r} of node {node!r}",
    ),
    (
        r"Type \((?P<type>.*?)\) of output arg \((?P<tensor>.*?)\) of node \((?P<node>.*?)\) does not match expected "
        r"type \((?P<expected>.*?)\)\.?$",
        "The model declares {tensor!r} as {type}, but node {node!r} makes {expected}",
    ),
    (
        r"Node input '(?P<tensor>[^']*)' is not a graph input, initializer, or output of a previous node",
        "A node reads {tensor!r}, which no node, input or initializer provides",
    ),
    (r"the graph is not acyclic", "The graph has a cycle: nodes wait for each other's outputs"),
    (
        r'In Node, \("(?P<node>[^"]*)", (?P<operator>[\w.]+), .*?Error (?P<why>.+)$',
        "Node {node!r} is no valid {operator}: {why}",
    ),
    (
        r"Node \((?P<node>.*?)\) Op \((?P<operator>.*?)\) \[\w+\] (?P<why>.+)$",
        "{operator} cannot work at node {node!r}: {why}",
    ),
    (
        r"External data path validation failed for initializer: (?P<tensor>.*?)\. Error: (?P<why>.+)$",
        "External data of tensor {tensor!r} is refused: {why}",
    ),
    (r"[Pp]rotobuf parsing failed", "The file is damaged or is no ONNX model: its protobuf cannot be read"),
    (r"No graph was found in the protobuf", "The file holds no ONNX graph"),
    (
        r"Non-zero status code returned while running (?P<operator>\S+) node\. Name:'(?P<node>[^']*)' "
        r"Status Message: (?P<why>.+)$",
        "{operator} failed at node {node!r}: {why}",
    ),
)
_COMPILED = tuple((re.compile(pattern), sentence) for pattern, sentence in _CAUSES)


def plain_message(problem: BaseException) -> str:
    """Return the runtime's text on one line, without its error code, C++ locations and standard advice."""
    text = " ".join(str(problem).split()) or type(problem).__name__
    return _ADVICE.sub("", _SOURCE.sub("", _PREFIX.sub("", text))).strip()


def explain(problem: BaseException) -> tuple[str, dict[str, Any]]:
    """Return the cause in one sentence, and what it names (`operator`, `node`, `tensor`, `type`, ... as known)."""
    text = plain_message(problem)
    for pattern, sentence in _COMPILED:
        match = pattern.search(text)
        if match:
            named = {key: value for key, value in match.groupdict().items() if value is not None}
            details: dict[str, Any] = {key: value for key, value in named.items() if key != "why"}
            return sentence.format(**named)[:MAX_MESSAGE], details
    return text[:MAX_MESSAGE], {}


def run_error(problem: BaseException) -> dict[str, Any]:
    """Return an error of one run as data: {"type", "message", "operator"?, "node"?, ...}."""
    message, details = explain(problem)
    return {**details, "type": type(problem).__name__, "message": message}
