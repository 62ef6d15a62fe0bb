"""The emulated instruction set as one table: which PTX forms exist and what each arithmetic one computes.

`ALU` maps a form to a Python expression over its operands; forms are written as the ISA manual writes them, with
alternatives in braces. Registers hold unsigned integers of their width (floats: their bit pattern), predicates
hold bools. Memory, synchronisation and control forms have no expression: `lower` turns them into requests to the
engine, and this module only says which modifiers each of them may carry. Anything not listed here is an error at
load time that names the instruction and its line; nothing is skipped or guessed.

Placeholders: {a} {b} {c} {d} operands as unsigned integers of the instruction's width, {sa} signed, {na} of 32 bits,
{wa} twice as wide, {fa} as a Python float, and {F} what makes a bit pattern of one; {M} the mask of the type, {M2} that
of one twice as wide, {W} its width in bits, {S} its sign bit; {KIND} the first modifier, {CMP} the comparison it names.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping

GROUPS: Mapping[str, str] = {
    "INT": "u16,s16,u32,s32,u64,s64",
    "UNSIGNED": "u16,u32,u64",
    "SIGNED": "s16,s32,s64",
    "BITS": "b16,b32,b64",
    "WORDS": "u16,s16,b16,u32,s32,b32,u64,s64,b64",
    "FLOATS": "f32,rn.f32,f64,rn.f64",
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
    "mul.lo.{INT}": "({a}*{b})&{M}",
    "mul.hi.{UNSIGNED}": "({a}*{b})>>{W}",
    "mul.hi.{SIGNED}": "(({sa}*{sb})>>{W})&{M}",
    "mul.wide.{u16,u32}": "{a}*{b}",
    "mul.wide.{s16,s32}": "({sa}*{sb})&{M2}",
    "mad.lo.{INT}": "({a}*{b}+{c})&{M}",
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
    "bfi.{b32,b64}": "insert_bits({a},{b},{nc},{nd},{W})",
    "prmt.b32": "permute_bytes({a},{b},{c})",
    "popc.{b32,b64}": "({a}).bit_count()",
    "clz.{b32,b64}": "{W}-({a}).bit_length()",
    "brev.{b32,b64}": "reverse_bits({a},{W})",
    "bfind.{u32,u64}": "find_top_bit({a})",
    "bfind.shiftamt.{u32,u64}": "({W}-1-find_top_bit({a}))&0xffffffff if {a} else 0xffffffff",
    "lop3.b32": "look_up_bits({a},{b},{c},{d})",
    "sad.u32": "({c}+abs({a}-{b}))&0xffffffff",
    "sad.s32": "({c}+abs({sa}-{sb}))&0xffffffff",
    "setp.{eq,ne}.{WORDS}": "{a} {CMP} {b}",
    "setp.{lt,le,gt,ge}.{UNSIGNED}": "{a} {CMP} {b}",
    "setp.{lo,ls,hi,hs}.{UNSIGNED}": "{a} {CMP} {b}",
    "setp.{lt,le,gt,ge}.{SIGNED}": "({a}^{S}) {CMP} ({b}^{S})",
    "selp.{ANY}": "{a} if {c} else {b}",
    "activemask.b32": "1<<(TX&31)",
    "add.{FLOATS}": "{F}({fa}+{fb})",
    "sub.{FLOATS}": "{F}({fa}-{fb})",
    "mul.{FLOATS}": "{F}({fa}*{fb})",
    "fma.rn.f32": "float_bits(fuse({fa},{fb},{fc}))",
    "fma.rn.f64": "double_bits(fuse_double({fa},{fb},{fc}))",
    "div.rn.{f32,f64}": "{F}(divide({fa},{fb}))",
    "rcp.rn.{f32,f64}": "{F}(divide(1.0,{fa}))",
    "sqrt.rn.{f32,f64}": "{F}(square_root({fa}))",
    "min.{f32,f64}": "{F}(lesser({fa},{fb}))",
    "max.{f32,f64}": "{F}(greater({fa},{fb}))",
    "abs.{f32,f64}": "{a}&~{S}",
    "neg.{f32,f64}": "{a}^{S}",
    "copysign.{f32,f64}": "{b}&~{S}|{a}&{S}",
    "setp.{eq,lt,le,gt,ge}.{f32,f64}": "{fa} {CMP} {fb}",
    "setp.ne.{f32,f64}": "{fa}<{fb} or {fa}>{fb}",
    "setp.neu.{f32,f64}": "{fa} != {fb}",
    "setp.equ.{f32,f64}": "not ({fa}<{fb} or {fa}>{fb})",
    "setp.{ltu,leu,gtu,geu}.{f32,f64}": "not {fa} {CMP} {fb}",
    "setp.num.{f32,f64}": "{fa}=={fa} and {fb}=={fb}",
    "setp.nan.{f32,f64}": "{fa}!={fa} or {fb}!={fb}",
    "cvt.rn.f32.{u16,u32,u64}": "float_bits(integer_to_float({a}))",
    "cvt.rn.f32.{SIGNED}": "float_bits(integer_to_float({sa}))",
    "cvt.rn.f64.{u32,u64}": "double_bits(float({a}))",
    "cvt.rn.f64.{s32,s64}": "double_bits(float({sa}))",
    "cvt.f64.f32": "double_bits({fa})",
    "cvt.rn.f32.f64": "narrowed({a})",
    "cvt.f32.f16": "float_bits({fa})",
    "cvt.rn.f16.f32": "half_bits({fa})",
    "cvt.rn.bf16.f32": "bfloat_bits({a})",
    "cvt.rn.f16x2.f32": "half_bits({fa})<<16|half_bits({fb})",
    "cvt.rn.bf16x2.f32": "bfloat_bits({a})<<16|bfloat_bits({b})",
    "cvt.sat.f32.f32": "float_bits(saturate({fa}))",
    "cvt.{rni,rzi,rmi,rpi}.f32.f32": "float_bits(to_whole('{KIND}',{fa}))",
    "cvt.{rni,rzi,rmi,rpi}.f64.f64": "double_bits(to_whole('{KIND}',{fa}))",
    "cvt.{rni,rzi,rmi,rpi}.u32.f32": "to_integer('{KIND}',{fa},0,0xffffffff,0)",
    "cvt.{rni,rzi,rmi,rpi}.s32.f32": "to_integer('{KIND}',{fa},-2**31,2**31-1,0)&0xffffffff",
    "cvt.{rni,rzi,rmi,rpi}.u32.f64": "to_integer('{KIND}',{fa},0,0xffffffff,2**31)",
    "cvt.{rni,rzi,rmi,rpi}.s32.f64": "to_integer('{KIND}',{fa},-2**31,2**31-1,2**31)&0xffffffff",
    "cvt.{rni,rzi,rmi,rpi}.u64.{f32,f64}": "to_integer('{KIND}',{fa},0,2**64-1,2**63)",
    "cvt.{rni,rzi,rmi,rpi}.s64.{f32,f64}": "to_integer('{KIND}',{fa},-2**63,2**63-1,2**63)&(2**64-1)",
}
COMPARISONS: Mapping[str, str] = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">=",
    "ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<",
}  # fmt: skip

SPECIAL_REGISTERS: Mapping[str, str] = {
    "%tid.x": "TX",
    "%tid.y": "0",
    "%tid.z": "0",
    "%ntid.x": "NX",
    "%ntid.y": "1",
    "%ntid.z": "1",
    "%ctaid.x": "CX",
    "%ctaid.y": "0",
    "%ctaid.z": "0",
    "%nctaid.x": "GX",
    "%nctaid.y": "1",
    "%nctaid.z": "1",
    "%laneid": "(TX&31)",
    "%lanemask_eq": "(1<<(TX&31))",
    "%lanemask_lt": "((1<<(TX&31))-1)",
    "%lanemask_le": "((2<<(TX&31))-1)",
    "%lanemask_gt": "(0xffffffff&-(2<<(TX&31)))",
    "%lanemask_ge": "(0xffffffff&-(1<<(TX&31)))",
    "%warpid": "(TX>>5)",
    "%smid": "MC.sm_of(TH)",
    "%globaltimer": "MC.globaltimer(TH)",
    "%globaltimer_lo": "(MC.globaltimer(TH)&0xffffffff)",
    "%globaltimer_hi": "(MC.globaltimer(TH)>>32)",
    "%clock": "(MC.cycles(TH)&0xffffffff)",
    "%clock64": "MC.cycles(TH)",
}

SPACES = frozenset({"global", "shared", "shared::cta", "const", "local"})
SEMANTICS = frozenset({"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"})
SCOPES = frozenset({"cta", "cluster", "gpu", "sys"})
CACHE_HINTS = frozenset(
    {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "L2::64B", "L2::128B", "L2::256B"}
    | {f"L1::{hint}" for hint in ("no_allocate", "evict_normal", "evict_unchanged", "evict_first", "evict_last")}
)
"""What no result depends on."""
VECTORS = frozenset({"v2", "v4"})
RMW: Mapping[str, str] = {
    "add": "(old+b)&M",
    "min": "min(old,b)",
    "max": "max(old,b)",
    "inc": "0 if old>=b else old+1",
    "dec": "b if old==0 or old>b else old-1",
    "and": "old&b",
    "or": "old|b",
    "xor": "old^b",
    "exch": "b",
    "cas": "c if old==b else old",
}
"""The new value of a word from its old one and the operands, unsigned; signed min and max are biased by `accesses`."""


def expand(form: str) -> Iterator[str]:
    """All concrete forms of a table row: "a.{x,y}" gives "a.x" and "a.y"; a group name in braces its members."""
    parts = re.split(r"\{([^}]*)\}", form)
    choices = [GROUPS.get(part, part).split(",") if index % 2 else [part] for index, part in enumerate(parts)]
    for choice in itertools.product(*choices):
        yield "".join(choice)


REDUCTION_FORMS = frozenset(
    form for row in ("add.{u32,s32}", "{min,max}.{u32,s32}", "{and,or,xor}.b32") for form in expand(row)
)
"""What redux.sync computes of the numbers of a warp."""

ALU_FORMS: Mapping[str, str] = {form: expression for row, expression in ALU.items() for form in expand(row)}

CONVERTIBLE = frozenset({"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"})
"""cvt between any two integers of these types is one rule, and no row: read as the source type says, cut, extended."""
