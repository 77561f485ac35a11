"""The whole program: each command is a tuple of steps over one `Audit`. Knows the order of steps, not how any works.

Rules are matched once, after the standard probes have run: the graphs that conversions write are facts too, and rules
anchored at measurements see the same store. A static finding is then settled by the measurements of its `confirm`.
"""

from __future__ import annotations

from tensoraudit.audit.alone import run_alone
from tensoraudit.audit.begin import choose_rules
from tensoraudit.audit.causes_by_value import find_causes
from tensoraudit.audit.conclude import conclude, match_and_settle
from tensoraudit.audit.convert import convert
from tensoraudit.audit.coverage import measure_coverage
from tensoraudit.audit.draft_map import draft_map
from tensoraudit.audit.execute import run_candidates, run_reference
from tensoraudit.audit.gradients import measure_gradients
from tensoraudit.audit.judge import judge
from tensoraudit.audit.localise import localise
from tensoraudit.audit.model_checkpoint import compare_parameters, read_weights
from tensoraudit.audit.observe import collect_facts
from tensoraudit.audit.operators import list_operators
from tensoraudit.audit.ported import check_map, pair_models
from tensoraudit.audit.prepare import (
    choose_samples,
    describe_reference,
    identify_artifacts,
    start_workers,
)
from tensoraudit.audit.resume import identify_program, keep_rules, measure_resume
from tensoraudit.audit.state import Audit
from tensoraudit.audit.training import measure_training
from tensoraudit.findings.result import Result
from tensoraudit.probes.limits import Limits
from tensoraudit.probes.pool import Pool
from tensoraudit.steps import Step, run_steps

SCAN: tuple[Step, ...] = (
    identify_artifacts,
    choose_rules,
    check_map,
    read_weights,
    start_workers,
    describe_reference,
    collect_facts,
    choose_samples,
    compare_parameters,
    list_operators,
    run_reference,
    measure_training,
    run_alone,
    convert,
    measure_coverage,
    pair_models,
    run_candidates,
    judge,
    draft_map,
    localise,
    find_causes,
    measure_gradients,
    match_and_settle,
    conclude,
)
COMPARE: tuple[Step, ...] = SCAN
"""The same road: `convert` takes the given candidate instead of making one."""

CHECKPOINT_RESUME: tuple[Step, ...] = (
    identify_program,
    choose_rules,
    keep_rules,
    measure_resume,
    collect_facts,
    match_and_settle,
    conclude,
)


def run(steps: tuple[Step, ...], audit: Audit) -> Result:
    """Take an audit through its steps. Workers live inside this call and are gone after it, whatever happens.

    Raises UserError for what is the user's to mend, InternalError for what is ours.
    """
    limits = Limits(timeout=audit.options.timeout, memory=audit.options.memory)
    with Pool(limits=limits, interpreters=dict(audit.options.python)) as pool:
        return run_steps(steps, audit.add(pool=pool))
