"""Texts that multiply one tile by wgmma, for each way in which operands may lie in shared memory."""

import async_programs
import torch

STEPS, STEP_BYTES, ROWS, CHUNK = 4, 32, 64, 16
BARRIER = 64 * 1024  # behind the operands
SWIZZLES = (128, 64, 32, 0)
MODES = {128: 1, 64: 2, 32: 3, 0: 0}
# Operands: the names of both types, and how torch stores them.
TYPES = {
    "bf16": ("bf16", "bf16", torch.bfloat16, torch.bfloat16),
    "f16": ("f16", "f16", torch.float16, torch.float16),
    "tf32": ("tf32", "tf32", torch.float32, torch.float32),
    "e4m3": ("f8e4m3", "f8e4m3", torch.float8_e4m3fn, torch.float8_e4m3fn),
    "e4m3_e5m2": ("f8e4m3", "f8e5m2", torch.float8_e4m3fn, torch.float8_e5m2),
    "e5m2_e4m3": ("f8e5m2", "f8e4m3", torch.float8_e5m2, torch.float8_e4m3fn),
    "i8_u8": ("i8", "u8", torch.int8, torch.uint8),
    "u8_i8": ("u8", "i8", torch.uint8, torch.int8),
}


def depth(kind):
    return STEPS * STEP_BYTES // TYPES[kind][2].itemsize


