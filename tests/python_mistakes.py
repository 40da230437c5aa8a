"""Defines kernels of cuTile's dialect with mistakes, each the body of `def kernel(x, v, i8, out, n, s, w)`; mistakes.txt
has the errors that their launches raise.

x, out: float32 [8, 8]; v: float32 [8]; i8, w: int8 and int64 [8]; n: an int32, s: a float32 scalar."""

SNIPPETS = """
t = ct.load(x, (0, 0), (3, 8))
t = ct.load(x, (0, 0), (0, 8))
t = ct.load(x, (0, 0), (8, n))
t = ct.load(x, (0, 0), (8.0, 8))
t = ct.load(x, (0,), (8, 8))
t = ct.load(x, (0, 0), (8,))
t = ct.load(x, (0, 1.5), (8, 8))
t = ct.load(x, (0, s), (8, 8))
t = ct.load(x, 0, (8, 8), order="D")
t = ct.load(x, (0, 0), (8, 8), order=(0, 0))
t = ct.load(x, (0, 0), (8, 8), padding_mode=3)
t = ct.load(x, (0, 0), (8, 8), latency=11)
t = ct.load(x, (0, 0), (8, 8), allow_tma=1)
t = ct.load(x, (0, 0), (8, 8), memory_scope=ct.MemoryScope.DEVICE)
t = ct.load(x, (0, 0), (8, 8), memory_order=ct.MemoryOrder.ACQUIRE)
t = ct.load(x, (0, 0), (8, 8), memory_order=ct.MemoryOrder.RELEASE, memory_scope=ct.MemoryScope.DEVICE)
t = ct.load(n, (0, 0), (8, 8))
t = ct.load(x)
t = ct.load(x, 0, 0, 0)
t = ct.load(x, (0, 0), shape=(8, 8), sise=3)
ct.store(out, (0, 0), ct.load(v, 0, 8))
ct.store(out, (0, 0), "text")
ct.store(i8, 0, ct.zeros((8,), ct.float32))
ct.store(i8, 0, ct.zeros((8,), ct.int64))
ct.store(i8, 0, 128)
ct.store(i8, 0, 1.5)
t = x[0]
x[0] = 1
t = ct.load(v, 0, 8)[0]
t = ct.load(v, 0, 8)[1:]
t = ct.load(v, 0, 8)[:, :]
ct.load(v, 0, 8)[0] = 1
t = ct.load(v, 0, 8).T
t = x.T
t = n.foo
t = x.slice(2, 0, 1)
t = x.slice(0, 3, 1)
t = x.slice(0, 0.5, 1)
t = x.tiled_view((4,))
t = x.tiled_view((4, 4), traversal_steps=(1,))
t = x.tiled_view((4, 4), traversal_steps=(0, 5))
t = x.tiled_view((4, 4)).load(0)
x.tiled_view((4, 4)).store((0, 0), ct.zeros((8, 4), ct.float32))
i8.tiled_view(4).atomic_store_max(0, 1)
t = ct.load(v, 0, 8) + ct.load(v, 0, 4)
t = ct.load(v, 0, 8) + x
t = ct.load(v, 0, 8) + "a"
t = ct.load(v, 0, 8) + None
t = ct.load(i8, 0, 8) + 300
t = ct.load(i8, 0, 8) + ct.zeros((8,), ct.uint8)
t = ct.zeros((8,), ct.float16) + ct.zeros((8,), ct.bfloat16)
t = ct.zeros((8,), ct.float8_e5m2) + ct.zeros((8,), ct.float8_e5m2)
t = ct.zeros((8,), ct.float8_e5m2) + 1
t = ct.zeros((8,), ct.bool_) + ct.zeros((8,), ct.bool_)
t = ct.load(i8, 0, 8) & n
t = ct.load(v, 0, 8) & 1
t = ct.load(v, 0, 8) << 1
t = ~ct.load(v, 0, 8)
t = ~True
t = -x
t = n ** 2
t = 2 ** n
t = 1 / 0
t = 1 // 0
t = ct.sqrt(-1.0)
t = ct.log(0.0)
t = ct.floor(n)
t = ct.isnan(n)
t = divmod(s, 2.0)
t = ct.cdiv(s, 2)
t = ct.add(n, s, rounding_mode=ct.RoundingMode.APPROX)
t = ct.add(n, n, rounding_mode=ct.RoundingMode.RZ)
t = ct.truediv(ct.zeros((8,), ct.float64), 2, rounding_mode=ct.RoundingMode.FULL)
t = ct.mul(ct.zeros((8,), ct.float64), 2, flush_to_zero=True)
t = ct.add(x=n, y=n)
t = ct.exp(n, n)
t = min(n)
t = max(n, n, n)
t = abs(x)
t = len(n)
t = int(n)
t = float(s)
t = round(s)
t = sum((1, 2))
t = eval("1")
t = isinstance(n, int)
t = open("file")
t = torch.zeros(3)
t = x()
t = ct.full((8,), x, ct.float32)
t = ct.full((8,), ct.load(v, 0, 8), ct.float32)
t = ct.full((8,), 1, float)
t = ct.zeros((8,))
t = ct.zeros((6,), ct.float32)
t = ct.zeros((8,), ct.float4_e2m1fn)
t = ct.arange(6, dtype=ct.int32)
t = ct.arange(8)
t = ct.arange(n, dtype=ct.int32)
t = ct.astile((1, 2, 3), dtype=ct.int32)
t = ct.astile(((1, 2), (3, (4, 5))), dtype=ct.int32)
t = ct.astile((1, x), dtype=ct.int32)
t = ct.load(x, (0, 0), (4, 4)).reshape((4, 8))
t = ct.load(x, (0, 0), (4, 4)).reshape((-1, -1))
t = ct.broadcast_to(ct.load(v, 0, 8), (4,))
t = ct.load(x, (0, 0), (4, 4)).permute((0, 0))
t = ct.load(x, (0, 0), (4, 4)).permute((0, 2))
t = ct.load(x, (0, 0), (4, 4)).transpose(0)
t = ct.zeros((2, 2, 2), ct.int8).transpose()
t = ct.load(v, 0, 8).transpose()
t = ct.expand_dims(ct.load(v, 0, 8), 2)
t = ct.cat((ct.load(v, 0, 8), ct.load(v, 0, 8), ct.load(v, 0, 8)), 0)
t = ct.cat((ct.load(v, 0, 8), ct.load(v, 0, 4)), 0)
t = ct.cat((ct.load(v, 0, 8), ct.load(i8, 0, 8)), 0)
t = ct.cat(ct.load(v, 0, 8), 0)
t = ct.load(x, (0, 0), (8, 8)).extract((0, 0), (16, 8))
t = ct.load(x, (0, 0), (8, 8)).extract((2, 0), (4, 4))
t = ct.load(x, (0, 0), (8, 8)).extract((0,), (4, 4))
t = ct.load(x, (0, 0), (8, 8)).insert((0, 0), ct.zeros((4, 4), ct.int8))
t = ct.load(x, (0, 0), (8, 8)).insert((0, 0), ct.zeros((4,), ct.float32))
t = n.astype(ct.float32, rounding_mode=ct.RoundingMode.RZ)
t = ct.zeros((8,), ct.float64).astype(ct.float16, rounding_mode=ct.RoundingMode.RM)
t = n.astype(5)
t = ct.bitcast(n, ct.int64)
t = ct.bitcast(n, ct.bool_)
t = ct.pack_to_bytes(ct.zeros((8,), ct.bool_))
t = ct.unpack_from_bytes(ct.load(i8, 0, 8), ct.int16)
t = ct.unpack_from_bytes(ct.zeros((2, 2), ct.uint8), ct.int16)
t = ct.unpack_from_bytes(ct.zeros((2,), ct.uint8), ct.int32)
t = ct.sum(ct.load(x, (0, 0), (4, 4)), (0, 0))
t = ct.sum(ct.load(x, (0, 0), (4, 4)), 2)
t = ct.sum(ct.load(x, (0, 0), (4, 4)), n)
t = ct.sum(ct.zeros((8,), ct.float8_e5m2))
t = ct.argmax(ct.load(x, (0, 0), (4, 4)), (0, 1))
t = ct.reduce(ct.load(v, 0, 8), None, lambda a, b: a + b, 0)
t = ct.reduce(ct.load(i8, 0, 8), 0, lambda a, b: a + 1.5, 0)
t = ct.reduce(ct.load(v, 0, 8), 0, lambda a, b: (a, b), 0)
t = ct.reduce(ct.load(v, 0, 8), 0, lambda a, b: ct.load(v, 0, ()), 0)
t = ct.reduce(ct.load(v, 0, 8), 0, lambda a, b: a if a > b else b, 0)
t = ct.scan(ct.load(v, 0, 8), 0, lambda a, b: a + ct.sum(ct.load(v, 0, 8)), 0)
t = ct.scan(ct.load(v, 0, 8), 0, lambda a, b: ct.sum(ct.zeros((4,), ct.float32)), 0)
t = ct.scan(ct.load(v, 0, 8), 0, looped, 0)
t = ct.mma(ct.load(v, 0, 8), ct.load(v, 0, 8), 0)
t = ct.mma(ct.load(x, (0, 0), (4, 8)), ct.load(x, (0, 0), (4, 8)), ct.zeros((4, 8), ct.float32))
t = ct.mma(ct.load(x, (0, 0), (4, 8)), ct.load(x, (0, 0), (8, 4)), ct.zeros((4, 8), ct.float32))
t = ct.mma(ct.load(x, (0, 0), (4, 8)), ct.load(x, (0, 0), (8, 4)), ct.zeros((4, 4), ct.bfloat16))
t = ct.mma(ct.load(x, (0, 0), (4, 8)), ct.zeros((8, 4), ct.float16), ct.zeros((4, 4), ct.float32))
t = ct.mma(ct.zeros((4, 8), ct.int16), ct.zeros((8, 4), ct.int16), ct.zeros((4, 4), ct.int32))
t = ct.mma(ct.load(x, (0, 0), (4, 8)), ct.load(x, (0, 0), (8, 4)), ct.zeros((4, 4), ct.float32), use_fast_acc=True)
t = ct.load(v, 0, 8) @ 3
t = ct.gather(x, ct.arange(8, dtype=ct.int32))
t = ct.gather(v, ct.load(v, 0, 8))
t = ct.gather(v, ct.arange(8, dtype=ct.int32), mask=n)
t = ct.gather(v, ct.arange(8, dtype=ct.int32), mask=ct.zeros((4,), ct.bool_))
t = ct.gather(i8, ct.arange(8, dtype=ct.int32), padding_value=1.5)
ct.scatter(v, ct.arange(4, dtype=ct.int32), ct.load(v, 0, 8))
ct.atomic_add(i8, 0, 1)
ct.atomic_max(v, 0, 1.0)
ct.atomic_add(v, 0, 1.0, memory_order=ct.MemoryOrder.WEAK)
ct.atomic_add(v, 0, 1.0, memory_scope=ct.MemoryScope.NONE)
t = ct.bid(3)
t = ct.bid(n)
t = ct.num_tiles(x, 2, (4, 4))
t = ct.num_tiles(x, 0, (4,))
t = ct.assume_divisible_by(n, 0)
t = ct.load_advanced_indexing(x, (ct.Slice(0, 4), ct.Slice(0, 4)))
t = ct.load_advanced_indexing(v, (ct.arange(4, dtype=ct.int32),))
t = ct.load_advanced_indexing(x, (n, ct.Slice(0, 4)))
t = ct.load_advanced_indexing(x, (ct.arange(4, dtype=ct.int32), ct.Slice(0, 3)))
for i in range(0, 8, 0): pass
for i in range(1.5): pass
for i in range(s): pass
for i in (1, 2): pass
for i in range(n): return
for i, j in range(n): pass
while True: pass
a = 0\\nfor i in range(n): a = a + ct.load(v, 0, 8)
a = 0\\nfor i in range(n): a = 1.5
for i in range(n): b = i\\nt = b
if n > 0: b = 1\\nt = b + 1
if n > 0: b = 1\\nelse: b = 1.5\\nt = b + 1
if n > 0: b = "x"\\nelse: b = "y"\\nt = b + "z"
if ct.load(v, 0, 8): pass
if x: pass
t = 1 if ct.load(v, 0, 8) else 2
t = n and ct.load(v, 0, 8)
t = n is s
t = ct.load(v, 0, 8) in (1, 2)
t = (1, 2)[n]
t = (1, 2)[5]
t = (1, s)[i8]
a, b = (1, 2, 3)
a, b, c = (1, 2)
a, b = n
a, *b = (1, 2)
(1, 2)[0] = 3
x.shape = 3
t = [1, 2]
t = {n: 2}
t = [i for i in (1, 2)]
t = (i for i in (1, 2))
t = tuple(i for i in (1, 2))
t = (yield)
t = (u := 3)
import os
global torch
raise ValueError
assert n
try: pass\\nexcept ValueError: pass\\nfinally: pass
with n: pass
with torch.no_grad(): pass
with twice(n) as a: pass
with inside(n) as a: pass
with once(n) as a:\\n    for i in range(n): return
with once(n) as a:\\n    return a
for i in range(3):\\n    with once(n) as a: return
for i in ct.static_iter(range(3)):\\n    with once(n) as a: break
class A: pass
del n
t = undefined
t = ct.undefined
t = math.undefined
return n
t = f"{n!r}"
t = f"{n:{n}}"
t = f"{n:^5}"
t = f"{n:.2f}"
t = f"{(n, n):d}"
ct.printf("%s", n)
ct.printf("%d", s)
ct.printf("%d %d", n)
ct.printf("%d", n, n)
ct.printf("%", n)
ct.printf(n)
print(x)
ct.static_assert(n > 0)
ct.static_assert(1)
ct.static_assert(1 > 2, "because")
ct.static_assert(1 > 2)
t = ct.static_eval(1 / 0)
t = ct.static_eval(ct.zeros((8,), ct.int8))
t = ct.static_eval(ct.static_eval(1))
t = ct.static_eval([1])
t = ct.static_eval(1, 2)
t = ct.static_eval(int(n))
t = ct.static_eval
t = ct.static_iter(range(3))
for i in ct.static_iter(range(n)): pass
for i in ct.static_iter(range(2000)): pass
for i in ct.static_iter(5): pass
for i in ct.static_iter((1, 2)): break
t = ct.ensure_constant(n)
t = helper(1, 2, 3)
t = helper(1, z=2)
t = tensor
t = (lambda a: a + undefined)(1)
t = deep(n)
t = Widget()
ct.assert_(n, n)
t = getattr(n, "foo")
t = "a" < "b"
t = not x
t = n @ n
match n:\\n    case 1: pass
async def f(): pass
for i in range(3): pass\\nelse: pass
@helper\\ndef f(a): return a
def f(a, /, *, b): return a\\nt = f(1, 2)
def f(*a): return a[3]\\nt = f(1, 2)
def f():\\n    nonlocal n\\n    n = 4\\nf()
t = {a: a for a in (1, 2)}
t = helper(*n)
t = helper(**(1, 2))
t = helper(1, a=2)
t = helper()
t = (lambda *a: a)(1)[n]
t = (yield from range(3))
from math import exp
try: t = 1\\nexcept ValueError: t = 2
t += 1
n.foo += 1
x[0] += 1
t = 1j
t = b"bytes"
t = n if n else x
t = tuple(a for a in range(3))
t = tuple(a for a in ct.static_iter((1, 2)) if n > a)
t = n < x
t = "a" + 1
t = n == x
t = (1, n) < (1, 2)
t = n[:, None, 3]
t = v.shape[n]
t = v.shape[1]
t = x.shape.foo
t = f"{n:s}"
t = f"{s:x}"
t = f"{s:{n}.2f}"
print(n, sep=3)
print(n, file=2)
t = range(n)[0]
t = ct.where(ct.load(v, 0, 8) > 0, "a", 2)
t = ct.minimum(ct.load(v, 0, 8), ct.load(x, (0, 0), (4, 4)))
t = ct.cumsum(ct.load(v, 0, 8), 1)
t = ct.cumsum(ct.load(v, 0, 8), 0, reverse=1)
t = ct.cumprod(v, 0)
t = ct.scan((ct.load(v, 0, 8), ct.load(v, 0, 4)), 0, lambda a, b, c, d: (a, b), (0, 0))
t = ct.scan(ct.load(v, 0, 8), 0, lambda a: a, 0)
t = ct.reduce(ct.load(v, 0, 8), 0, helper, n)
t = ct.reduce(ct.load(v, 0, 8), 0, 3, 0)
t = ct.argmin(n, 0)
t = ct.max(x, 0)
t = ct.sum(ct.load(v, 0, 8), 0, keepdims=n)
t = ct.mma(ct.zeros((2, 4, 8), ct.float16), ct.zeros((3, 8, 4), ct.float16), ct.zeros((2, 4, 4), ct.float32))
t = ct.mma(ct.zeros((4, 8), ct.float16), ct.zeros((8, 4), ct.float16), ct.zeros((8, 4), ct.float32))
t = ct.mma(ct.zeros((4, 8), ct.float16), ct.zeros((8, 4), ct.float16), x)
t = ct.mma_scaled(ct.zeros((16, 32), ct.float16), ct.ones((16, 1), ct.uint8), ct.zeros((32, 16), ct.float16), ct.ones((1, 16), ct.uint8), ct.zeros((16, 16), ct.float32))
ct.atomic_add(v, 0, ct.load(v, 0, 8))
ct.atomic_add(v, (0, 0), 1.0)
ct.atomic_add(out, (0, 0.5), 1.0)
ct.atomic_and(v, 0, 1)
ct.atomic_cas(i8, 0, 1, 2)
v.get_raw_memory().atomic_and_offset(0, 1)
t = ct.load(x, (0, 0), (8, 8)).astype(ct.float8_e8m0fnu)
t = ct.load(x, (0, 0), (8, 8)).astype(ct.float16, rounding_mode=ct.RoundingMode.RA)
t = (1, 2) * n
ct.atomic_cas(v, 0, 1.0)
ct.atomic_xchg(n, 0, 1)
ct.scatter(x, (0,), 1.0)
ct.scatter(v, 0, 1.0, mask=3)
ct.scatter(v, 0, ct.load(x, (0, 0), (4, 4)))
t = ct.gather(v, "a")
t = ct.gather(x, (0, 0, 0))
t = x.tiled_view((n, 4))
t = x.tiled_view((4, 4)).load((0, 0), (4, 4))
x.tiled_view((4, 4)).store((0, 0))
t = x.tiled_view((4, 4)).num_tiles(2)
t = x.tiled_view((4, 4)) + 1
t = x.tiled_view((4, 4))[0, 0]
t = x.slice(0, 0)
t = x.slice(n, 0, 1)
ct.store(x, (0, 0), ct.zeros((2, 2, 2), ct.float32))
ct.store(x, (0, 0), None)
ct.store(n, 0, 1)
ct.store(out, (0, 0), x)
t = ct.load(x, (0, 0), (4, 4), check_bounds=n)
t = ct.load([x, v], 0, 8)
t = ct.num_blocks(-1)
t = ct.num_blocks()
t = ct.assume_divisible_by(x, 4)
t = ct.bitcast(x, ct.int32)
t = ct.astype(ct.load(v, 0, 8), "float16")
t = ct.float32("one")
t = ct.int8(x)
t = ct.reshape(ct.load(v, 0, 8), (2, n))
t = ct.expand_dims(x, 0)
t = ct.kernel(helper)
t = ct.launch(0, (1,), helper, ())
ct.static_assert(n == 3, "n")
t = ct.static_eval(undefined_name)
for i in ct.static_iter(v): pass
for i in range(1, 2, 3, 4): pass
for i in range(): pass
for x.a in range(3): pass
for i in enumerate((1, 2)): pass
for i in zip((1, 2), (3, 4)): pass
a = ct.zeros((8,), ct.float32)\\nwhile n > 0: a = ct.zeros((4,), ct.float32)
a = x\\nfor i in range(n): a = v
t = super().foo
t = type(n)
t = list((1, 2))
t = sorted((2, 1))
t = map(helper, (1, 2))
t = n.item(3)
t = n.astype()
t = None + 1
t = math.sin(n)
t = math.nan.foo
t = torch.float32 + 1
for i in range(3):\\n    async def f(): pass
a = x if n else v\\nct.store(a, 0, 1)
a = x if n else i8\\nct.store(a, 0, 1)
a = x if n else x.slice(0, 0, 4)\\nct.store(out, 0, ct.load(a, (0, 0), (4, 4)))
a = x\\nif n > 0: a = out.slice(1, 0, 4)\\nct.store(a, (0, 0), 1)
a = x.tiled_view((4, 4)) if n else x.tiled_view((2, 2))
a = x if n else x.tiled_view((4, 4))
a = v\\nfor i in range(n): a = a.slice(0, 1, n)
a = v if n else None
(x if n else out)[0] = 1
t = (x if n else out) + 1
t = ct.load(x if n else out, 0, 8)
t = (x if n else out).foo
""".strip().split("\n")
