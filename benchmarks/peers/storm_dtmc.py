"""Storm: P(accumulated reward ≤ b) from the initial state, for each bound. Prints JSON.

The model is built before the clock starts. Storm answers such a query for the initial state alone.
"""

import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
import stormpy
from stormpy import models

sys.path.insert(0, str(Path(__file__).parent.parent))
import planning_cases as cases


def build(rows: cases.Rows) -> models.SparseDtmc:
    """The chain, with its last state labelled as done."""
    n = rows.n_states
    matrix = np.zeros((n, n))
    np.add.at(matrix, (rows.state, rows.next_state), rows.probability)
    reward = np.zeros(n)
    reward[rows.state] = rows.reward
    labels = models.StateLabeling(n)
    for name, state in (("init", 0), ("done", n - 1)):
        labels.add_label(name)
        labels.add_label_to_state(name, state)
    rewards = models.SparseRewardModel(optional_state_action_reward_vector=reward.tolist())
    components = models.SparseModelComponents(
        transition_matrix=stormpy.datastructures.build_sparse_matrix(matrix),
        state_labeling=labels,
        reward_models={"r": rewards},
    )
    return models.SparseDtmc(components)


def main() -> None:
    """Ask for every bound."""
    model = build(cases.integer_chain())
    environment = stormpy.environments.sound()
    environment.solver().native().precision = stormpy.Rational("1/1000000000000")
    seconds, found = [], []
    for bound in cases.BOUNDS:
        query = stormpy.parse_property(f'P=? [F{{"r"}}<={bound} "done"]')
        start = time.perf_counter()
        answer = stormpy.model_checking(
            model, query, only_initial_states=True, environment=environment
        )
        seconds.append(time.perf_counter() - start)
        found.append(answer.get_value(0))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps({"seconds": seconds, "probabilities": found, "peak_gb": peak}))


if __name__ == "__main__":
    main()
