import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcietool.errors import PtxError
from pcietool.ptx.lexer import Cursor


def texts(source: str) -> list[str]:
    return [token.text for token in Cursor(source).tokens]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("ld.global.u32 %r1, [%rd1+-8];", ["ld.global.u32", "%r1", ",", "[", "%rd1", "+", "-8", "]", ";"]),
        ("@!%p1 bra $L__BB0_1;", ["@", "!", "%p1", "bra", "$L__BB0_1", ";"]),
        ("x: mov.u32 %r1, %tid.x;", ["x", ":", "mov.u32", "%r1", ",", "%tid.x", ";"]),
        (
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [a]",
            ["cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", "[", "a", "]"],
        ),
        ("0f3F800000 0d3FF8000000000000 -1 0x1FU", ["0f3F800000", "0d3FF8000000000000", "-1", "0x1FU"]),
        ("a // b ; \n /* c ; \n */ d", ["a", "d"]),
        ('"a \\" b" c', ['"a \\" b"', "c"]),
        (
            ".loc 1 2 3, function_name $L, inlined_at 4 5 6\nret;",
            [".loc 1 2 3, function_name $L, inlined_at 4 5 6", "ret", ";"],
        ),
        (".section .debug_str\n{\n$L_x:\n.b8 95,0\n\n}\nret", ["ret"]),
    ],
)
def test_splits_into_tokens(source: str, expected: list[str]) -> None:
    assert texts(source) == [*expected, ""]


@pytest.mark.parametrize(
    ("literal", "value"),
    [
        ("0", 0),
        ("42U", 42),
        ("-7", -7),
        ("0x1F", 31),
        ("-0x10", -16),
        ("0b101", 5),
        ("017", 15),
        (str(2**64 - 1), 2**64 - 1),
    ],
)
def test_reads_integers(literal: str, value: int) -> None:
    assert Cursor(literal).integer() == value


@pytest.mark.parametrize("literal", ["08", str(2**64), str(-(2**63) - 1), "9" * 5000])
def test_refuses_what_is_no_64_bit_integer(literal: str) -> None:
    with pytest.raises(PtxError, match=r"^PTX line 1, column 1: .*integer"):
        Cursor(literal).integer()


def test_an_error_names_line_column_and_character() -> None:
    with pytest.raises(PtxError, match=r"^PTX line 3, column 5: unexpected character '\^'$"):
        Cursor("ret;\n\nret ^ ;")


def test_an_unterminated_comment_hides_nothing() -> None:
    with pytest.raises(PtxError, match="line 2, column 1"):
        Cursor("ret;\n/* ret;")


@given(st.text(alphabet=st.characters(max_codepoint=0x2000)))
def test_arbitrary_text_raises_ptx_errors_only(source: str) -> None:
    try:
        cursor = Cursor(source)
    except PtxError:
        return
    assert cursor.tokens[-1].kind == "end"
    for token in cursor.tokens:
        assert source.startswith(token.text, token.offset)
