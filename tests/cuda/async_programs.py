"""Texts of kernels whose warpgroups run different code, written by hand in the form that the compiler emits."""

from tile_ops import _C

HEADERS = ("cast", "matrices_out", "memory", "rings", "wgmma")


def text(body, threads, name="k", extra="", parameters=""):
    """A kernel of `threads` threads around `body`, which follows the number of the group."""
    includes = "\n".join(f'#include "cuda/device/{header}.cuh"' for header in HEADERS)
    return f"""#define TILE_GROUPS
{includes}

namespace tile {{
{extra}
TILE_KERNEL({threads}, 1) {name}({parameters}) {{
  const int group = this_group();
  const SharedAddress memory = shared_address(shared_memory());
{body}
}}

}}  // namespace tile
"""


def statements(columns, left, right, left_k_major, right_k_major, left_steps, left_blocks, right_steps):
    """The members of a product's struct that start it: with the left operand in shared memory, and in registers."""
    return "".join(
        _C.wgmma_text(columns, left, right, left_k_major, right_k_major, steps, left_blocks, right_steps)
        for steps in (left_steps, [])
    )


def product(columns, steps, left="bf16", right="bf16", rows=1, name="Product0", left_lies=None, right_lies=None):
    """The struct of a product. Where an operand lies: (k_major, leading, stride, mode, bytes from step to step), and of the
    left one the bytes from one block of rows to the next."""
    left_lies = left_lies or (True, 16, 1024, 1, 32, 8192)
    right_lies = right_lies or (False, 8192, 1024, 1, 2048)
    block_bytes = left_lies[5] if len(left_lies) > 5 else 0
    members = []
    for side, (k_major, leading, stride, mode, step, *_) in (("left", left_lies), ("right", right_lies)):
        members += [
            f"  static constexpr bool {side}_k_major = {'true' if k_major else 'false'};",
            f"  static constexpr int {side}_leading = {leading}, {side}_stride = {stride}, {side}_mode = {mode};",
            f"  TILE static constexpr int {side}_step(int k) {{ return k * {step}; }}",
        ]
    return "\n".join(
        [
            f"struct {name} {{",
            f"  static constexpr int columns = {columns}, rows = {rows}, steps = {steps};",
            f"  using Left = {left};",
            f"  using Right = {right};",
            *members,
            f"  TILE static constexpr int left_block(int i) {{ return i * {block_bytes}; }}",
            statements(
                columns,
                left,
                right,
                left_lies[0],
                right_lies[0],
                [k * left_lies[4] for k in range(steps)],
                [i * block_bytes for i in range(rows)],
                [k * right_lies[4] for k in range(steps)],
            ),
            "};",
        ]
    )


def sums_layout(columns, rows=1, groups=2, name="L0"):
    """The layout of the sums of a product: 64 * rows rows a group."""
    return f"""struct {name} {{
  static constexpr int rank = 2, registers = {rows * columns // 2}, replicas = 0, block_replicas = 0;
  static constexpr bool padded = false;
  TILE static constexpr int extent(int axis) {{ return axis == 0 ? {64 * rows * groups} : {columns}; }}
  TILE static int thread(int axis) {{
    return axis == 0 ? lane() / 4 + warp() * 16 + group_of_block() * {64 * rows} : lane() % 4 * 2;
  }}
  TILE static constexpr int element(int axis, int r) {{
    return axis == 0 ? r / 2 % 2 * 8 + r / {columns // 2} * 64 : r % 2 + r / 4 % {columns // 8} * 8;
  }}
}};
"""


