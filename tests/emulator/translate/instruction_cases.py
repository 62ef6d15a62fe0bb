"""Reads the cases in instructions/*.txt and writes them as CUDA kernels with inline PTX, for any machine.

A line is `form operands -> result`, all hexadecimal; a form in braces stands for several. The result `nan` is any NaN.
A line that ends in ` ?` expects what no document promises and no GPU has shown yet. A form that ends in `|q` has two
predicates as results: bits 0 and 1.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pcietool.emulator.translate.isa import expand
from pcietool.ptx.model import TYPE_BYTES

FOLDER = Path(__file__).parent / "instructions"
LAST_IS_A_NUMBER = {"lop3.b32"}
NAN_64 = 0x7FF << 52
FORMS_OF_ONE_INSTRUCTION = ("moves", "integer", "bits", "comparisons", "floats", "conversions")
HEAD = "struct Watch;\ntypedef unsigned short u16;\ntypedef unsigned int u32;\ntypedef unsigned long long u64;\n"
CONSTRAINTS = {"b16": ("u16", "h"), "b32": ("u32", "r"), "b64": ("u64", "l")}


@dataclass(frozen=True)
class Case:
    """One line for one form; `results` may be several numbers."""

    form: str
    operands: tuple[int, ...]
    results: tuple[str, ...]
    confirmed: bool = True

    @property
    def instruction(self) -> str:
        """The form, with the operand that must be a number."""
        return f"{self.form} {self.operands[-1]:#x}" if self.form in LAST_IS_A_NUMBER else self.form

    def agrees(self, seen: int) -> bool:
        """Is this number the result?"""
        if self.results[0] == "nan":
            return seen & NAN_64 == NAN_64 and seen & (1 << 52) - 1 != 0
        return seen == int(self.results[0], 16)


def read_cases(family: str) -> Iterator[Case]:
    """All cases of one file, in order."""
    for line in (FOLDER / f"{family}.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            given, results = line.split("->")
            form, *operands = given.split()
            for single in expand(form):
                numbers = tuple(int(o, 16) for o in operands)
                yield Case(single, numbers, tuple(results.rstrip(" ?").split()), not results.endswith("?"))


def by_form(family: str) -> dict[str, list[Case]]:
    """Cases by instruction: those of one can share a kernel."""
    forms: dict[str, list[Case]] = {}
    for case in read_cases(family):
        forms.setdefault(case.instruction, []).append(case)
    return forms


def register_type(kind: str) -> str:
    """The register that holds a value of a PTX type; bytes live in 16-bit ones."""
    return "pred" if kind == "pred" else f"b{max(2, TYPE_BYTES[kind]) * 8}"


def signature(form: str, operands: int) -> tuple[str, list[str]]:
    """(result register, operand registers) of an instruction form."""
    opcode, *modifiers = form.split(".")
    kind = next(m for m in reversed(modifiers) if m in TYPE_BYTES)
    own = register_type(kind)
    wide = f"b{2 * TYPE_BYTES[kind] * 8}"
    match opcode, modifiers:
        case "setp", _:
            return "pred", [own, own, "pred"][:operands]
        case "selp", _:
            return own, [own, own, "pred"]
        case "mul" | "mad", ["wide", *_]:
            return wide, [own, own, wide][:operands]
        case (("shl" | "shr"), _):
            return own, [own, "b32"]
        case "bfe", _:
            return own, [own, "b32", "b32"]
        case "bfi", _:
            return own, [own, own, "b32", "b32"]
        case (("popc" | "clz" | "bfind"), _):
            return "b32", [own]
        case "cvt", [*_, to, source]:
            return register_type(to), [register_type(source)] * operands
    return own, [own] * operands


def kernel_of(name: str, form: str, operands: int) -> str:
    """A kernel in which thread t computes `form` of input[4 t ..] into output[t]."""
    form, *constant = form.split()
    form, _, second = form.partition("|")
    result, sources = signature(form, operands - len(constant))
    ins, before = [], ""
    for number, source in enumerate(sources, start=1):
        if source == "pred":
            before += f" setp.ne.u32 p{number}, %{number}, 0;"
            ins.append((f"p{number}", "b32"))
        else:
            ins.append((f"%{number}", source))
    target, after = ("p0", " selp.u32 %0, 1, 0, p0;") if result == "pred" else ("%0", "")
    if second:
        target, after = "p0|p4", f"{after} @p4 add.u32 %0, %0, 2;"
    result = "b32" if result == "pred" else result
    text = f"{{ .reg .pred p<5>;{before} {form} {', '.join([target, *(name for name, _ in ins), *constant])};{after} }}"
    inputs = ", ".join(f'"{CONSTRAINTS[kind][1]}"(({CONSTRAINTS[kind][0]})in[{n}])' for n, (_, kind) in enumerate(ins))
    ctype, letter = CONSTRAINTS[result]
    return (
        f'extern "C" __global__ void {name}(Watch*, const u64* input, u64* output) {{\n'
        f"    const u64* in = input + 4 * threadIdx.x;\n    {ctype} d;\n"
        f'    asm volatile("{text}" : "={letter}"(d) : {inputs});\n    output[threadIdx.x] = d;\n}}\n'
    )


def kernels_of(forms: Mapping[str, Sequence[Case]]) -> str:
    """CUDA text with kernel f0, f1, .. for the forms in order."""
    kernels = (kernel_of(f"f{n}", form, len(cases[0].operands)) for n, (form, cases) in enumerate(forms.items()))
    return HEAD + "".join(kernels)
