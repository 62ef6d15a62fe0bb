"""Calls of a module's own functions, put in place: what NVRTC did not inline runs as if it had.

A parameter becomes local memory of the thread. Must not know instructions beyond ld.param, st.param, call and ret.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from pcietool.errors import PtxError
from pcietool.ptx.declarations import end_of, round_up
from pcietool.ptx.model import (
    TYPE_BYTES,
    Address,
    Arguments,
    BasicBlock,
    Function,
    Guard,
    Immediate,
    Instruction,
    Label,
    Module,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
    Variable,
    Vector,
)

LOCAL_ALIGNMENT = 16
MOST_BLOCKS = 100_000
"""Beyond this much code, functions that call each other again and again have grown without bound."""


def inlined(function: Function, module: Module) -> Function:
    """The function without calls of functions that the module defines. Raises PtxError for one that calls itself."""
    if not any(_callee(i, module) for block in function.blocks for i in block.instructions):
        return function
    return _Inliner(function, module).result()


def _callee(i: Instruction, module: Module) -> Function | None:
    if i.opcode != "call" or not isinstance(i.operands[1], Symbol):
        return None
    return module.functions.get(i.operands[1].name)


@dataclass(frozen=True)
class _Instance:
    """One function in one place. `suffix` tells its names from all others; `names`: what its parameters and results are
    to the kernel; `end`: the label behind it, "" for the kernel itself."""

    function: Function
    suffix: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    local: Mapping[str, Variable] = field(default_factory=dict)
    end: str = ""
    call: Instruction | None = None
    within: tuple[str, ...] = ()


class _Inliner:
    def __init__(self, function: Function, module: Module) -> None:
        self._module = module
        self._function = function
        self._registers = dict(function.registers)
        self._variables = dict(function.variables)
        self._labels: dict[str, int] = {}
        self._blocks: list[BasicBlock] = []
        self._open: list[Instruction] = []
        self._instances = 0
        self._parameters: dict[str, int] = {}
        """Bytes of each."""

    def result(self) -> Function:
        self._place(_Instance(self._function, within=(self._function.name,)))
        self._close()
        for name, nbytes in self._parameters.items():
            offset = round_up(end_of(self._variables, "local"), LOCAL_ALIGNMENT)
            self._variables[name] = Variable(name, "local", nbytes, LOCAL_ALIGNMENT, offset)
        return replace(
            self._function,
            registers=self._registers,
            variables=self._variables,
            blocks=tuple(self._blocks),
            labels=self._labels,
        )

    # -- blocks -----------------------------------------------------------------------------------------------------

    def _place(self, instance: _Instance) -> None:
        named: dict[int, list[str]] = {}
        for name, number in instance.function.labels.items():
            named.setdefault(number, []).append(name)
        for number, block in enumerate(instance.function.blocks):
            self._close()
            for name in named.get(number, ()):
                self._labels[name + instance.suffix] = len(self._blocks)
            for i in block.instructions:
                callee = _callee(i, self._module)
                if callee is None:
                    self._open += self._renamed(i, instance)
                else:
                    self._inline(i, callee, instance)
        self._close()
        for name in named.get(len(instance.function.blocks), ()):
            self._labels[name + instance.suffix] = len(self._blocks)

    def _close(self) -> None:
        """Ends the block in progress."""
        if self._open:
            self._blocks.append(BasicBlock(tuple(self._open)))
            self._open = []
        if len(self._blocks) > MOST_BLOCKS:
            raise PtxError(f"kernel {self._function.name} calls functions {MOST_BLOCKS} times; call fewer")

    def _label(self, name: str) -> None:
        self._close()
        self._labels[name] = len(self._blocks)

    def _inline(self, call: Instruction, callee: Function, caller: _Instance) -> None:
        if callee.name in caller.within:
            raise PtxError(
                f"the emulator does not know calls of functions that call themselves: {callee.name}"
                f" ({self._where(call)}); write it as a loop"
            )
        results, _, arguments = call.operands[:3]
        assert isinstance(results, Arguments)
        assert isinstance(arguments, Arguments)
        if len(results.items) != len(callee.results) or len(arguments.items) != len(callee.parameters):
            raise PtxError(
                f"{callee.name} takes {len(callee.parameters)} and returns {len(callee.results)}, which"
                f" '{' '.join(call.text.split())}' does not ({self._where(call)}); write the call as it was declared"
            )
        self._instances += 1
        suffix = f"@{self._instances}"
        end = f"$end{suffix}"
        given = [
            *zip(callee.results, results.items, strict=True),
            *zip(callee.parameters, arguments.items, strict=True),
        ]
        names = {parameter.name: self._symbol(one, caller) for parameter, one in given}
        for parameter, _ in given:
            self._needs(names[parameter.name], parameter.bytes)
        instance = _Instance(
            callee, suffix, names, self._own_variables(callee, suffix), end, call, (*caller.within, callee.name)
        )
        for name, kind in callee.registers.items():
            self._registers[name + suffix] = kind
        if call.guard:
            (guard,) = self._renamed(replace(call, opcode="bra", modifiers=(), operands=(Label(end),)), caller)
            assert guard.guard is not None
            self._open.append(
                replace(guard, operands=(Label(end),), guard=replace(guard.guard, negated=not guard.guard.negated))
            )
            self._close()
        self._place(instance)
        self._label(end)

    def _own_variables(self, callee: Function, suffix: str) -> dict[str, Variable]:
        """Its local memory, behind all that there is."""
        own = {}
        start = round_up(end_of(self._variables, "local"), LOCAL_ALIGNMENT)
        for name, variable in callee.variables.items():
            if variable.space == "local":
                own[name] = replace(variable, name=name + suffix, offset=start + variable.offset)
            elif name not in self._variables:
                self._variables[name] = variable
        self._variables |= {one.name: one for one in own.values()}
        return own

    # -- instructions -------------------------------------------------------------------------------------------------

    def _renamed(self, i: Instruction, instance: _Instance) -> Iterator[Instruction]:
        callers = i.callers
        if instance.call is not None:
            at = (instance.call.source,) if instance.call.source else ()
            callers = (*i.callers, *at, *instance.call.callers)
        guard = Guard(self._register(i.guard.register, instance), i.guard.negated) if i.guard else None
        new = replace(
            i, operands=tuple(self._operand(one, instance) for one in i.operands), guard=guard, callers=callers
        )
        if i.opcode == "ret" and instance.end:
            yield replace(new, opcode="bra", modifiers=(), operands=(Label(instance.end),))
        elif i.has("param") and i.opcode in ("ld", "st") and not self._is_of_the_kernel(i, instance):
            yield self._in_local_memory(i, new, instance)
        else:
            yield new

    def _is_of_the_kernel(self, i: Instruction, instance: _Instance) -> bool:
        address = i.operands[1] if i.opcode == "ld" else i.operands[0]
        names = {parameter.name for parameter in self._function.parameters}
        return (
            isinstance(address, Address)
            and isinstance(address.base, Symbol)
            and not instance.suffix
            and address.base.name in names
        )

    def _in_local_memory(self, i: Instruction, new: Instruction, instance: _Instance) -> Instruction:
        """An access to a parameter, which is a variable of the thread's own."""
        at = 1 if i.opcode == "ld" else 0
        address = i.operands[at]
        if not isinstance(address, Address) or not isinstance(address.base, Symbol):
            raise PtxError(f"the emulator does not know an address of a parameter in '{i.text}' ({self._where(i)})")
        name = self._symbol(address.base, instance)
        length = next((int(m[1:]) for m in i.modifiers if m in ("v2", "v4", "v8")), 1)
        self._needs(name, address.offset + TYPE_BYTES[i.type] * length)
        operands = list(new.operands)
        operands[at] = Address(Symbol(name), address.offset)
        modifiers = tuple("local" if one == "param" else one for one in i.modifiers)
        return replace(new, modifiers=modifiers, operands=tuple(operands))

    def _where(self, i: Instruction) -> str:
        return f"kernel {self._function.name}, PTX line {i.line}{f', {i.source}' if i.source else ''}"

    def _needs(self, parameter: str, nbytes: int) -> None:
        self._parameters[parameter] = max(self._parameters.get(parameter, 0), nbytes)

    def _operand(self, operand: Operand, instance: _Instance) -> Operand:
        match operand:
            case Register():
                return self._register(operand, instance)
            case Negated(register):
                return Negated(self._register(register, instance))
            case Pair(first, second):
                return Pair(self._register(first, instance), self._register(second, instance))
            case Vector(items):
                return Vector(
                    tuple(self._register(one, instance) if isinstance(one, Register) else one for one in items)
                )
            case Address(base):
                new = self._operand(base, instance)
                assert isinstance(new, Register | Symbol | Immediate)
                return replace(operand, base=new)
            case Arguments(items):
                symbols = (one for one in items if isinstance(one, Symbol))
                return Arguments(tuple(Symbol(self._symbol(one, instance)) for one in symbols))
            case Label(name):
                return Label(name + instance.suffix)
            case Symbol(name) if name in instance.local:
                return Symbol(instance.local[name].name)
        return operand

    def _register(self, register: Register, instance: _Instance) -> Register:
        return Register(register.name + instance.suffix) if register.name in instance.function.registers else register

    @staticmethod
    def _symbol(operand: Operand, instance: _Instance) -> str:
        """A parameter by the name that the whole kernel knows it by."""
        assert isinstance(operand, Symbol)
        return instance.names.get(operand.name, operand.name + instance.suffix)
