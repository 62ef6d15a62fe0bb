"""Every error a user can meet, in one tree.

PcietoolError                 exit code 1  the tool or a library failed
├── UsageError                exit code 2  what the user asked for makes no sense
│   ├── ConfigError           exit code 2  a config or fabric file is broken
│   └── ScenarioError         exit code 2  a scenario file is broken, or asks for what cannot be
├── NothingToRunError         exit code 6  what was asked cannot run on this machine
├── CompileError              exit code 1  NVRTC refused a kernel
├── PtxError                  exit code 1  PTX that the parser or the emulator does not know
├── EmulationError            exit code 1  a kernel broke a rule of the machine while it ran emulated
│   └── EndlessError          exit code 1  it went on for longer than the emulator can
├── DriverError               exit code 1  a CUDA driver call failed
└── OutputError               exit code 2  a result could not be written where the user asked

A message says what happened, where, and what to do about it, in one line. Must not import anything
but the standard library: the CLI needs it before it knows whether CUDA or numpy are wanted.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process says when it ends. Distinct, so that a CI job can tell the cases apart."""

    PASS = 0
    TOOL_ERROR = 1
    USAGE = 2
    WRONG_DATA = 3
    HANG = 4
    NOTHING_RAN = 6
    INTERRUPTED = 130


class PcietoolError(Exception):
    """The tool, or a library below it, failed."""

    exit_code = ExitCode.TOOL_ERROR


class UsageError(PcietoolError):
    """The command line asks for something that makes no sense."""

    exit_code = ExitCode.USAGE


class ConfigError(UsageError):
    """A configuration or fabric file is broken or unknown."""


class ScenarioError(UsageError):
    """A scenario file cannot be loaded, or describes what no machine can do."""


class OutputError(UsageError):
    """A result could not be written where the user asked."""


class NothingToRunError(PcietoolError):
    """What was asked cannot run on this machine: no driver, no GPU, no peer access."""

    exit_code = ExitCode.NOTHING_RAN


class CompileError(PcietoolError):
    """NVRTC is missing, too old for the GPU, or refused a kernel."""


class PtxError(PcietoolError):
    """PTX text that the parser cannot read or the emulator does not know."""


class EmulationError(PcietoolError):
    """A kernel broke a rule of the machine (bounds, alignment, barrier use) while it ran emulated."""


class EndlessError(EmulationError):
    """A kernel had not ended after as many events as the emulator is made for."""


class DriverError(PcietoolError):
    """A call into the CUDA driver failed."""
