"""The roads of `checkpoint show` and `diff`: they need no worker, and import nothing that speaks with one."""

from __future__ import annotations

from tensoraudit.audit.begin import choose_rules
from tensoraudit.audit.checkpoints import describe_stored, diff_stored, read_stored
from tensoraudit.audit.conclude import conclude, match_and_settle
from tensoraudit.steps import Step

CHECKPOINT_SHOW: tuple[Step, ...] = (read_stored, choose_rules, describe_stored, match_and_settle, conclude)
CHECKPOINT_DIFF: tuple[Step, ...] = (
    read_stored,
    choose_rules,
    describe_stored,
    diff_stored,
    match_and_settle,
    conclude,
)
