"""Print as JSON that torch computes: the gradient leads from a wrong answer to the known one."""

import json
import sys

import torch


def main():
    """Solve `matrix @ solution = right` by gradient descent and print what happened, and where."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    matrix = torch.eye(4, device=device) + 0.1 * torch.rand(4, 4, device=device)
    known = torch.arange(4.0, device=device)
    right = matrix @ known
    solution = torch.zeros(4, device=device, requires_grad=True)
    for _ in range(500):
        loss = ((matrix @ solution - right) ** 2).sum()
        (gradient,) = torch.autograd.grad(loss, solution)
        solution = (solution - 0.2 * gradient).detach().requires_grad_()
    solved = bool(torch.allclose(solution, known, atol=1e-3))
    sys.stdout.write(json.dumps({"version": torch.__version__, "device": device, "solved": solved}) + "\n")


main()
