"""Runs random cases in a process of their own, which writes each down before it begins: one that dies is not lost.

A program of this folder calls main(): `PROGRAM FILE…` replays files; `PROGRAM --runs N --seed S --failures FOLDER`
makes cases. A pytest test calls run(), which starts such a program.
"""

import argparse
import faulthandler
import pathlib
import random
import re
import shutil
import subprocess
import sys
import traceback

HERE = pathlib.Path(__file__).parent
CORPUS = HERE / "corpus"
SECONDS = 20  # of one case

LIMITS = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "64",
    "65",
    "2147483647",
    "2147483648",
    "-2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "1e999",
    "nan",
    "inf",
    "-0.0",
    "0x10",
    "1e",
]


class Broken(Exception):
    """A rule that a case does not keep."""


def texts(folder):
    """The files of a corpus."""
    return [path.read_text() for path in sorted((CORPUS / folder).iterdir())]


def changed(text, corpus, words, rng):
    """A text with a few of its words and characters changed."""
    for _ in range(rng.randint(1, 4)):
        tokens = re.findall(r"\s+|[\w.]+|.", text, re.DOTALL) or [""]
        at = rng.randrange(len(tokens))
        other = rng.choice(re.findall(r"[\w.]+|\S", rng.choice(corpus)) + words[: rng.randint(0, len(words))])
        numbers = [i for i, token in enumerate(tokens) if token[:1].isdigit()]
        how = rng.randrange(7)
        if how == 0:
            tokens[at] = other
        elif how == 1:
            tokens.insert(at, other)
        elif how == 2:
            del tokens[at : at + rng.randint(1, 3)]
        elif how == 3:
            to = rng.randrange(len(tokens))
            tokens[at], tokens[to] = tokens[to], tokens[at]
        elif how == 4 and numbers:
            tokens[rng.choice(numbers)] = rng.choice(LIMITS)
        elif how == 5:
            to = rng.randrange(len(tokens))
            tokens[at:at] = tokens[to : to + rng.randint(1, 8)]
        else:
            tokens[at] = "".join(rng.choice([c, "", rng.choice('"\\\x7fé€')]) for c in tokens[at])
        text = "".join(tokens)
    return text.replace("\0", "")


def main(make, check, suffix):
    """make(rng) gives the text of a case, check(text) raises Broken."""
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--failures", type=pathlib.Path, default=pathlib.Path())
    options = parser.parse_args()
    options.failures.mkdir(parents=True, exist_ok=True)
    current = options.failures / f"current{suffix}"
    failed = 0

    def one(text, path):
        nonlocal failed
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            check(text)
        except Exception as error:
            failed += 1
            if not isinstance(error, Broken):
                traceback.print_exc()
            if path is current:
                path = options.failures / f"failure-{options.seed}-{failed}{suffix}"
                path.write_text(text)
            print(f"{error}\nreplay it: {sys.executable} {sys.argv[0]} {path}", flush=True)
        faulthandler.cancel_dump_traceback_later()

    for path in options.files:
        one(path.read_text(), path)
    for number in range(options.runs):
        text = make(random.Random(f"{options.seed} {number}"))
        current.write_text(text)
        one(text, current)
        if failed == 10:
            break
    current.unlink(missing_ok=True)
    sys.exit(failed > 0)


def run(command, failures, suffix):
    """Runs a program of cases; gives what it said where one failed, with the input of one that ended it."""
    done = subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    if not done.returncode:
        return None
    current, text = failures / f"current{suffix}", done.stdout[-6000:]
    if current.exists():
        kept = failures / f"failure-died{suffix}"
        shutil.move(current, kept)
        text += f"\nended with {done.returncode}; replay it: {command[0]} {command[1]} {kept}\n{kept.read_text()}"
    return text or f"ended with {done.returncode}"
