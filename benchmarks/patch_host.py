"""Measures what tile_ops.patch costs the host: the processor time of a small model's forward, before and after it.

    python benchmarks/patch_host.py [--rounds 200]

The model is a Llama of transformers with one layer of width 64, on 64 tokens: its kernels are short, so that most of
the time is Python's. Two equal models, one of them patched, are called alternately on one thread of the CPU; medians of
process_time."""

import argparse
import copy
import statistics
import sys
import time

import tile_ops
import torch
from report import cpu_name

TOKENS, WIDTH, HEADS, WORDS = 64, 64, 4, 128
WARM = 20  # calls of each model that are not timed


def llama():
    try:
        import transformers
    except ImportError:
        sys.exit("benchmarks/patch_host.py needs transformers: pip install transformers")
    config = transformers.LlamaConfig(
        vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=1,
        num_attention_heads=HEADS, num_key_value_heads=HEADS // 2, max_position_embeddings=TOKENS,
        attn_implementation="sdpa",
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


def medians(calls, rounds):
    """Returns the milliseconds of processor time of each of a dict of calls, run alternately."""
    taken = {name: [] for name in calls}
    with torch.inference_mode():
        for call in calls.values():
            for _ in range(WARM):
                call()
        for _ in range(rounds):
            for name, call in calls.items():
                start = time.process_time_ns()
                call()
                taken[name].append(time.process_time_ns() - start)
    return {name: 1e-6 * statistics.median(values) for name, values in taken.items()}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=200)
    options = options.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    plain = llama()
    patched = copy.deepcopy(plain)
    tile_ops.patch(patched)
    tokens = torch.randint(WORDS, (1, TOKENS))
    found = medians({"plain": lambda: plain(tokens), "patched": lambda: patched(tokens)}, options.rounds)
    print(f"{cpu_name()}, one thread; torch {torch.__version__}; medians of {options.rounds} rounds")
    for name, milliseconds in found.items():
        print(f"{name:8} {milliseconds:.2f} ms of processor time a forward")


if __name__ == "__main__":
    main()
