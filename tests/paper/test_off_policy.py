"""Off-policy evaluation of logs that we write, small."""

import numpy as np
import pytest

from bellman_diffusion.environments import make_env
from bellman_diffusion.paper.evaluation_tasks import TASKS, trained
from bellman_diffusion.paper.experiments import off_policy
from bellman_diffusion.paper.experiments.off_policy import OffPolicyOptions, OffPolicyRow, logged
from bellman_diffusion.planning.acting import acting
from tests.paper.helpers import report_of, workplace

CARTPOLE = TASKS["CartPole"]._replace(steps=64, gamma=0.9)


def test_a_log_has_the_action_of_every_row(tmp_path):
    """Without random actions they are the policy's; of random ones half differ from it."""
    zip_file = tmp_path / "policy.zip"
    trained(CARTPOLE, zip_file, 0)
    policy = acting(str(zip_file), make_env("CartPole-v1"))
    for epsilon, share in ((0.0, 0.0), (0.5, 0.25)):
        log = logged(CARTPOLE, zip_file, 3001, 1, epsilon)
        rows = log.transitions.observation
        wanted = np.array(policy.actions(rows, np.ones(len(rows), bool)))
        assert np.mean(log.action[:, 0] != wanted) == pytest.approx(share, abs=0.03)


def test_errors_are_of_the_mean_and_of_the_range(tmp_path, monkeypatch):
    monkeypatch.setattr(off_policy, "TASKS", {"CartPole": CARTPOLE})
    monkeypatch.setattr(off_policy, "NAMES", ("CartPole",))
    options = OffPolicyOptions(seeds=1, transitions=2000, returns=100, max_iter=30)
    summary = off_policy.run(options, workplace(tmp_path))
    row = summary.rows["CartPole"]
    assert row.range[0] - 1e-9 <= row.cvar_10 <= row.mean + 1e-9 <= row.range[1] + 2e-9
    assert "From a log with random actions" in report_of("off-policy", summary, tmp_path)
    errors = off_policy.LogErrors(mean=-22, cvar_10=3, mean_of_log=0, outside_log=0, seconds=0)
    row = OffPolicyRow(env_id="", gamma=1, mean=-20, cvar_10=1, range=(0, 40), per_seed=[errors])
    assert row.mean_errors == [pytest.approx(0.1)]
    assert row.cvar_errors == [pytest.approx(0.05)]
