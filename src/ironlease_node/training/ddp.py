# mypy: disable-error-code="import-not-found"
# The control side's environment has no torch; this file runs where the stack's interpreter is.
"""A small distributed training that proves a stack: it learns, saves a checkpoint, and goes on from it.

`torchrun` starts one process for each rank. Phase `train` learns, saves, and goes on without a break. Phase `resume`
starts in fresh processes from the checkpoint alone and repeats the steps after it. The agent compares the two.

The model drops units at random and the batches are drawn at random, so that a checkpoint without the optimizer's
moments or without any rank's random state gives other losses.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import platform
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

CHECKPOINT_NAME = "checkpoint.pt"

INPUTS, HIDDEN, OUTPUTS = 16, 64, 4
BATCH = 64
LEARNING_RATE = 0.01
TEACHER_SEED = 20_000
TRAIN_SEED = 1_000
# Another one on purpose: only the checkpoint may bring the random state back.
RESUME_SEED = 9_000
# Ranks that wait for a dead one must not wait for torch's ten minutes.
COLLECTIVE_TIMEOUT_SECONDS = 60
PR_SET_PDEATHSIG = 1


class Place(NamedTuple):
    """Where this rank computes, and how the ranks talk."""

    device: Any
    backend: str
    note: str | None


class Trainer:
    """One rank's model, optimizer and task."""

    def __init__(self, place: Place, seed: int) -> None:
        self.place = place
        self.rank = distributed.get_rank()
        self.world_size = distributed.get_world_size()
        self.step_number = 0
        # The same weights everywhere, then random numbers of its own for each rank.
        torch.manual_seed(TEACHER_SEED)
        self._teacher = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, OUTPUTS))
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.Tanh(), nn.Dropout(0.05), nn.Linear(HIDDEN, OUTPUTS)).to(
            place.device
        )
        self.model = DistributedDataParallel(network)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=LEARNING_RATE)
        torch.manual_seed(seed + 1 + self.rank)

    def steps(self, count: int) -> list[float]:
        """Train for ``count`` steps; return the mean loss over all ranks for each."""
        return [self._step() for _ in range(count)]

    def _step(self) -> float:
        inputs = torch.randn(BATCH, INPUTS)
        with torch.no_grad():
            targets = self._teacher(inputs)
        outputs = self.model(inputs.to(self.place.device))
        loss = nn.functional.mse_loss(outputs, targets.to(self.place.device))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.step_number += 1
        mean = loss.detach().double()
        distributed.all_reduce(mean)
        return float(mean / self.world_size)

    def checksum(self) -> tuple[str, bool]:
        """Return the SHA-256 over this rank's parameters, and whether all ranks have the same."""
        digest = hashlib.sha256()
        for parameter in self.model.module.parameters():
            # Not through numpy, which a stack need not have.
            digest.update(bytes(parameter.detach().cpu().contiguous().view(torch.uint8).flatten().tolist()))
        everyone = self._gather(torch.tensor(list(digest.digest()), dtype=torch.uint8))
        return digest.hexdigest(), all(torch.equal(other, everyone[0]) for other in everyone)

    def save(self, path: Path) -> None:
        """Write the checkpoint in one step: a reader finds a whole one or none."""
        state = {
            "step": self.step_number,
            "model": self.model.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "random": self._gather(torch.get_rng_state()),
            "device_random": self._gather(self._device_random()),
        }
        if self.rank == 0:
            temporary = path.with_suffix(".partial")
            with temporary.open("wb") as handle:
                torch.save(state, handle)
                handle.flush()
                os.fsync(handle.fileno())
            temporary.replace(path)
        distributed.barrier()

    def load(self, path: Path) -> None:
        """Take everything from the checkpoint, each rank its own random state."""
        state = torch.load(path, map_location="cpu", weights_only=True)
        self.step_number = state["step"]
        self.model.module.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"][self.rank])
        if self.place.device.type == "cuda":
            torch.cuda.set_rng_state(state["device_random"][self.rank], self.place.device)

    def _device_random(self) -> Any:
        if self.place.device.type == "cuda":
            return torch.cuda.get_rng_state(self.place.device)
        return torch.zeros(1, dtype=torch.uint8)

    def _gather(self, value: Any) -> list[Any]:
        local = value.to(self.place.device)
        everyone = [torch.empty_like(local) for _ in range(self.world_size)]
        distributed.all_gather(everyone, local)
        return [other.cpu() for other in everyone]


def choose_place(local_rank: int, local_world_size: int) -> Place:
    """Use the GPUs with NCCL where there is one for each rank, else say what was used instead."""
    if not torch.cuda.is_available():
        return Place(torch.device("cpu"), "gloo", None)
    count = torch.cuda.device_count()
    if count >= local_world_size:
        torch.cuda.set_device(local_rank)
        return Place(torch.device("cuda", local_rank), "nccl", None)
    # NCCL refuses two ranks on one device; gloo takes them, and the GPU still computes.
    torch.cuda.set_device(0)
    note = f"{count} GPU for {local_world_size} ranks: they share GPU 0 over gloo, and NCCL was not exercised"
    return Place(torch.device("cuda", 0), "gloo", note)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run one phase on this rank and return its result."""
    place = choose_place(int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"]))
    distributed.init_process_group(place.backend, timeout=timedelta(seconds=COLLECTIVE_TIMEOUT_SECONDS))
    torch.use_deterministic_algorithms(True)
    checkpoint = arguments.folder / CHECKPOINT_NAME
    result: dict[str, Any] = {}
    if arguments.phase == "train":
        trainer = Trainer(place, TRAIN_SEED)
        result["losses"] = trainer.steps(arguments.steps)
        result["checksum_at_checkpoint"], agree_before = trainer.checksum()
        trainer.save(checkpoint)
    else:
        trainer = Trainer(place, RESUME_SEED)
        trainer.load(checkpoint)
        result["checksum_at_checkpoint"], agree_before = trainer.checksum()
    result["continued"] = trainer.steps(arguments.continue_steps)
    result["checksum_at_end"], agree_after = trainer.checksum()
    result["ranks_agree"] = agree_before and agree_after
    result["last_step"] = trainer.step_number
    return {**result, **describe(place, trainer.world_size)}


def describe(place: Place, world_size: int) -> dict[str, Any]:
    """Return what the training ran on."""
    on_gpu = place.device.type == "cuda"
    return {
        "backend": place.backend,
        "device": torch.cuda.get_device_name(place.device) if on_gpu else "cpu",
        "bit_equal_expected": not on_gpu,
        "world_size": world_size,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "uid": os.getuid(),
        "note": place.note,
    }


def end_with_parent(time_limit_seconds: int) -> None:
    """Do not outlive torchrun, nor the time limit, when whoever started us is gone."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.alarm(time_limit_seconds)


def main() -> int:
    """Run the phase that the command line names; rank 0 writes the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--phase", choices=["train", "resume"], required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--continue-steps", type=int, required=True)
    parser.add_argument("--time-limit-seconds", type=int, required=True)
    arguments = parser.parse_args()
    end_with_parent(arguments.time_limit_seconds)
    result = run(arguments)
    if distributed.get_rank() == 0:
        path = arguments.folder / f"{arguments.phase}.json"
        temporary = path.with_suffix(".partial")
        temporary.write_text(json.dumps(result), encoding="utf-8")
        temporary.replace(path)
    distributed.barrier()
    distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # All is written and the ranks have parted in order. Torch's own threads now and then abort the interpreter's
    # tear-down on a busy machine ("terminate called without an active exception"), which says nothing about training.
    os._exit(status)
