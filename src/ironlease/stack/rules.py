"""Which versions go together: compatibility rules as code, each with the source that says so.

A rule looks at a stack and at a machine (its GPUs and the driver that is loaded there, both perhaps unknown) and
returns what is wrong, or None. A stack alone is checked with an empty machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ironlease.errors import ExitCode
from ironlease.finding import Finding, Severity
from ironlease.stack.catalog import Gpu
from ironlease.stack.model import Stack

_TOOLKIT_NOTES = "NVIDIA CUDA Toolkit Release Notes, table of toolkit driver versions (Linux x86_64)"
_MINOR_COMPATIBILITY = "docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html, table 1"
_DEPRECATIONS = "NVIDIA CUDA Toolkit 13.0 Release Notes, deprecated architectures"
_OPEN_MODULES = "NVIDIA/open-gpu-kernel-modules README.md, compatible GPUs; NVIDIA's R560 announcement"
_BINARY_COMPATIBILITY = "NVIDIA CUDA C++ Programming Guide, binary compatibility and PTX compatibility"
_BLACKWELL = "NVIDIA CUDA Toolkit 12.8 Release Notes; pytorch/pytorch#150733 (sm_120 is not compatible)"
_FABRIC_MANAGER = "NVIDIA Fabric Manager User Guide; NVIDIA/gpu-driver-container#735"

# The driver that ships with a toolkit: with it everything works, code that is compiled at run time (PTX) included.
TOOLKIT_DRIVERS = {"12.6": "560.28.03", "12.8": "570.26", "12.9": "575.51.03", "13.0": "580.65.06"}
# The oldest driver that runs programs of a CUDA generation at all.
GENERATION_DRIVERS = {"11": "450.80.02", "12": "525", "13": "580"}


@dataclass(frozen=True)
class Machine:
    """What of a host the rules judge: its GPUs and the driver that is loaded now."""

    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    driver_flavour: str | None = None


@dataclass(frozen=True)
class Rule:
    """One rule: its id is the code of its findings."""

    id: str
    statement: str
    source: str
    judge: Callable[[Stack, Machine], Finding | None]


def check(stack: Stack, machine: Machine) -> list[Finding]:
    """Return what every rule finds about ``stack`` on ``machine``, in the order of the rules."""
    findings = (rule.judge(stack, machine) for rule in RULES)
    return [finding for finding in findings if finding is not None]


def parse_version(text: str) -> tuple[int, ...]:
    """Return a dotted version as numbers; a Debian revision such as ``-1`` does not count."""
    return tuple(int(part) for part in text.partition("-")[0].split("."))


def _finding(code: str, found: str, needed: str, next_step: str, severity: Severity = "block") -> Finding:
    return Finding(
        code=code, severity=severity, found=found, needed=needed, next_step=next_step, exit_code=int(ExitCode.USAGE)
    )


def _edit(stack: Stack) -> str:
    return f"${{EDITOR:-vi}} stacks/{stack.name}.yml"


def _names(gpus: list[Gpu]) -> str:
    return ", ".join(sorted({gpu.title for gpu in gpus}))


# The stack by itself


def _driver_for_cuda(stack: Stack, _: Machine) -> Finding | None:
    nvidia = stack.nvidia
    if nvidia is None:
        return None
    cuda = max(nvidia.cuda, stack.python.cuda or nvidia.cuda, key=parse_version)
    minimum = TOOLKIT_DRIVERS.get(cuda)
    if minimum is None:
        return _finding(
            "driver-for-cuda",
            f"No driver is known for CUDA {cuda}.",
            "An entry in TOOLKIT_DRIVERS with its source.",
            "${EDITOR:-vi} src/ironlease/stack/rules.py",
        )
    if parse_version(nvidia.driver.version) < parse_version(minimum):
        return _finding(
            "driver-for-cuda",
            f"The stack's driver is {nvidia.driver.version}.",
            f"{minimum} or newer for CUDA {cuda}.",
            _edit(stack),
        )
    return None


def _toolkit_for_wheel(stack: Stack, _: Machine) -> Finding | None:
    nvidia, wheel = stack.nvidia, stack.python.cuda
    if nvidia is None or wheel is None or parse_version(nvidia.cuda)[0] == parse_version(wheel)[0]:
        return None
    return _finding(
        "toolkit-for-wheel",
        f"The toolkit is CUDA {nvidia.cuda}, the framework's wheel is built for {wheel}.",
        "The same CUDA generation: extensions are compiled by the toolkit and loaded by the framework.",
        _edit(stack),
    )


def _fabric_manager_is_driver(stack: Stack, _: Machine) -> Finding | None:
    nvidia = stack.nvidia
    if nvidia is None or parse_version(nvidia.fabric_manager.version) == parse_version(nvidia.driver.version):
        return None
    return _finding(
        "fabric-manager-is-driver",
        f"The fabric manager is {nvidia.fabric_manager.version}, the driver {nvidia.driver.version}.",
        "Exactly the same version; another one does not start, and CUDA fails with error 802.",
        _edit(stack),
    )


# The stack on a machine


def _driver_loaded(stack: Stack, machine: Machine) -> Finding | None:
    wheel = stack.python.cuda
    if wheel is None or machine.driver is None:
        return None
    generation = wheel.partition(".")[0]
    minimum, comfortable = GENERATION_DRIVERS.get(generation), TOOLKIT_DRIVERS.get(wheel)
    loaded = parse_version(machine.driver)
    if minimum is not None and loaded < parse_version(minimum):
        return _finding(
            "driver-loaded",
            f"The driver {machine.driver} is loaded.",
            f"{minimum} or newer for CUDA {wheel}.",
            f"Install the driver {_driver(stack)}, reboot, then run the same command again.",
        )
    if comfortable is not None and loaded < parse_version(comfortable):
        return _finding(
            "driver-loaded",
            f"The driver {machine.driver} is loaded; with CUDA {wheel}, code compiled at run time fails.",
            f"{comfortable} or newer for everything in CUDA {wheel}.",
            f"Install the driver {_driver(stack)} when nothing is running, then reboot.",
            "warn",
        )
    return None


def _driver(stack: Stack) -> str:
    return "" if stack.nvidia is None else stack.nvidia.driver.version


def _wheel_for_gpu(stack: Stack, machine: Machine) -> Finding | None:
    python = stack.python
    if python.cuda is None:
        return None
    unfit = [gpu for gpu in machine.gpus if not runs_on(python.compute_capabilities, python.ptx, gpu)]
    if not unfit:
        return None
    wanted = ", ".join(sorted({gpu.compute_capability for gpu in unfit}))
    return _finding(
        "wheel-for-gpu",
        f"{_names(unfit)} has compute capability {wanted}; {stack.name}'s wheel has code for "
        f"{', '.join(python.compute_capabilities)}.",
        "A wheel with code of the same generation that is not newer than the GPU.",
        "invoke stacks",
    )


def runs_on(capabilities: tuple[str, ...], ptx: str | None, gpu: Gpu) -> bool:
    """Return whether a wheel runs on ``gpu``: machine code of its generation, not newer; or older intermediate code."""
    major, minor = parse_version(gpu.compute_capability)
    built = [parse_version(capability) for capability in capabilities]
    if any(other == major and level <= minor for other, level in built):
        return True
    return ptx is not None and parse_version(ptx) <= (major, minor)


def _module_flavour(stack: Stack, machine: Machine) -> Finding | None:
    nvidia = stack.nvidia
    if nvidia is None:
        return None
    wanted = {gpu.kernel_module for gpu in machine.gpus} - {"either"}
    if len(wanted) > 1:
        return _finding(
            "module-flavour",
            f"One host has both {_names([gpu for gpu in machine.gpus if gpu.kernel_module != 'either'])}.",
            "GPUs that one kernel module can drive: before Turing the proprietary one, from Blackwell on the open one.",
            "Ask the lessor for a machine with GPUs of one generation.",
        )
    if not wanted or wanted == {nvidia.driver.kernel_module}:
        return None
    unfit = [gpu for gpu in machine.gpus if gpu.kernel_module in wanted]
    return _finding(
        "module-flavour",
        f"{stack.name} has the {nvidia.driver.kernel_module} kernel module, the host has {_names(unfit)}.",
        f"The {wanted.pop()} kernel module: the other one finds no device.",
        "invoke stacks",
    )


def _loaded_flavour(stack: Stack, machine: Machine) -> Finding | None:
    if stack.python.cuda is None or machine.driver_flavour is None:
        return None
    unfit = [gpu for gpu in machine.gpus if gpu.kernel_module not in ("either", machine.driver_flavour)]
    if not unfit:
        return None
    return _finding(
        "loaded-flavour",
        f"The {machine.driver_flavour} kernel module is loaded on a host with {_names(unfit)}.",
        f"The {unfit[0].kernel_module} kernel module: this one finds no device.",
        f"Install the driver {_driver(stack)} in the right flavour, reboot, then run the same command again.",
    )


def _blackwell_needs_cuda(stack: Stack, machine: Machine) -> Finding | None:
    blackwell = [gpu for gpu in machine.gpus if gpu.architecture == "blackwell"]
    if not blackwell or stack.python.cuda is None or parse_version(stack.python.cuda) >= (12, 8):
        return None
    return _finding(
        "blackwell-needs-cuda-12.8",
        f"{_names(blackwell)} with CUDA {stack.python.cuda}.",
        "CUDA 12.8 or newer, the first that knows Blackwell.",
        "invoke stacks",
    )


def _cuda_13_needs_turing(stack: Stack, machine: Machine) -> Finding | None:
    old = [gpu for gpu in machine.gpus if parse_version(gpu.compute_capability) < (7, 5)]
    if not old or stack.python.cuda is None or parse_version(stack.python.cuda) < (13, 0):
        return None
    return _finding(
        "cuda-13-needs-turing",
        f"{_names(old)} with CUDA {stack.python.cuda}.",
        "CUDA 12: the 13 series has no code for GPUs before Turing.",
        "invoke stacks",
    )


RULES = (
    Rule(
        "driver-for-cuda",
        "A stack's driver is at least the one that ships with its CUDA.",
        _TOOLKIT_NOTES,
        _driver_for_cuda,
    ),
    Rule(
        "toolkit-for-wheel", "Toolkit and wheel are of one CUDA generation.", _MINOR_COMPATIBILITY, _toolkit_for_wheel
    ),
    Rule(
        "fabric-manager-is-driver",
        "The fabric manager's version equals the driver's.",
        _FABRIC_MANAGER,
        _fabric_manager_is_driver,
    ),
    Rule("driver-loaded", "The loaded driver runs the wheel's CUDA.", _MINOR_COMPATIBILITY, _driver_loaded),
    Rule("wheel-for-gpu", "The wheel has code for every GPU of the host.", _BINARY_COMPATIBILITY, _wheel_for_gpu),
    Rule(
        "module-flavour",
        "The kernel module of the stack can drive every GPU of the host.",
        _OPEN_MODULES,
        _module_flavour,
    ),
    Rule(
        "loaded-flavour",
        "The kernel module that is loaded can drive every GPU of the host.",
        _OPEN_MODULES,
        _loaded_flavour,
    ),
    Rule("blackwell-needs-cuda-12.8", "Blackwell needs CUDA 12.8.", _BLACKWELL, _blackwell_needs_cuda),
    Rule("cuda-13-needs-turing", "CUDA 13 needs Turing or newer.", _DEPRECATIONS, _cuda_13_needs_turing),
)
