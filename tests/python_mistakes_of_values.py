"""Defines more kernels with mistakes, like python_mistakes.py: in undefined names, dictionaries, enumerations, dataclasses,
keywords and atomics. tests/language/test_mistakes.py defines their classes, such as Color, Size, Perm and Pair."""

SNIPPETS = """
t = ct.load(v, 0, 8).expand_dims(0)
t = ct.load(v, 0, 8).sum()
t = ct.load(v, 0, 8).relu()
t = ct.load(v, 0, 8).rehsape((2, 4))
t = ct.load(v, 0, 8).sqrtt()
t = ct.load(v, 0, 8).T.foo
t = ct.load(v, 0, 8).to(ct.float16)
t = n.view(1)
t = n.frobnicate()
t = x.sum(0)
t = x.reshape((64,))
t = x.load((0, 0), (8, 8))
t = x.size(0)
t = x.slise(0, 0, 4)
t = x.tiled_view((4, 4)).laod((0, 0))
t = x.get_raw_memory().load(0)
t = ct.relu(n)
t = ct.softmax(n)
t = ct.program_id(0)
t = ct.summ(n)
t = ct.Foo()
t = math.pii
t = torch.relu(ct.load(v, 0, 8))
t = torch.exp(ct.load(v, 0, 8))
t = torch.softmax(ct.load(v, 0, 8), 0)
if ct.load(v, 0, 8) > 0: pass
while ct.load(v, 0, 8) > 0: break
t = ct.load(v, 0, 8) > 0 or n > 0
t = ct.next_power_of_2(8)
t = {"a": 1}["b"]
t = {"a": 1}[n]
t = {ct.load(v, 0, 8): 1}
t = {"a": 1}.pop("a")
t = {"a": 1}.foo
d = {"a": 1}\\nd["a"] = 2
d = {"a": 1}\\nd.update(b=2)
t = {**(1, 2)}
t = {"a": 1} + {"b": 2}
t = dict((1, 2))
t = helper(**{1: 2})
t = helper(1, b=2, **{"b": 3})
d = {"a": 1} if n else {"b": 1}
t = (1, *n)
t = (1, *x)
t = n in 3
t = n in x
t = 2 in (1, ct.load(v, 0, 8))
t = n in "abc"
t = (ct.load(v, 0, 8),) == (ct.load(v, 0, 8),)
t = (x,) == (v,)
t = Color(3)
t = Color("red")
t = Color(n)
t = Color["BLUE"]
t = Color["REDD"]
t = Color[n]
t = Color.BLUE
t = Color.RED.nmae
t = Color.RED < Color.GREEN
t = Color.RED + 1
t = Size.SMALL + ct.zeros((8,), ct.bool_) + "a"
t = Perm.R | Color.RED
class A(enum.Flag): X = 1\\nt = Perm.R in A.X
t = 1 in Perm.R
t = (1, 2)[1.5:]
t = (1, 2)["a":]
t = (1, 2)[::s]
t = f"{1:,x}"
t = getattr(x, 3)
t = getattr(x, n)
t = getattr(x)
t = len()
t = str(1, 2)
t = max(1, 2, key=3)
t = int(1, base=2)
t = slice()
t = divmod(1)
t = Pair(1)
t = Pair(1, 2).frist
t = Pair(1, 2, 3)
t = Pair(1, b=2, c=3)
p = Pair(1, 2)\\np.a = 3
p = Pair(1, 2)\\np[0] = 3
t = Thawed(1)
t = thawed.a
t = Initless(1)
t = Custom(1)
t = Factory(1)
t = dataclasses.replace(Pair(1, 2), bb=3)
t = f"{Formatted(1)}"
print(str(Shouting(n)))
print(helper)
t = ct.float32("")
t = ct.int32("1.5")
t = ct.int32(1, 2)
t = ct.bool_("yes")
t = int("x")
t = float("x")
t = int(math.inf)
t = ct.bid(axes=0)
t = ct.bid(axis=3)
t = ct.assume_divisible_by(n, by=4)
t = ct.num_tiles(x, axis=2, shape=())
t = ct.scatter(v, 0, value=None)
ct.scatter(v, 0, None)
ct.printf("%lls\\\\n", n)
ct.printf("%ll", n)
i8.tiled_view(4).atomic_store_and(0, ct.zeros((4,), ct.int8))
w.tiled_view(4).atomic_store_and(0, ct.zeros((4,), ct.bool_))
w.tiled_view(4).atomic_store_or(0, ct.zeros((4,), ct.int16))
w.tiled_view(4).atomic_store_xor(0, ct.zeros((4,), ct.uint32))
w.tiled_view(4).atomic_store_or(0, 1)
w.tiled_view(4).atomic_store_max(0, ct.zeros((4,), ct.uint32))
w.tiled_view(4).atomic_store_add(0, ct.zeros((4,), ct.float32))
ct.atomic_and(w, 0, ct.zeros((), ct.int16))
ct.atomic_or(w, 0, True)
ct.atomic_xor(w, 0, 1)
w.get_raw_memory().atomic_and_offset(0, 1)
ct.atomic_cas(w, 0, 1.5, 2)
ct.atomic_cas(w, 0, 1, ct.zeros((), ct.uint64))
ct.atomic_xchg(w, 0, ct.zeros((), ct.float32))
ct.atomic_max(w, 0, ct.zeros((), ct.uint8))
ct.atomic_add(w, 0, 0.5)
t = ct.static_eval(x.foo)
t = ct.static_eval(x.slice(0, 0, 1))
t = ct.static_eval((lambda a: a)(ct.zeros((8,), ct.int8)))
def f(a): return a\\nt = ct.static_eval(f(1))
t = ct.static_eval(Thawed(1))
t = ct.static_eval(Widget())
t = ct.static_eval({"a": 1})
t = ct.static_eval(ct.load(v, 0, 8)[0])
t = ct.static_eval(float(s))
if n > 0: a = 1\\nt = ct.static_eval(a)
class A(Color): pass
class A: a = 1
@dataclasses.dataclass\\nclass A: a: int
class A(enum.Enum): X = 1 / 0
class A(enum.Enum): X = ct.zeros((8,), ct.int8)
""".strip().split("\n")
