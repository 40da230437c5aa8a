"""early_reads.py on code as nvdisasm prints it: what it finds, and what it takes for no fault."""

from early_reads import early_reads, instructions, unwaited

# As ptxas 13.0 schedules it: five cycles, while the product, which the predicate turns off, is to take longer.
FAULT = [
    (2, "CS2R R58, SRZ"),
    (1, "@!P1 IMAD.WIDE R58, R54, 0x4, R60"),
    (1, "CS2R R60, SRZ"),
    (1, "SHFL.BFLY PT, R47, R62, 0x8, 0x1f"),
    (4, "ISETP.NE.U32.AND P1, PT, R58, RZ, PT"),
    (13, "ISETP.NE.AND.EX P1, PT, R59, RZ, PT, P1"),
    (1, "@P1 STG.E desc[UR10][R58.64], R22"),
]


def printed(code):
    text = "".join(f"        /*{16 * i:04x}*/                   {line} ;  /* 0x000000000000{i:04x} */\n"
                   f"                                     /* 0x{cycles << 41 | 5:016x} */\n"
                   for i, (cycles, line) in enumerate(code))  # fmt: skip
    return instructions(f".text.k:\n{text}.L_x_0:\n")


def found(code, cycles=6):
    return [each[1:] for each in early_reads(printed(code), cycles)]


def test_a_read_before_the_zeros_are_there():
    assert found(FAULT) == [("ISETP.NE.U32.AND P1, PT, R58, RZ, PT", 5)]
    assert found(FAULT, cycles=5) == []


def test_the_second_register_of_the_pair():
    assert found([(3, "CS2R R8, SRZ"), (1, "IADD3 R4, R9, R5, RZ")]) == [("IADD3 R4, R9, R5, RZ", 3)]
    assert found([(3, "CS2R.32 R8, SRZ"), (1, "IADD3 R4, R9, R5, RZ")]) == []


def test_no_fault():
    assert found([(7, "CS2R R8, SRZ"), (1, "IADD3 R4, R8, R5, RZ")]) == []
    assert found([(1, "CS2R R8, SRZ"), (1, "IADD3 R8, R4, R5, RZ"), (1, "IADD3 R6, R8, R5, RZ")]) == []  # other numbers
    assert found([(1, "CS2R R8, SRZ"), (1, "BRA `(.L_x_0)"), (1, "IADD3 R6, R8, R5, RZ")]) == []
    assert found([(1, "CS2R R8, SRZ"), (1, "@!P0 LDG.E.128 R8, desc[UR10][R12.64]")]) == []


def test_an_access_before_the_wait():
    early, late = "@P0 LDG.E.CONSTANT R4, desc[UR4][R2.64]", "STG.E desc[UR4][R2.64], R4"
    shared = "LDS R5, [R6]"
    assert unwaited(printed([(2, early), (1, shared), (1, "@P1 ACQBULK"), (1, late)])) == [early[4:]]
    assert unwaited(printed([(1, shared), (1, "ACQBULK"), (2, early), (1, late)])) == []
    assert unwaited(printed([(2, early), (1, late)])) == [early[4:], late]
