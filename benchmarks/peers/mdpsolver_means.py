"""mdpsolver: the optimal values of a random MDP. Prints JSON; the model is built before the clock."""

import json
import sys
import time
from pathlib import Path

import mdpsolver

sys.path.insert(0, str(Path(__file__).parent.parent))
import planning_cases as cases


def main() -> None:
    """By each of its algorithms; the values are those of the fastest."""
    rows = cases.random_mdp()
    shape = (rows.n_states, rows.n_actions, -1)
    probability, columns = (a.reshape(shape) for a in (rows.probability, rows.next_state))
    problem = {
        "discount": cases.MEANS_GAMMA,
        "rewards": rows.reward.reshape(shape)[:, :, 0].tolist(),
        "tranMatProbs": probability.tolist(),
        "tranMatColumns": columns.tolist(),
    }
    seconds, values = {}, {}
    for algorithm in ("mpi", "pi", "vi"):
        model = mdpsolver.model()
        model.mdp(**problem)
        start = time.perf_counter()
        model.solve(algorithm=algorithm, tolerance=1e-8)
        seconds[algorithm] = time.perf_counter() - start
        values[algorithm] = list(model.getValueVector())
    fastest = min(seconds, key=lambda name: seconds[name])
    print(json.dumps({"seconds": seconds, "values": values[fastest]}))


if __name__ == "__main__":
    main()
