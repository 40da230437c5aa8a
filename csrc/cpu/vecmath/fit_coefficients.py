"""Fits the polynomials of the float vector functions and prints coefficients.h:  python fit_coefficients.py | clang-format > coefficients.h

Each fit is minimax in relative error by Lawson's iteration (least squares whose weights grow where the error is large). Coefficients are
rounded to float from the lowest power up, the rest refitted after each, so that the printed ones are the ones that were fitted.
"""

import math
import sys

import numpy as np

POINTS = 2000


def nodes(low, high):
    return (low + high) / 2 + (high - low) / 2 * np.cos(np.pi * (np.arange(POINTS) + 0.5) / POINTS)


def lawson(basis, target, scale, rounds=200):
    """Coefficients of basis (points x terms) that bring max|basis @ c - target| * scale down."""
    weight = np.ones(len(target)) / len(target)
    best, best_error = None, math.inf
    for _ in range(rounds):
        root = np.sqrt(weight) * scale
        norm = np.abs(basis).max(axis=0)
        c = np.linalg.lstsq(basis / norm * root[:, None], target * root, rcond=None)[0] / norm
        error = np.abs(basis @ c - target) * scale
        if error.max() < best_error:
            best, best_error = c, error.max()
        if error.max() == 0:
            break
        weight = weight * (error / error.max() + 1e-3)
        weight /= weight.sum()
    return best, best_error


def fit(basis, target, scale, dtype=np.float32, fixed=()):
    """As lawson, with coefficients exact in dtype; `fixed` gives the first ones."""
    done = [dtype(c) for c in fixed]
    while len(done) < basis.shape[1]:
        rest = target - sum((basis[:, i] * float(c) for i, c in enumerate(done)), np.zeros(len(target)))
        c, error = lawson(basis[:, len(done) :], rest, scale)
        done.append(dtype(c[0]))
    error = np.abs(basis @ np.array(done, dtype=np.float64) - target) * scale
    return done, error.max()


def polynomial(name, note, low, high, terms, value, relative_to, argument=lambda x: x, dtype=np.float32, fixed=()):
    """value(x) ~ sum c_i argument(x)^i, the error counted against relative_to(x)."""
    x = nodes(low, high)
    t = argument(x)
    basis = np.stack([t**i for i in range(terms)], axis=1)
    c, error = fit(basis, value(x), 1 / np.abs(relative_to(x)), dtype, fixed)
    emit(name, note, c, error)


def emit(name, note, coefficients, error):
    kind = "float" if isinstance(coefficients[0], np.float32) else "double"
    digits, suffix = (9, "f") if kind == "float" else (17, "")
    texts = []
    for c in coefficients:
        text = f"{float(c):.{digits}g}"
        texts.append((text if "." in text or "e" in text else text + ".0") + suffix)
    text = ", ".join(texts)
    print(f"// {note}; relative error 2^{math.log2(error):.1f}")
    print(f"static constexpr {kind} {name}[] = {{{text}}};\n")


def rational(name, note, high, terms, value):
    """value(x) ~ x P(x²) / Q(x²), Q(0) = 1: linearised, reweighted by the last Q."""
    x = nodes(0, high)
    t, f = x * x, value(x)
    q = np.ones(POINTS)
    for _ in range(30):
        basis = np.concatenate(
            [np.stack([x * t**i for i in range(terms)], 1), np.stack([-f * t**i for i in range(1, terms)], 1)], axis=1
        )
        c, _ = lawson(basis, f, 1 / (np.abs(f) * q), rounds=60)
        p, d = c[:terms], np.concatenate([[1], c[terms:]])
        q = np.polyval(d[::-1], t)
    p, d = p.astype(np.float32), d.astype(np.float32)
    error = np.abs(x * np.polyval(p[::-1].astype(float), t) / np.polyval(d[::-1].astype(float), t) / f - 1).max()
    emit(name + "_p", note + ", numerator", list(p), error)
    emit(name + "_q", note + ", denominator", list(d), error)


def elementwise(f):
    return lambda x: np.array([f(v) for v in x])


