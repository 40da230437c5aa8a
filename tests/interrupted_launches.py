"""Sends signals to endless launches on the CPU; test_interrupts.py runs it in a process of its own. Prints a line for each
case that ends as it should."""

import os
import signal
import sys
import threading

import tile_ops
import tile_ops.language as tl
import torch


@tl.kernel
def endless(flag, out):
    """Does some work, then waits for a value that is never stored."""
    i = tl.bid(0)
    tl.store(out, i, tl.load(out, i, 16384) + 1)
    while tl.atomic_cas(flag, 0, 1, 1, memory_order=tl.MemoryOrder.ACQUIRE) != 1:
        pass


@tl.kernel
def endless_in_others(flag, out):
    i = tl.bid(0)
    tl.store(out, i, tl.load(out, i, 16384) + 1)
    if i > 0:
        while tl.atomic_cas(flag, 0, 1, 1, memory_order=tl.MemoryOrder.ACQUIRE) != 1:
            pass


@tl.kernel
def swept(x, out):
    """Loops over fused elementwise work."""
    total = tl.zeros((16384,), tl.float32)
    for i in range(2147483647):
        total = total * 0.5 + tl.exp(tl.load(x, 0, 16384) - total)
    tl.store(out, 0, total)


@tl.kernel
def multiplied(a, b, out):
    """Computes one blocked product whose inner extent is 2^40."""
    total = tl.zeros((64, 64), tl.float32)
    for k in range(tl.num_tiles(a, 1, (64, 64))):
        total = tl.mma(tl.load(a, (0, k), (64, 64)), tl.load(b, (k, 0), (64, 64)), total)
    tl.store(out, (0, 0), total)


@tl.kernel
def added(x):
    i = tl.bid(0)
    tl.store(x, 0, tl.load(x, 0, 1) + i)


@tl.kernel
def counted(out, iterations: int):
    total = 0
    for i in range(iterations):
        total = total * 3 + i
    tl.store(out, 0, total)


def later(signals=1, what=signal.SIGINT):
    timer = threading.Timer(0.3, lambda: [os.kill(os.getpid(), what) for _ in range(signals)])
    timer.start()
    return timer


def interrupted(launch):
    timer = later()
    try:
        launch()
    except KeyboardInterrupt:
        timer.join()
        return
    raise AssertionError("the launch was not interrupted")


def flag_and_out():
    return torch.zeros(1, dtype=torch.int32), torch.zeros(8 * 16384)


def spinning(kernel, threads):
    torch.set_num_threads(threads)
    flag, out = flag_and_out()
    count = sys.getrefcount(out)
    for _ in range(3):
        interrupted(lambda: kernel[8](flag, out))
    assert sys.getrefcount(out) == count
    out.zero_(), flag.fill_(1)
    kernel[8](flag, out)
    assert out.eq(1).all()


def of_a_loop():
    interrupted(lambda: swept[1](torch.ones(16384), torch.zeros(16384)))


def of_a_product():
    a, b = torch.ones(1, 1).expand(64, 2**40), torch.ones(1, 1).expand(2**40, 64)
    interrupted(lambda: multiplied[1](a, b, torch.zeros(64, 64)))


def of_many_blocks():
    interrupted(lambda: added[(2147483647, 65535)](torch.zeros(1)))


def of_an_operator():
    @tile_ops.op("interrupts::endless(Tensor flag, Tensor x) -> Tensor", outputs=lambda flag, x: torch.empty_like(x))
    def run(flag, x, out):
        endless[8](flag, out)

    flag, out = flag_and_out()
    interrupted(lambda: torch.ops.interrupts.endless(flag, out))


def of_a_gradient():
    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            flag, out = flag_and_out()
            endless[8](flag, out)

    interrupted(lambda: Function.apply(torch.zeros(1, requires_grad=True)).sum().backward())


def handlers_run_and_the_launch_goes_on():
    """Runs a handler of the program, which itself launches a kernel, during launches that must then continue."""
    seen, inner = [], torch.zeros(1, dtype=torch.int32)

    def handler(number, frame):
        counted[1](inner, 3)
        seen.append(number)

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    out, iterations = torch.zeros(1, dtype=torch.int32), 10**6
    while len(seen) < 3:  # however fast the machine is
        before = len(seen)
        counted[1](out, iterations)
        during = len(seen) - before
        iterations = iterations if during else min(iterations * 2, 2**31 - 1)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert inner.item() == 5
    total = 0
    for i in range(1000):
        total = total * 3 + i
    counted[1](out, 1000)
    assert out.item() == (total + 2**31) % 2**32 - 2**31


CASES = {
    "spinning": lambda: spinning(endless, 1),
    "spinning on four threads": lambda: spinning(endless, 4),
    "spinning on other threads": lambda: spinning(endless_in_others, 4),
    "a loop": of_a_loop,
    "a product": of_a_product,
    "many blocks": of_many_blocks,
    "an operator": of_an_operator,
    "a gradient": of_a_gradient,
    "handlers": handlers_run_and_the_launch_goes_on,
}

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs of a shell in the background ignore it
    for name, case in CASES.items():
        case()
        print(name, flush=True)
