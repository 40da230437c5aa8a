// Words of C++, functions and variables of CUDA, and what the device library has beside templates.
#include "cuda/taken_names.h"

#include "support/text.h"

namespace tile::cuda {
namespace {

constexpr std::string_view taken =
    " abs acos acosh alignas alignof and and_eq asin asinh asm assert atan atan2 atanh auto bitand bitor "
    "blockDim blockIdx bool break case catch cbrt ceil char class clock clock64 compl const const_cast "
    "constexpr continue copysign cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 decltype default delete do "
    "double dynamic_cast else enum erf erfc erfcinv erfcx erfinv exp exp10 exp2 explicit expm1 export "
    "extern f32 f64 fabs false fdim fdivide float floor fma fmax fmin fmod for free frexp friend goto "
    "gridDim hypot i16 i32 i64 i8 if ilogb inline int isfinite isinf isnan j0 j1 jn labs ldexp lgamma "
    "llabs llmax llmin llrint llround log log10 log1p log2 logb long lrint lround main malloc math max "
    "memcpy memory memset min modf mutable namespace nan nearbyint new nextafter noexcept norm norm3d "
    "norm4d normcdf normcdfinv not not_eq nullptr operator or or_eq pow powi printf private protected "
    "public rcbrt register reinterpret_cast remainder remquo return rhypot rint rnorm rnorm3d rnorm4d "
    "round rsqrt scalbln scalbn short signbit signed sin sincos sincospi sinh sinpi sizeof sqrt static "
    "static_assert static_cast struct switch tan tanh template tgamma this threadIdx thread_local throw "
    "tile true trunc try typedef typeid typename u16 u32 u64 u8 ullmax ullmin umax umin union unsigned "
    "using virtual void volatile warpSize wchar_t while xor xor_eq y0 y1 yn ";

bool listed(std::string_view name) { return taken.find(str(" ", name, " ")) != std::string_view::npos; }

}  // namespace

// Functions of doubles have twins of floats, sinf beside sin; types have capitals.
bool is_taken(std::string_view name) {
  if (name.empty()) return false;
  const bool capital = name[0] >= 'A' && name[0] <= 'Z';
  return capital || listed(name) || (name.ends_with('f') && listed(name.substr(0, name.size() - 1)));
}

}  // namespace tile::cuda