def main():
    print(
        "// Polynomials of the vector functions, lowest power first: printed by fit_coefficients.py, which says how they were found."
    )
    print("#pragma once\n\nnamespace tile::cpu::TILE_ISA::fitted {\n")
    half_ln2 = math.log(2) / 2 * 1.01
    polynomial(
        "exp_tail",
        "(exp(r) - 1 - r) / r², |r| <= ln 2 / 2",
        -half_ln2,
        half_ln2,
        5,
        lambda r: (np.expm1(r) - r) / r**2,
        lambda r: np.exp(r) / r**2,
    )
    polynomial(
        "exp_tail_approximate",
        "the same, of results that are rounded to 16 bits",
        -half_ln2,
        half_ln2,
        3,
        lambda r: (np.expm1(r) - r) / r**2,
        lambda r: np.exp(r) / r**2,
    )
    # Beside a table of 2^(k/16): errors count as those of exp.
    sixteenth = half_ln2 / 16
    polynomial(
        "exp_short",
        "(exp(r) - 1 - r) / r², |r| <= ln 2 / 32",
        -sixteenth,
        sixteenth,
        2,
        lambda r: (np.expm1(r) - r) / r**2,
        lambda r: np.exp(r) / r**2,
    )
    polynomial(
        "exp_short_approximate",
        "(exp(r) - 1) / r on that interval, of results that are rounded to 16 bits",
        -sixteenth,
        sixteenth,
        2,
        lambda r: np.expm1(r) / r,
        lambda r: np.exp(r) / r,
    )
    polynomial(
        "exp2_short",
        "(2^r - 1) / r, |r| <= 1/32",
        -0.5 / 16 * 1.01,
        0.5 / 16 * 1.01,
        3,
        lambda r: np.expm1(r * math.log(2)) / r,
        lambda r: np.exp2(r) / r,
    )
    print("// 2^(k/16)")
    sixteenths = ", ".join(f"{float(np.float32(2 ** (k / 16))):.9g}f" for k in range(16)).replace("1f,", "1.0f,", 1)
    print(f"static constexpr float sixteenths[] = {{{sixteenths}}};\n")
    polynomial("exp2_double", "2^f, |f| <= 1/2", -0.505, 0.505, 9, np.exp2, np.exp2, dtype=np.float64)
    low, high = math.sqrt(0.5) - 1.001, math.sqrt(2) - 0.999
    polynomial(
        "log_tail",
        "(log(1 + f) - f + f²/2) / f³, 1 + f in [sqrt 1/2, sqrt 2]",
        low - 1e-3,
        high,
        9,
        lambda f: (np.log1p(f) - f + f * f / 2) / f**3,
        lambda f: np.log1p(f) / f**3,
    )
    edge = (math.sqrt(2) - 1) / (math.sqrt(2) + 1) * 1.001
    polynomial(
        "log2_double",
        "log2(m) / s, s = (m - 1)/(m + 1), in s², m in [sqrt 1/2, sqrt 2]",
        1e-4,
        edge,
        8,
        lambda s: 2 * np.arctanh(s) / math.log(2) / s,
        lambda s: 2 * np.arctanh(s) / s,
        lambda s: s * s,
        np.float64,
    )
    quarter = math.pi / 4 * 1.02
    polynomial(
        "sin_tail",
        "(sin(r) - r) / r³ in r², |r| <= pi/4",
        1e-2,
        quarter,
        4,
        lambda r: (np.sin(r) - r) / r**3,
        lambda r: np.sin(r) / r**3,
        lambda r: r * r,
    )
    polynomial(
        "cos_tail",
        "(cos(r) - 1 + r²/2) / r⁴ in r², |r| <= pi/4",
        3e-2,
        quarter,
        3,
        lambda r: (np.cos(r) - 1 + r * r / 2) / r**4,
        lambda r: np.cos(r) / r**4,
        lambda r: r * r,
    )
    polynomial(
        "tanh_tail",
        "(tanh(x) - x) / x³ in x², |x| <= 0.625",
        1e-2,
        0.63,
        5,
        lambda x: (np.tanh(x) - x) / x**3,
        lambda x: np.tanh(x) / x**3,
        lambda x: x * x,
    )
    rational("tanh_fast", "tanh(x), |x| <= 9.02", 9.02, 5, np.tanh)
    polynomial(
        "sinh_tail",
        "(sinh(x) - x) / x³ in x², |x| <= 1",
        1e-2,
        1.001,
        4,
        lambda x: (np.sinh(x) - x) / x**3,
        lambda x: np.sinh(x) / x**3,
        lambda x: x * x,
    )
    polynomial(
        "erf_small",
        "(erf(x) - x) / x in x², |x| <= 1",
        1e-3,
        1.001,
        7,
        elementwise(lambda x: math.erf(x) / x - 1),
        elementwise(lambda x: math.erf(x) / x),
        lambda x: x * x,
    )
    # 1 - exp(q) with exp(q) <= 0.16: an error of q counts as erfc/erf of it.
    polynomial(
        "erf_large",
        "log(1 - erf(x)) in x - 2, 1 <= x <= 3.95",
        0.999,
        3.96,
        7,
        elementwise(lambda x: math.log(math.erfc(x))),
        elementwise(lambda x: math.erf(x) / math.erfc(x)),
        lambda x: x - 2,
    )
    eighth = math.tan(math.pi / 8) * 1.001
    polynomial(
        "atan_tail",
        "(atan(x) - x) / x³ in x², |x| <= tan(pi/8)",
        1e-2,
        eighth,
        5,
        lambda x: (np.arctan(x) - x) / x**3,
        lambda x: np.arctan(x) / x**3,
        lambda x: x * x,
    )
    polynomial(
        "asin_tail",
        "(asin(x) - x) / x³ in x², |x| <= 1/2",
        1e-2,
        0.501,
        6,
        lambda x: (np.arcsin(x) - x) / x**3,
        lambda x: np.arcsin(x) / x**3,
        lambda x: x * x,
    )
    print("}  // namespace tile::cpu::TILE_ISA::fitted")


if __name__ == "__main__":
    sys.exit(main())
