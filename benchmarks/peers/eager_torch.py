"""The same training and sampling in eager PyTorch. Runs in an environment of its own; prints JSON."""

import json
import sys
import time
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1]))
import cases


def mlp(width, n_out):
    layers, n_in = [], cases.DIM
    for _ in range(cases.DEPTH):
        layers += [nn.Linear(n_in, width), nn.SiLU()]
        n_in = width
    return nn.Sequential(*layers, nn.Linear(width, n_out))


def best_seconds(call):
    call()
    times = []
    for _ in range(cases.REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def training_rate(width, batch, steps=60):
    gradient, scalar = mlp(width, cases.DIM), mlp(width, 1)
    softplus = nn.Softplus()
    parameters = [*gradient.parameters(), *scalar.parameters()]
    adam = torch.optim.Adam(parameters, lr=1e-3)
    data = torch.randn(20_000, cases.DIM)
    constant = (2 * torch.pi * cases.EPSILON) ** -0.5

    def signs():
        return torch.randint(0, 2, (batch, cases.DIM)).float() * 2 - 1

    def run():
        for _ in range(steps):
            x1 = data[torch.randint(0, len(data), (batch,))].requires_grad_()
            x2 = data[torch.randint(0, len(data), (batch,))]
            v, w = signs(), signs()
            gap = (w * (x2 - x1.detach())).sum(1)
            delta = constant * torch.exp(-0.5 * gap**2 / cases.EPSILON)
            slope = (v * gradient(x1)).sum(1)
            (change,) = torch.autograd.grad(slope.sum(), x1, create_graph=True)
            s = softplus(scalar(x1.detach()))[:, 0]
            loss = (slope**2 + delta * (change * v).sum(1) + s**2 - 2 * delta * s).mean()
            adam.zero_grad()
            loss.backward()
            adam.step()

    return steps / best_seconds(run)


def sampler_rate(width, paths):
    gradient, scalar = mlp(width, cases.DIM), mlp(width, 1)
    softplus = nn.Softplus()

    @torch.no_grad()
    def run():
        x = torch.zeros(paths, cases.DIM)
        for _ in range(cases.SAMPLER_STEPS):
            spread = torch.sqrt(softplus(scalar(x)) * cases.STEP_SIZE)
            x = x + gradient(x) * cases.STEP_SIZE + spread * torch.randn_like(x)

    return cases.SAMPLER_STEPS / best_seconds(run)


def best_over_threads(rate, case):
    """The better of one thread and all: a small network is faster on one."""
    rates = []
    for threads in (1, torch.get_num_threads()):
        torch.set_num_threads(threads)
        rates.append(rate(*case))
    return max(rates)


if __name__ == "__main__":
    torch.manual_seed(0)
    print(
        json.dumps(
            {
                "training": [best_over_threads(training_rate, case) for case in cases.TRAININGS],
                "sampling": [best_over_threads(sampler_rate, case) for case in cases.SAMPLERS],
            }
        )
    )
