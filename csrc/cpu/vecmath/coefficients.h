// Polynomials of the vector functions, lowest power first: printed by fit_coefficients.py, which says how
// they were found.
#pragma once

namespace tile::cpu::TILE_ISA::fitted {

// (exp(r) - 1 - r) / r², |r| <= ln 2 / 2; relative error 2^-28.1
static constexpr float exp_tail[] = {0.49999994f, 0.166665167f, 0.041668281f, 0.00836924836f, 0.0013820742f};

// the same, of results that are rounded to 16 bits; relative error 2^-17.5
static constexpr float exp_tail_approximate[] = {0.500053227f, 0.167552561f, 0.0412700176f};

// (exp(r) - 1 - r) / r², |r| <= ln 2 / 32; relative error 2^-29.2
static constexpr float exp_short[] = {0.50001651f, 0.166668549f};

// (exp(r) - 1) / r on that interval, of results that are rounded to 16 bits; relative error 2^-21.1
static constexpr float exp_short_approximate[] = {1.00005972f, 0.500003278f};

// (2^r - 1) / r, |r| <= 1/32; relative error 2^-29.2
static constexpr float exp2_short[] = {0.693147182f, 0.24023445f, 0.0555025674f};

// 2^(k/16)
static constexpr float sixteenths[] = {
    1.0f,        1.04427373f, 1.09050775f, 1.13878858f, 1.18920708f, 1.24185777f, 1.29683959f, 1.35425556f,
    1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f, 1.68179286f, 1.75625217f, 1.8340081f,  1.91520655f};

// 2^f, |f| <= 1/2; relative error 2^-40.1
static constexpr double exp2_double[] = {
    0.99999999999973765,    0.69314718054541302,    0.24022650699125886,
    0.055504109437880512,   0.0096181285081180529,  0.0013333447781597781,
    0.00015403864849109327, 1.5310877958889292e-05, 1.317504401338514e-06};

// (log(1 + f) - f + f²/2) / f³, 1 + f in [sqrt 1/2, sqrt 2]; relative error 2^-30.2
static constexpr float log_tail[] = {0.333333105f,  -0.24999997f, 0.200022295f,  -0.166686416f, 0.1421794f,
                                     -0.123943418f, 0.118893228f, -0.117406927f, 0.0682074428f};

// log2(m) / s, s = (m - 1)/(m + 1), in s², m in [sqrt 1/2, sqrt 2]; relative error 2^-50.4
static constexpr double log2_double[] = {2.8853900817779272,  0.96179669392467781, 0.577078017071742,
                                         0.41219844107531523, 0.32061214106909819, 0.26167830444153645,
                                         0.236642102975854,   0.064919030870779285};

// (sin(r) - r) / r³ in r², |r| <= pi/4; relative error 2^-32.4
static constexpr float sin_tail[] = {-0.166666672f, 0.00833337754f, -0.000198520618f, 2.82023962e-06f};

// (cos(r) - 1 + r²/2) / r⁴ in r², |r| <= pi/4; relative error 2^-32.6
static constexpr float cos_tail[] = {0.0416666418f, -0.00138871302f, 2.44120856e-05f};

// (tanh(x) - x) / x³ in x², |x| <= 0.625; relative error 2^-27.6
static constexpr float tanh_tail[] = {-0.333332777f, 0.133313224f, -0.0537293628f, 0.0206042752f,
                                      -0.00566503592f};

// tanh(x), |x| <= 9.02, numerator; relative error 2^-24.8
static constexpr float tanh_fast_p[] = {1.0f, 0.133797288f, 0.00349404733f, 2.05836768e-05f, 1.33193163e-08f};

// tanh(x), |x| <= 9.02, denominator; relative error 2^-24.8
static constexpr float tanh_fast_q[] = {1.0f, 0.467130452f, 0.0258711223f, 0.000328311318f, 7.76212516e-07f};

// (sinh(x) - x) / x³ in x², |x| <= 1; relative error 2^-31.6
static constexpr float sinh_tail[] = {0.166666672f, 0.00833331048f, 0.000198428868f, 2.78232119e-06f};

// (erf(x) - x) / x in x², |x| <= 1; relative error 2^-29.4
static constexpr float erf_small[] = {0.128379166f,  -0.37612626f,    0.112835787f,   -0.0268533472f,
                                      0.0051871622f, -0.00079978531f, 7.80690389e-05f};

// log(1 - erf(x)) in x - 2, 1 <= x <= 3.95; relative error 2^-29.7
static constexpr float erf_large[] = {-5.36494112f,   -4.41815996f,     -0.923754394f, -0.0164870694f,
                                      0.00354746822f, -0.000708387757f, 0.00018711164f};

// (atan(x) - x) / x³ in x², |x| <= tan(pi/8); relative error 2^-30.4
static constexpr float atan_tail[] = {-0.333333164f, 0.199985251f, -0.142442971f, 0.105982654f,
                                      -0.0608733706f};

// (asin(x) - x) / x³ in x², |x| <= 1/2; relative error 2^-31.7
static constexpr float asin_tail[] = {0.166666597f,  0.0750052184f, 0.0445133783f,
                                      0.0318389721f, 0.0143157952f, 0.0376946293f};

}  // namespace tile::cpu::TILE_ISA::fitted
