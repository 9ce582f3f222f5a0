"""Whether the stack's accelerator is there, known, and goes with the stack's versions."""

from __future__ import annotations

from collections.abc import Iterator

from ironlease.errors import ExitCode
from ironlease.finding import Finding
from ironlease.plan.case import Case
from ironlease.stack import rules


def judge(case: Case) -> Iterator[Finding]:
    """Yield what there is to say about the GPUs of the host."""
    if case.stack.accelerator == "nvidia":
        yield from _nvidia(case)
    elif case.nvidia_ids:
        names = ", ".join(sorted({gpu.title for gpu in case.gpus})) or "NVIDIA GPUs that we do not know"
        yield Finding(
            code="gpu-unused",
            severity="warn",
            found=f"{case.host.name} has {len(case.nvidia_ids)} GPUs ({names}), and {case.stack.name} uses none.",
            needed="A stack for GPUs, unless the processors are what you want to use.",
            next_step="invoke stacks",
        )


def _nvidia(case: Case) -> Iterator[Finding]:
    if case.nvidia_ids is None or "pci.accelerators" in case.facts.missing:
        return
    if not case.nvidia_ids:
        yield Finding(
            code="gpu-missing",
            severity="block",
            found=f"{case.host.name} shows no NVIDIA GPU on its PCI bus.",
            needed=f"One at least, for {case.stack.name}.",
            next_step="On the host: lspci -nn -d 10de: (ask the lessor if it is empty). Other stacks: invoke stacks",
        )
        return
    unknown = sorted({device for device in case.nvidia_ids if case.catalog.find(device) is None})
    if unknown:
        yield Finding(
            code="gpu-unknown",
            severity="block",
            exit_code=int(ExitCode.UNKNOWN),
            found=f"{case.host.name} has GPUs that the catalogue does not know: 10de:{', 10de:'.join(unknown)}.",
            needed="An entry for each, so that driver and wheels can be judged.",
            next_step="On the host: lspci -nn -d 10de: ; then add it: ${EDITOR:-vi} catalog/gpus.yml",
        )
    yield from rules.check(case.stack, case.machine)
    yield from _driver(case)


def _driver(case: Case) -> Iterator[Finding]:
    if case.facts.flag("nvidia_driver.loaded") is False and case.stack.nvidia is not None:
        driver = case.stack.nvidia.driver
        yield Finding(
            code="driver-missing",
            severity="block",
            found=f"No NVIDIA driver is loaded on {case.host.name}.",
            needed=f"A driver for CUDA {case.stack.python.cuda}: this version of ironlease does not install it yet.",
            next_step=f"Install driver {driver.version} ({driver.kernel_module} module), reboot the host, run again.",
        )