class Operand:
    """An operand of `extent` rows or columns that lies in panels of a swizzle's width, and the copies that bring it."""

    def __init__(self, extent, element_bytes, k_major, swizzle):
        span, deep = swizzle or CHUNK, STEPS * STEP_BYTES // element_bytes
        width, self.rows = (deep, extent) if k_major else (extent, deep)  # in memory
        self.k_major, self.swizzle, self.mode = k_major, swizzle, MODES[swizzle]
        self.panel = span // element_bytes
        self.panels, self.panel_bytes = -(-width // self.panel), self.rows * span
        along_panels, of_eight_rows = self.panel_bytes, 8 * span
        if swizzle:
            self.leading, self.stride = CHUNK if k_major else along_panels, of_eight_rows
        elif k_major:
            self.leading, self.stride = along_panels, of_eight_rows
        else:
            self.leading, self.stride = of_eight_rows, along_panels
        if not k_major:
            self.steps = [k * (STEP_BYTES // element_bytes * span) for k in range(STEPS)]
        else:
            self.steps = [k * STEP_BYTES // span * self.panel_bytes + k * STEP_BYTES % span for k in range(STEPS)]

    @property
    def bytes(self):
        return self.panels * self.panel_bytes

    def map(self, parameter):
        """Its tensor map."""
        return async_programs.tensor_map(parameter, [self.rows, self.panel], self.swizzle)

    def members(self, side):
        return f"""  static constexpr bool {side}_k_major = {"true" if self.k_major else "false"};
  static constexpr int {side}_leading = {self.leading}, {side}_stride = {self.stride}, {side}_mode = {self.mode};
  static constexpr int {side}_panels = {self.panels}, {side}_panel = {self.panel}, {side}_panel_bytes = {self.panel_bytes};
  TILE static constexpr int {side}_step(int k) {{
    constexpr int at[] = {{{", ".join(map(str, self.steps))}}};
    return at[k];
  }}
"""


def cases(kind, columns):
    """Pairs of operands: both majors of each for 16-bit types, with each swizzle."""
    size = TYPES[kind][2].itemsize
    majors = [(True, True), (True, False), (False, True), (False, False)] if size == 2 else [(True, True)]
    return [
        (Operand(ROWS, size, left, swizzle), Operand(columns, size, right, swizzle))
        for left, right in majors
        for swizzle in SWIZZLES
    ]


COMMON = """
template <class P>
TILE void copy_operands(SharedAddress memory, const TensorMap& m0, const TensorMap& m1) {
  expect_bytes(memory + 65536, P::left_panels * P::left_panel_bytes + P::right_panels * P::right_panel_bytes, 2);
  for (int i = 0; i < P::left_panels; ++i)
    copy_tensor<2>(memory + i * P::left_panel_bytes, m0, memory + 65536, {i * P::left_panel, 0}, 3);
  for (int i = 0; i < P::right_panels; ++i)
    copy_tensor<2>(memory + 16384 + i * P::right_panel_bytes, m1, memory + 65536, {i * P::right_panel, 0}, 4);
}
template <class Sum, class L>
TILE void store_sums(Sum* to, const Tile<Sum, L>& sums, int columns) {
  for (int r = 0; r < L::registers; ++r) {
    const int row = warp() * 16 + lane() / 4 + r / 2 % 2 * 8, column = r / 4 * 8 + lane() % 4 * 2 + r % 2;
    store_element(to + row * columns + column, sums.x[r], true, 8);
  }
}
// Twice the product, in two batches.
template <class P, class L, class Sum>
TILE void multiply(SharedAddress memory, const TensorMap& m0, const TensorMap& m1, Sum* to, u32 parity) {
  if (first_thread()) copy_operands<P>(memory, m0, m1);
  wait_for(memory + 65536, parity, 5);
  Tile<Sum, L> sums;
  sums = mma_issued<P>(sums, memory, memory + 16384, false, 6);
  sums = mma_issued<P>(sums, memory, memory + 16384, true, 6);
  sums = mma_awaited<0>(sums, 7);
  store_sums(to, sums, P::columns);
  synchronize(9);
}
// The same with the left operand, which lies along k, in registers.
template <class P, class L, class LL, class T, class Sum>
TILE void multiply_registers(SharedAddress memory, const T* left, int pitch, Sum* to) {
  Tile<T, LL> own;
  for (int k = 0; k < P::steps; ++k)
    for (int word = 0; word < 4; ++word) {
      const int row = warp() * 16 + lane() / 4 + word % 2 * 8, byte = k * 32 + lane() % 4 * 4 + word / 2 * 16;
      const Words<4> bits = load_global<4, false>((const char*)(left + row * pitch) + byte, true, {}, 10);
      memcpy((char*)own.x + (k * 4 + word) * 4, &bits, 4);
    }
  Tile<Sum, L> sums;
  sums = mma_issued_from_registers<P>(sums, own, memory + 16384, false, 11);
  sums = mma_issued_from_registers<P>(sums, own, memory + 16384, true, 11);
  sums = mma_awaited<0>(sums, 12);
  store_sums(to, sums, P::columns);
}
"""


def text(kind, columns):
    """One kernel for all cases. Arrays: the left operand along k and along its rows, the right one likewise, and the
    results [case, 64, columns]. The last result has the left operand in registers."""
    left, right, left_dtype, _ = TYPES[kind]
    sum_type = "i32" if left_dtype.itemsize == 1 and not left_dtype.is_floating_point else "f32"
    structs, calls, maps = [COMMON], [], []
    structs.append(f"struct L0 {{ static constexpr int rank = 2, registers = {columns // 2}; }};")
    structs.append(f"struct L1 {{ static constexpr int rank = 2, registers = {STEPS * 16 // left_dtype.itemsize}; }};")
    all_cases = cases(kind, columns)
    for i, (a, b) in enumerate(all_cases):
        statements = async_programs.statements(columns, left, right, a.k_major, b.k_major, a.steps, [0], b.steps)
        structs.append(f"""struct P{i} {{
  static constexpr int columns = {columns}, rows = 1, steps = {STEPS};
  using Left = {left};
  using Right = {right};
{a.members("left")}{b.members("right")}  TILE static constexpr int left_block(int) {{ return 0; }}
{statements}}};""")
        maps += [f"const TILE_CONSTANT TensorMap a{i}", f"const TILE_CONSTANT TensorMap b{i}"]
        calls.append(f"  multiply<P{i}, L0>(memory, a{i}, b{i}, p4.data + {i * ROWS * columns}, {i % 2});")
    last = len(all_cases) - 1
    calls.append(
        f"  multiply_registers<P{last}, L0, L1>(memory, p0.data, {depth(kind)}, p4.data + {(last + 1) * ROWS * columns});"
    )
    arrays = [f"ArrayParameter<{t}, 2> p{i}" for i, t in enumerate((left, left, right, right, sum_type))]
    body = """  if (first_thread()) {
    init_barrier(memory + 65536, 1, 1);
    publish_barriers();
  }
  synchronize_all(1);
""" + "\n".join(calls)
    return async_programs.text(body, 128, "wgmma", "\n".join(structs), ", ".join([*arrays, *maps]))


def tensor_maps(kind, columns):
    return [one for a, b in cases(kind, columns) for one in (a.map(0 if a.k_major else 1), b.map(2 if b.k_major else 3))]


def operands(kind, columns, generator):
    """Both operands, [64, k] and [columns, k], and the float64 values that they are multiplied as."""

    def values(rows, dtype):
        if not dtype.is_floating_point:
            info = torch.iinfo(dtype)
            x = torch.randint(info.min, info.max + 1, (rows, depth(kind)), generator=generator).to(dtype)
        else:
            x = torch.randn(rows, depth(kind), generator=generator).to(dtype)
        exact = x.double()
        if dtype == torch.float32:  # tf32: the unit ignores the last 13 bits
            exact = (x.view(torch.int32) & ~0x1FFF).view(torch.float32).double()
        return x, exact

    return values(ROWS, TYPES[kind][2]), values(columns, TYPES[kind][3])