def matmul(
    columns=64, stages=2, groups=2, left_transposed=False, right_transposed=False, boxes_out=False, blocks=1, changes=()
):
    """out = left @ right for bf16 of any extents, in tiles of 64 * blocks * groups x columns. A transposed operand lies along its other
    axis: left as [k, m], right as [n, k]. boxes_out: the result leaves through shared memory. Lines of the user: 7
    begins, 53 to 59 multiply, 80 to 84 store. Each change is an old and a new piece of the text."""
    rows = 64 * blocks * groups
    left_bytes, right_bytes = rows * 128, columns * 128
    stage_bytes, full = left_bytes + right_bytes, stages * (left_bytes + right_bytes)
    free = full + 8 * stages
    staging = (free + 8 * stages + 1023) // 1024 * 1024

    def copies(at, to, panels, along, across, transposed):
        """Boxes of 64 elements along the unit axis."""
        if not transposed:
            return [f"copy_tensor<2>({to}, {at}, memory + {full} + 8 * ring.stage, {{k * 64, {across}}}, 54);"]
        return [
            f"copy_tensor<2>({to} + {8192 * panel}, {at}, memory + {full} + 8 * ring.stage, {{{along} + {64 * panel}, k * 64}}, 54);"
            for panel in range(panels)
        ]

    left = copies("m0", f"memory + ring.stage * {stage_bytes}", blocks * groups, "row", "row", left_transposed)
    right = copies(
        "m1", f"memory + ring.stage * {stage_bytes} + {left_bytes}", columns // 64, "column", "column", not right_transposed
    )
    copied = "\n        ".join(left + right)
    give, take = {1: (0, 0), 2: (40, 232), 3: (32, 160)}[groups]
    gives = f"    give_registers<{give}>(7);\n" if give else ""
    takes = f"    take_registers<{take}>(7);\n" if take else ""
    stored = """    Tile<bf16, L0> v36;
    TILE_UNROLL
    for (int r = 0; r < L0::registers; ++r) v36.x[r] = convert<bf16>(v35.x[r]);
"""
    if boxes_out:
        stored += f"""    const SharedAddress staged = memory + {staging} + (group - 1) * 8192;
    TILE_UNROLL
    for (int panel = 0; panel < {columns // 64}; ++panel) {{
      if (thread() == 0) wait_for_tensor_reads<0>(80);
      synchronize(80);
      TILE_UNROLL
      for (int j = 0; j < 4; ++j) {{
        const int at = warp() * 16 + lane() % 16, chunk = (2 * j + lane() / 16) ^ at % 8, r = panel * 32 + j * 8;
        store_matrices(staged + at * 128 + chunk * 16, pair_at(v36, r), pair_at(v36, r + 2), pair_at(v36, r + 4), pair_at(v36, r + 6), 81);
      }}
      fence_async(82);
      synchronize(82);
      if (thread() == 0) {{
        store_tensor<2>(m2, staged, {{column + panel * 64, row + (group - 1) * 64}}, 83);
        commit_tensor_stores(83);
      }}
    }}
    if (thread() == 0) wait_for_tensor_reads<0>(84);"""
    else:
        stored += "    store<2, 0>(out, {row, column}, v36, 83);"
    body = f"""  const Array<bf16, 2, i32> out = array_of<1, i32>(p2);
  const i32 row = bid<1>() * {rows}, column = bid<0>() * {columns}, turns = (depth + 63) / 64;
  if (first_thread()) {{
    for (int i = 0; i < {stages}; ++i) {{
      init_barrier(memory + {full} + 8 * i, 1, 7);
      init_barrier(memory + {free} + 8 * i, {groups}, 7);
    }}
    publish_barriers();
  }}
  synchronize_all(7);
  if (group == 0) {{
{gives}    if (elected_thread(7)) {{
      Ring ring;
      TILE_LOOP for (i32 k = 0; k < turns; ++k) {{
        wait_for(memory + {free} + 8 * ring.stage, ring.phase ^ 1, 53);
        expect_bytes(memory + {full} + 8 * ring.stage, {stage_bytes}, 54);
        {copied}
        ring.next<{stages}>();
      }}
    }}
  }} else {{
{takes}    Ring ring;
    u32 last = 0;
    Tile<f32, L0> v25 = full<L0>(0.0f);
    if (turns > 0) {{
      TILE_LOOP for (i32 k = 0; k < turns; ++k) {{
        wait_for(memory + {full} + 8 * ring.stage, ring.phase, 55);
        const Tile<f32, L0> v33 = mma_issued<Product0>(v25, memory + ring.stage * {stage_bytes} + (group - 1) * {8192 * blocks}, memory + ring.stage * {stage_bytes} + {left_bytes}, k != 0, 56);
        mma_retire<1>(57);
        if (k && thread() == 0) arrive(memory + {free} + 8 * last, 58);
        last = ring.stage;
        ring.next<{stages}>();
        v25 = v33;
      }}
      v25 = mma_awaited<0>(v25, 59);  // behind the branch, ptxas would run the products one after another
    }}
    const Tile<f32, L0> v35 = v25;
{stored}
  }}"""
    extra = "\n".join(
        [
            product(
                columns,
                4,
                rows=blocks,
                left_lies=(False, 8192, 1024, 1, 2048, 8192) if left_transposed else (True, 16, 1024, 1, 32, 8192),
                right_lies=(True, 16, 1024, 1, 32) if right_transposed else (False, 8192, 1024, 1, 2048),
            ),
            sums_layout(columns, blocks, groups),
        ]
    )
    parameters = (
        "ArrayParameter<bf16, 2> p0, ArrayParameter<bf16, 2> p1, ArrayParameter<bf16, 2> p2, i32 depth, "
        "const TILE_CONSTANT TensorMap m0, const TILE_CONSTANT TensorMap m1"
        + (", const TILE_CONSTANT TensorMap m2" if boxes_out else "")
    )
    made = text(body, 128 * (groups + 1), "matmul", extra, parameters)
    for old, new in changes:
        assert old in made, old
        made = made.replace(old, new)
    return made


def matmul_memory(columns=64, stages=2, groups=2, boxes_out=False, blocks=1):
    """The bytes of shared memory that matmul() uses."""
    rings = stages * (blocks * groups * 8192 + columns * 128) + 16 * stages
    return (rings + 1023) // 1024 * 1024 + groups * 8192 if boxes_out else rings


def matmul_maps(columns=64, groups=2, left_transposed=False, right_transposed=False, boxes_out=False, blocks=1):
    """Its tensor maps, as in a program."""
    left = tensor_map(0, [64, 64] if left_transposed else [64 * blocks * groups, 64])
    right = tensor_map(1, [columns, 64] if right_transposed else [64, 64])
    return [left, right, tensor_map(2, [64, 64])] if boxes_out else [left, right]


def tensor_map(parameter, box, swizzle=128):
    """The map of a matrix whose last axis is contiguous."""
    return {"parameter": parameter, "unit": 1, "box": box, "swizzle": swizzle}
