from tensoraudit.audit.observe import own_code
from tensoraudit.extract.python_source import read_python_text
from tensoraudit.facts import Call, ClassDef

SOURCE = """
import torch
from torch import nn

class Used(nn.Module):
    def forward(self, x):
        return x.tolist()

class Other(nn.Module):
    def forward(self, x):
        return x.item()

class Helper:
    def run(self, x):
        return x.numpy()

def make():
    return Used()
"""


def methods(classes):
    facts = read_python_text(SOURCE).facts
    names = {fact.callee.rpartition(".")[2] for fact in own_code(facts, classes) if isinstance(fact, Call)}
    return names & {"tolist", "item", "numpy"}


def test_the_body_of_a_module_that_the_model_is_not_made_of_is_left_out():
    assert methods(["Used", "Module", "object"]) == {"tolist", "numpy"}


def test_without_knowing_the_model_everything_stays():
    assert methods([]) == {"tolist", "item", "numpy"}


def test_the_class_itself_stays_known():
    facts = list(own_code(read_python_text(SOURCE).facts, ["Used"]))
    assert any(isinstance(fact, ClassDef) and fact.name == "Used" for fact in facts)
