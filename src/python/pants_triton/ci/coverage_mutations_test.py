from __future__ import annotations

from pants_triton.ci import coverage_seed as seed
from pants_triton.ci.coverage import cover
from pants_triton.ci.coverage_mutations import is_noticed, score
from pants_triton.ci.workflow_steps import parse_workflow


def test_every_change_of_what_is_declared_is_noticed() -> None:
    result = score([parse_workflow(seed.workflow_text(), seed.PATH)], seed.workspace())
    assert [(mutant.kind, mutant.what) for mutant in result.survivors] == []
    assert len(result.caught) > 850


def test_what_is_the_same_is_not_noticed() -> None:
    workflow = parse_workflow(seed.workflow_text(), seed.PATH)
    same = cover([workflow], seed.workspace())
    assert not is_noticed(same, cover([workflow], seed.workspace()))
