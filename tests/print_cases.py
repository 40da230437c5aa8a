"""Programs that print, and what they print."""

import torch

TEXT = """kernel k(%a: array<i32,2>, %x: array<f32,1>, %b: array<bool,1>, %h: array<bf16,1>, %u: array<u8,1>) {
%z: i32 = constant {dtype=i32, value=0}
%t: i32[2, 3] = load %a, %z, %z {pad=0, shape=[2, 3], steps=[2, 3]}
%f: f32[2] = load %x, %z {pad=0.0, shape=[2], steps=[2]}
%p: bool[2] = load %b, %z {pad=0, shape=[2], steps=[2]}
%g: bf16[1] = load %h, %z {pad=0.0, shape=[1], steps=[1]}
%v: u8[1] = load %u, %z {pad=0, shape=[1], steps=[1]}
%i: i32 = bid {axis=0}
print {format="no values, 100%%, \\"quoted\\"\\n"}
print %i, %t {format="block %d: %3d\\n"}
%s: i32[2, 3] = add %t, %t
print %s, %f, %p {format="%x and %.2f, %d\\n"}
print %g, %v, %v, %i {format="%g %d %u%i"}
print %i, %t, %v, %f {format="; %lld %ld %hhu %5.1lf"}
}
"""
SAID = """no values, 100%, "quoted"
block 0: [[  1,  -2,   3], [  4,   5, -60]]
[[2, fffffffc, 6], [8, a, ffffff88]] and [1.50, -0.25], [1, 0]
[0.375] [200] [200]0; 0 [[1, -2, 3], [4, 5, -60]] [200] [  1.5,  -0.2]"""


def arguments():
    return [
        torch.tensor([[1, -2, 3], [4, 5, -60]], dtype=torch.int32),
        torch.tensor([1.5, -0.25]),
        torch.tensor([True, False]),
        torch.tensor([0.375], dtype=torch.bfloat16),
        torch.tensor([200], dtype=torch.uint8),
    ]
