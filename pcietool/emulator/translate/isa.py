"""The emulated instruction set as one table: what each opcode is, its forms, and what the arithmetic ones compute.

`ALU` maps a form to a Python expression over its operands; forms are written as the ISA manual writes them, with
alternatives in braces. Registers hold unsigned integers of their width (floats: their bit pattern), predicates hold
bools. An opcode that does more than compute has a row in `OTHERS`. Anything not listed here is an error at load time
that names the instruction and its line; nothing is skipped or guessed.

Placeholders: {a} {b} {c} {d} operands as unsigned integers of the instruction's width, {sa} signed, {na} of 32 bits,
{wa} twice as wide, {pa} as a predicate, {fa} as a Python float, and {F} what makes a bit pattern of one; {M} the mask
of the type, {M2} that of one twice as wide, {W} its width in bits, {S} its sign bit; {KIND} the first modifier, {CMP}
the comparison it names, {LAST} and {BEFORE} the last modifier and that before it. In derived forms: {ya} flushed, {za}
flushed and a Python float, {la} and {ha} the lower and upper number of a packed one, {Q} "not " for a second result.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from pcietool.emulator.ops import Code
from pcietool.emulator.translate import accesses, async_copies, calls, instructions, missing
from pcietool.emulator.translate.translation import Translation
from pcietool.ptx.model import Address, Instruction, Vector
from pcietool.ptx.registers import registers_in


@dataclass(frozen=True, slots=True)
class Opcode:
    """One row: all that is asked about an opcode anywhere."""

    emit: Callable[[Translation, Instruction], Iterator[str]] | None
    """Makes Python of what no expression computes. None if there is no such thing, and for jumps, made by `lower`."""
    asks: int | None
    """The Code of what it asks of the engine; loads and stores may do without."""
    silent: bool
    """Does a loop of nothing else report its work? (Some of these ask, too; recorded figures rest on the reports.)"""
    waits: bool
    """May it stand in a wait loop? Nobody else notices how often it is executed."""
    result: bool
    """Is its first operand what it writes? (Of an opcode that has a result in some forms only, it counts as read.)"""
    jumps: bool
    """May control go elsewhere behind it?"""
    explored: bool


GROUPS: Mapping[str, str] = {
    "INT": "u16,s16,u32,s32,u64,s64",
    "UNSIGNED": "u16,u32,u64",
    "SIGNED": "s16,s32,s64",
    "BITS": "b16,b32,b64",
    "WORDS": "u16,s16,b16,u32,s32,b32,u64,s64,b64",
    "FLOATS": "f32,rn.f32,f64,rn.f64,f16,rn.f16,bf16,rn.bf16",
    "FLOAT": "f32,f64,f16,bf16",
    "SHORT": "u16x2,s16x2",
    "ROUND": "rni,rzi,rmi,rpi",
    "DIRECTED": "rz,rm,rp",
    "ANY": "u16,s16,b16,u32,s32,b32,u64,s64,b64,f32,f64",
}

ALU: Mapping[str, str] = {
    "mov.{ANY}": "{a}",
    "mov.pred": "not not {a}",
    "cvta.{global,to.global}.u64": "{a}",
    "cvta.shared.u64": "{a}|SHARED_WINDOW",
    "cvta.to.shared.u64": "{a}&0xffffffff",
    "add.{INT}": "({a}+{b})&{M}",
    "sub.{INT}": "({a}-{b})&{M}",
    "add.sat.s32": "min(max({sa}+{sb},-2**31),2**31-1)&{M}",
    "sub.sat.s32": "min(max({sa}-{sb},-2**31),2**31-1)&{M}",
    "mul.lo.{INT}": "({a}*{b})&{M}",
    "mul.hi.{UNSIGNED}": "({a}*{b})>>{W}",
    "mul.hi.{SIGNED}": "(({sa}*{sb})>>{W})&{M}",
    "mul.wide.{u16,u32}": "{a}*{b}",
    "mul.wide.{s16,s32}": "({sa}*{sb})&{M2}",
    "mad.lo.{INT}": "({a}*{b}+{c})&{M}",
    "mad.hi.{UNSIGNED}": "(({a}*{b}>>{W})+{c})&{M}",
    "mad.hi.{SIGNED}": "(({sa}*{sb}>>{W})+{c})&{M}",
    "mad.wide.{u16,u32}": "({a}*{b}+{wc})&{M2}",
    "mad.wide.{s16,s32}": "({sa}*{sb}+{wc})&{M2}",
    "div.{UNSIGNED}": "{a}//{b} if {b} else {M}",
    "div.{SIGNED}": "divide_signed({sa},{sb})&{M}",
    "rem.{UNSIGNED}": "{a}%{b} if {b} else {M}",
    "rem.{SIGNED}": "remainder_signed({sa},{sb})&{M}",
    "neg.{SIGNED}": "-{a}&{M}",
    "abs.{SIGNED}": "abs({sa})&{M}",
    "min.{UNSIGNED}": "min({a},{b})",
    "max.{UNSIGNED}": "max({a},{b})",
    "min.{SIGNED}": "min({sa},{sb})&{M}",
    "max.{SIGNED}": "max({sa},{sb})&{M}",
    "and.{BITS}": "{a}&{b}",
    "or.{BITS}": "{a}|{b}",
    "xor.{BITS}": "{a}^{b}",
    "not.{BITS}": "{a}^{M}",
    "and.pred": "{a} and {b}",
    "or.pred": "{a} or {b}",
    "xor.pred": "{a} != {b}",
    "not.pred": "not {a}",
    "shl.{BITS}": "({a}<<min({nb},{W}))&{M}",
    "shr.{b16,b32,b64,u16,u32,u64}": "{a}>>min({nb},{W})",
    "shr.{SIGNED}": "({sa}>>min({nb},{W}))&{M}",
    "shf.l.wrap.b32": "(({b}<<32|{a})<<({c}&31)>>32)&0xffffffff",
    "shf.l.clamp.b32": "(({b}<<32|{a})<<min({c},32)>>32)&0xffffffff",
    "shf.r.wrap.b32": "(({b}<<32|{a})>>({c}&31))&0xffffffff",
    "shf.r.clamp.b32": "(({b}<<32|{a})>>min({c},32))&0xffffffff",
    "bfe.{u32,u64}": "extract_bits({a},{nb},{nc},{W})",
    "bfe.{s32,s64}": "extract_signed_bits({sa},{nb},{nc},{W})&{M}",
    "bfi.{b32,b64}": "insert_bits({a},{b},{nc},{nd},{W})",
    "prmt.b32": "permute_bytes({a},{b},{c})",
    "prmt.b32.{f4e,b4e,rc8,ecl,ecr,rc16}": "permute_bytes({a},{b},permutation('{LAST}',{c}))",
    "popc.{b32,b64}": "({a}).bit_count()",
    "clz.{b32,b64}": "{W}-({a}).bit_length()",
    "brev.{b32,b64}": "reverse_bits({a},{W})",
    "bfind.{u32,u64}": "find_top_bit({a})",
    "bfind.shiftamt.{u32,u64}": "({W}-1-find_top_bit({a}))&0xffffffff if {a} else 0xffffffff",
    "lop3.b32": "look_up_bits({a},{b},{c},{d})",
    "sad.u32": "({c}+abs({a}-{b}))&0xffffffff",
    "sad.s32": "({c}+abs({sa}-{sb}))&0xffffffff",
    "dp4a.{u32,s32}.{u32,s32}": "dot_product({a},{b},{c},'{BEFORE}','{LAST}',8)",
    "dp2a.lo.{u32,s32}.{u32,s32}": "dot_product({a},{b},{c},'{BEFORE}','{LAST}',16)",
    "dp2a.hi.{u32,s32}.{u32,s32}": "dot_product({a},{b}>>16,{c},'{BEFORE}','{LAST}',16)",
    "add.{SHORT}": "({a}+{b}&0xffff)|(({a}>>16)+({b}>>16)&0xffff)<<16",
    "min.u16x2": "min({a}&0xffff,{b}&0xffff)|min({a}>>16,{b}>>16)<<16",
    "max.u16x2": "max({a}&0xffff,{b}&0xffff)|max({a}>>16,{b}>>16)<<16",
    "setp.{eq,ne}.{WORDS}": "{a} {CMP} {b}",
    "setp.{lt,le,gt,ge}.{UNSIGNED}": "{a} {CMP} {b}",
    "setp.{lo,ls,hi,hs}.{UNSIGNED}": "{a} {CMP} {b}",
    "setp.{lt,le,gt,ge}.{SIGNED}": "({a}^{S}) {CMP} ({b}^{S})",
    "selp.{ANY}": "{a} if {c} else {b}",
    "activemask.b32": "1<<(TX&31)",
    "add.{FLOATS}": "{F}({fa}+{fb})",
    "sub.{FLOATS}": "{F}({fa}-{fb})",
    "mul.{FLOATS}": "{F}({fa}*{fb})",
    "add.{DIRECTED}.f32": "directed_sum('{BEFORE}',{fa},1.0,{fb})",
    "sub.{DIRECTED}.f32": "directed_sum('{BEFORE}',{fb},-1.0,{fa})",
    "mul.{DIRECTED}.f32": "directed('{BEFORE}',{fa}*{fb})",
    "fma.{DIRECTED}.f32": "directed_sum('{BEFORE}',{fa},{fb},{fc})",
    "fma.rn.{f32,f16,bf16}": "{F}(fuse({fa},{fb},{fc}))",
    "fma.rn.f64": "double_bits(fuse_double({fa},{fb},{fc}))",
    "div.rn.{f32,f64}": "{F}(divide({fa},{fb}))",
    "rcp.rn.{f32,f64}": "{F}(divide(1.0,{fa}))",
    "sqrt.rn.{f32,f64}": "{F}(square_root({fa}))",
    "rcp.approx.f32": "float_bits(divide(1.0,{fa}))",
    "sqrt.approx.f32": "float_bits(square_root({fa}))",
    "rsqrt.approx.f32": "float_bits(divide(1.0,square_root({fa})))",
    "ex2.approx.f32": "float_bits(power_of_two({fa}))",
    "lg2.approx.f32": "float_bits(logarithm({fa}))",
    "div.approx.f32": "float_bits(divide_approximately({fa},{fb}))",
    "div.full.f32": "float_bits(divide({fa},{fb}))",
    "sin.approx.f32": "float_bits(sine({fa}))",
    "cos.approx.f32": "float_bits(cosine({fa}))",
    "tanh.approx.f32": "float_bits(tanh({fa}))",
    "min.{FLOAT}": "{F}(lesser({fa},{fb}))",
    "max.{FLOAT}": "{F}(greater({fa},{fb}))",
    "abs.{FLOAT}": "{a}&~{S}",
    "neg.{FLOAT}": "{a}^{S}",
    "abs.{f16x2,bf16x2}": "{a}&0x7fff7fff",
    "neg.{f16x2,bf16x2}": "{a}^0x80008000",
    "copysign.{f32,f64}": "{b}&~{S}|{a}&{S}",
    "setp.{eq,lt,le,gt,ge}.{FLOAT}": "{fa} {CMP} {fb}",
    "setp.ne.{FLOAT}": "{fa}<{fb} or {fa}>{fb}",
    "setp.neu.{FLOAT}": "{fa} != {fb}",
    "setp.equ.{FLOAT}": "not ({fa}<{fb} or {fa}>{fb})",
    "setp.{ltu,leu,gtu,geu}.{FLOAT}": "not {fa} {CMP} {fb}",
    "setp.num.{FLOAT}": "{fa}=={fa} and {fb}=={fb}",
    "setp.nan.{FLOAT}": "{fa}!={fa} or {fb}!={fb}",
    "cvt.rn.f32.{u8,UNSIGNED}": "float_bits(integer_to_float({a}))",
    "cvt.rn.f32.{s8,SIGNED}": "float_bits(integer_to_float({sa}))",
    "cvt.rn.f64.{u8,UNSIGNED}": "double_bits(float({a}))",
    "cvt.rn.f64.{s8,SIGNED}": "double_bits(float({sa}))",
    "cvt.rn.f16.{u8,UNSIGNED}": "half_bits(float({a}))",
    "cvt.rn.f16.{s8,SIGNED}": "half_bits(float({sa}))",
    "cvt.rn.bf16.{UNSIGNED}": "brain_bits(integer_to_float({a}))",
    "cvt.rn.bf16.{SIGNED}": "brain_bits(integer_to_float({sa}))",
    "cvt.f64.f32": "double_bits({fa})",
    "cvt.rn.f32.f64": "narrowed({a})",
    "cvt.f32.f16": "float_bits({fa})",
    "cvt.f64.f16": "double_bits({fa})",
    "cvt.rn.f16.{f32,f64}": "half_bits({fa})",
    "cvt.f32.bf16": "{a}<<16",
    "cvt.rn.bf16.f32": "bfloat_bits({a})",
    "cvt.rn.f16x2.f32": "half_bits({fa})<<16|half_bits({fb})",
    "cvt.rn.bf16x2.f32": "bfloat_bits({a})<<16|bfloat_bits({b})",
    "cvt.sat.f32.f32": "float_bits(saturate({fa}))",
    "cvt.{ROUND}.f32.f32": "float_bits(to_whole('{KIND}',{fa}))",
    "cvt.{ROUND}.f64.f64": "double_bits(to_whole('{KIND}',{fa}))",
    "cvt.{ROUND}.f16.f16": "half_bits(to_whole('{KIND}',{fa}))",
    "cvt.{ROUND}.u16.{f16,f32}": "to_integer('{KIND}',{fa},0,0xffff,0)",
    "cvt.{ROUND}.s16.{f16,f32}": "to_integer('{KIND}',{fa},-2**15,2**15-1,0)&0xffff",
    "cvt.{ROUND}.u32.{f16,f32}": "to_integer('{KIND}',{fa},0,0xffffffff,0)",
    "cvt.{ROUND}.s32.{f16,f32}": "to_integer('{KIND}',{fa},-2**31,2**31-1,0)&0xffffffff",
    "cvt.{ROUND}.u32.f64": "to_integer('{KIND}',{fa},0,0xffffffff,2**31)",
    "cvt.{ROUND}.s32.f64": "to_integer('{KIND}',{fa},-2**31,2**31-1,2**31)&0xffffffff",
    "cvt.{ROUND}.u64.{f16,f32,f64}": "to_integer('{KIND}',{fa},0,2**64-1,2**63)",
    "cvt.{ROUND}.s64.{f16,f32,f64}": "to_integer('{KIND}',{fa},-2**63,2**63-1,2**63)&(2**64-1)",
}

FLUSHING = frozenset(
    {
        *("add", "sub", "mul", "fma", "div", "rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos"),
        *("min", "max", "abs", "neg", "setp", "cvt"),
    }
)
"""Opcodes whose forms of f32 there are with .ftz, too: subnormal operands and results are zeros of their sign."""
PACKED = frozenset({"add", "sub", "mul", "fma", "min", "max"})
"""Opcodes whose forms of f16 and bf16 there are for two numbers in a register, too."""
COMBINATIONS: Mapping[str, str] = {
    "and": "{Q}(%s) and {pc}",
    "or": "{Q}(%s) or {pc}",
    "xor": "({Q}(%s)) != {pc}",
}
"""What setp makes of its comparison and a predicate."""

COMPUTES = Opcode(None, asks=None, silent=True, waits=True, result=True, jumps=False, explored=True)
UNKNOWN = Opcode(None, asks=None, silent=True, waits=False, result=True, jumps=False, explored=False)
OTHERS: Mapping[str, Opcode] = {
    "mov": replace(COMPUTES, emit=instructions.move),
    **dict.fromkeys(("add", "sub", "mad", *instructions.CARRY_IN), replace(COMPUTES, emit=instructions.carry)),
    "cvt": replace(COMPUTES, emit=instructions.convert),
    "cvta": replace(COMPUTES, emit=calls.local_address),
    "isspacep": replace(COMPUTES, emit=accesses.is_in_space),
    #                        emit                              asks           silent waits  result jumps  explored
    "ld":             Opcode(accesses.load,                    Code.LOAD,     False, True,  True,  False, True),
    "st":             Opcode(accesses.store,                   Code.STORE,    False, False, False, False, True),
    "atom":           Opcode(accesses.read_modify_write,       Code.RMW,      False, False, True,  False, True),
    "red":            Opcode(accesses.read_modify_write,       Code.RMW,      False, False, False, False, True),
    "membar":         Opcode(instructions.fence,               Code.FENCE,    False, True,  False, False, True),
    "fence":          Opcode(instructions.fence,               Code.FENCE,    False, True,  False, False, True),
    "bar":            Opcode(instructions.barrier,             Code.BARRIER,  False, False, False, False, True),
    "barrier":        Opcode(instructions.barrier,             Code.BARRIER,  False, False, False, False, True),
    "vote":           Opcode(instructions.vote,                Code.WARP,     True,  False, True,  False, True),
    "shfl":           Opcode(instructions.shuffle,             Code.WARP,     True,  False, True,  False, True),
    "match":          Opcode(instructions.match,               Code.WARP,     True,  False, True,  False, True),
    "redux":          Opcode(instructions.reduce,              Code.WARP,     True,  False, True,  False, True),
    "elect":          Opcode(instructions.elect,               Code.WARP,     True,  False, True,  False, True),
    "nanosleep":      Opcode(instructions.sleep,               Code.SLEEP,    False, True,  False, False, True),
    "cp":             Opcode(async_copies.copy,                Code.BULK,     True,  False, False, False, False),
    "mbarrier":       Opcode(async_copies.mbarrier,            Code.MBARRIER, True,  False, False, False, True),
    "griddepcontrol": Opcode(instructions.grid_dependency,     Code.GRID,     True,  False, False, False, True),
    "mapa":           Opcode(instructions.shared_address_of_rank, None,       True,  False, True,  False, False),
    "createpolicy":   Opcode(instructions.cache_policy,        None,          True,  True,  True,  False, True),
    "prefetch":       Opcode(instructions.prefetch,            None,          True,  True,  False, False, True),
    "call":           Opcode(calls.call,                       None,          True,  False, False, False, True),
    "trap":           Opcode(instructions.trap,                None,          True,  False, False, False, True),
    "bra":            Opcode(None,                             None,          True,  True,  False, True,  True),
    "ret":            Opcode(None,                             None,          True,  False, False, True,  True),
    "exit":           Opcode(None,                             None,          True,  False, False, True,  True),
}  # fmt: skip


def expand(form: str) -> Iterator[str]:
    """All concrete forms of a table row: "a.{x,y}" gives "a.x" and "a.y"; a group name in braces its members."""
    parts = re.split(r"\{([^}]*)\}", form)
    choices = [
        [member for name in part.split(",") for member in GROUPS.get(name, name).split(",")] if index % 2 else [part]
        for index, part in enumerate(parts)
    ]
    for choice in itertools.product(*choices):
        yield "".join(choice)


def derived(form: str, expression: str) -> Iterator[tuple[str, str]]:
    """A form, and those that follow from it: setp with a second predicate; .ftz; two numbers in a register."""
    opcode, *modifiers = form.split(".")
    yield form, expression
    if opcode == "setp":
        name, *types = modifiers
        for combination, pattern in COMBINATIONS.items():
            yield ".".join((opcode, name, combination, *types)), pattern % expression
    if opcode in PACKED and modifiers[-1] in ("f16", "bf16"):
        low, high = (re.sub(r"\{f([abc])\}", rf"{{{half}\1}}", expression) for half in "lh")
        yield f"{form}x2", f"({low})|({high})<<16"


def flushed(form: str, expression: str) -> tuple[str, str]:
    """A form of f32 with .ftz, and what it computes."""
    opcode, *modifiers = form.split(".")
    types = 2 if opcode == "cvt" else 1
    before = len(modifiers) - types - ("sat" in modifiers)
    with_ftz = ".".join((opcode, *modifiers[:before], "ftz", *modifiers[before:]))
    if modifiers[-1] == "f32":
        expression = re.sub(r"\{(f?)([abc])\}", lambda match: f"{{{'z' if match[1] else 'y'}{match[2]}}}", expression)
    return with_ftz, f"flush({expression})" if opcode != "setp" and modifiers[-types] == "f32" else expression


def all_forms() -> Iterator[tuple[str, str]]:
    for row, given in ALU.items():
        for form, expression in itertools.chain.from_iterable(derived(one, given) for one in expand(row)):
            yield form, expression
            opcode, *modifiers = form.split(".")
            if opcode in FLUSHING and "f32" in modifiers:
                yield flushed(form, expression)


ALU_FORMS: Mapping[str, str] = dict(all_forms())
ISA: Mapping[str, Opcode] = {**dict.fromkeys((form.partition(".")[0] for form in ALU_FORMS), COMPUTES), **OTHERS}


def row(i: Instruction) -> Opcode:
    return ISA.get(i.opcode, UNKNOWN)


def lines_of(t: Translation, i: Instruction) -> Iterator[str]:
    """Python for one instruction that is no jump, its guard left out. Raises PtxError if it is unknown."""
    expression, emit = ALU_FORMS.get(i.form), row(i).emit
    if expression is not None and not any(isinstance(operand, Vector) for operand in i.operands):
        return instructions.compute(t, i, expression)
    if emit is None:
        raise t.unknown(i, missing.unknown_form(i))
    return emit(t, i)


def always_asks(i: Instruction) -> bool:
    """Is this a request to the engine each time? (What is not may run for ever without anybody noticing.)"""
    if row(i).silent or i.guard or accesses.is_near(i):
        return False
    return row(i).asks not in (Code.LOAD, Code.STORE) or accesses.is_strong(i)


def registers_read(i: Instruction) -> Iterator[str]:
    """Names of the registers whose value the instruction uses, its guard and the carry included."""
    if i.opcode in instructions.CARRY_IN:
        yield instructions.CARRY
    if i.guard:
        yield i.guard.register.name
    for operand in i.operands[_results(i) :]:
        yield from registers_in(operand)


def registers_written(i: Instruction) -> Iterator[str]:
    for operand in i.operands[: _results(i)]:
        yield from registers_in(operand)
    if i.has("cc"):
        yield instructions.CARRY


def _results(i: Instruction) -> int:
    """How many of its operands are results: an address is none."""
    return int(row(i).result and not isinstance(i.operands[0], Address)) if i.operands else 0
