"""Enumerations that language functions take."""

import enum


class PaddingMode(enum.Enum):
    """Chooses the value that a load returns for elements outside of the array. Integers are always 0."""

    UNDETERMINED = "undetermined"
    ZERO = "zero"
    NEG_ZERO = "neg_zero"
    NAN = "nan"
    POS_INF = "pos_inf"
    NEG_INF = "neg_inf"


class RoundingMode(enum.Enum):
    """Chooses how a float result is rounded."""

    RN = "nearest_even"
    RZ = "zero"
    RM = "negative_inf"
    RP = "positive_inf"
    RA = "nearest_away"
    FULL = "full"
    APPROX = "approx"
    RZI = "nearest_int_to_zero"


class MemoryOrder(enum.Enum):
    """Orders a memory access with the accesses before and after it."""

    WEAK = "weak"
    RELAXED = "relaxed"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"


class MemoryScope(enum.Enum):
    """Names the threads for which a memory order holds: those of the block, the device or the system."""

    NONE = "none"
    BLOCK = "block"
    DEVICE = "device"
    SYS = "sys"


PADDING = {
    PaddingMode.UNDETERMINED: 0.0,
    PaddingMode.ZERO: 0.0,
    PaddingMode.NEG_ZERO: -0.0,
    PaddingMode.NAN: float("nan"),
    PaddingMode.POS_INF: float("inf"),
    PaddingMode.NEG_INF: float("-inf"),
}
# Suffixes of the primitives that round in a direction.
SUFFIX = {RoundingMode.RZ: "_rz", RoundingMode.RM: "_rm", RoundingMode.RP: "_rp"}
DIRECTED = tuple(SUFFIX)
CAST_SUFFIX = {**SUFFIX, RoundingMode.RA: "_ra"}
EXACT = (RoundingMode.RN, *DIRECTED)
