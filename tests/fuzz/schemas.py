"""Random texts as the schemas of operators: a clear error, or a schema that torch reads back the same."""

import ctypes
import functools
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from fuzz import cases

WORDS = """
    Tensor Tensor? Tensor[] Tensor?[] Tensor[]? Tensor(a) Tensor(a!) Tensor(a!)[] Tensor(a->b) int int[] int[2] int[]?
    int[0] SymInt SymInt? SymInt[] SymInt[3] SymInt[]? float float? float[] float[2] bool bool[] bool[3] bool[4] str
    str? str[] Scalar Scalar? ScalarType Device Layout MemoryFormat Generator Any Dict(str,int) Future(Tensor) t Storage
    Stream QScheme Dimname DimVector __torch__.a.B NoneType number complex -> , ( ) [ ] ? ! * | = :: . ... None True
    False mean contiguous_format strided
""".split()
# Texts of internal errors of torch or of our library, which no user should see.
INNER = re.compile(
    r"INTERNAL ASSERT|Exception raised from|torch refuses the definition|internal error|basic_string|"
    r"vector::|stoi|stod|stoll|bad_|map::at|std::"
)


@functools.cache
def library():
    from built import OPERATORS, load_operators

    load_operators()
    entry = ctypes.CDLL(str(OPERATORS)).tile_test_schema
    entry.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int]
    return entry


def check(text):
    import torch

    buffer = ctypes.create_string_buffer(100_000)
    text = text.removesuffix("\n")
    wrong = library()(text.encode(), buffer, len(buffer))
    said = buffer.value.decode()  # an error, if it is no UTF-8
    if not wrong:
        again = str(torch._C.parse_schema(said))
        if again != said:
            raise cases.Broken(f"'{text}' became '{said}', which reads '{again}'")
        return
    match = re.fullmatch(r"schema\.cpp:\d+: (.*)", said, re.DOTALL)
    fact = match and match[1].replace(text, "TEXT")
    if not match or INNER.search(fact):
        raise cases.Broken(f"'{text}' is refused with '{said}'")
    if len(fact) > 500 or ";" not in fact:
        raise cases.Broken(f"'{text}' is refused with '{said}', which is long or names no fix")


def make(rng):
    corpus = cases.texts("schemas")
    return cases.changed(rng.choice(corpus), corpus, WORDS, rng)


if __name__ == "__main__":
    os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # each refusal is a warning, too
    cases.main(make, check, ".txt")
