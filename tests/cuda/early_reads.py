"""Where a GPU's code reads zeros before they may be there.

    python tests/cuda/early_reads.py [--cycles N] [REGEX]

Compiles the usual kernels of gates.txt for sm_90 whose call matches, and names each instruction that reads registers
fewer than N cycles behind the CS2R that zeroes them (default 6: ptxas leaves as many where nothing comes between). ptxas
13.0 was seen to leave 5. Cycles are the least that the control codes in the code demand; where an instruction may wait,
or a predicate turns it off, it may take no longer. Needs nvdisasm on PATH."""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(.*?) ;?\s*/\* 0x[0-9a-f]{16} \*/")
SECOND = re.compile(r"^\s*/\* 0x([0-9a-f]{16}) \*/")
ZEROES = re.compile(r"CS2R(\.32)? R(\d+), SRZ")
FAR = 12  # instructions that are looked at behind one
JUMPS = ("BRA", "EXIT", "BSYNC", "RET", "WARPSYNC", "CALL")
ALL_READ = ("ST", "RED", "ISETP", "FSETP", "DSETP", "PLOP3", "BAR")  # no register of theirs is written first


def instructions(text):
    """[(address, least cycles to the next, text)] of what `nvdisasm -c -hex` prints."""
    found, lines = [], text.splitlines()
    for line, after in zip(lines, lines[1:]):
        if (first := LINE.search(line)) and (second := SECOND.match(after)):
            found.append((first[1], int(second[1], 16) >> 41 & 15, first[2]))
    return found


def registers(words):
    return {int(number) for number in re.findall(r"\bR(\d+)", words)}


def early_reads(found, cycles):
    """The pairs (zeroing instruction, reader, cycles between them) with fewer cycles than that."""
    for i, (_, wait, zeroing) in enumerate(found):
        if not (match := ZEROES.search(zeroing)):
            continue
        number, passed = int(match[2]), wait
        zeroed = {number} if match[1] else {number, number + 1}
        for _, wait, reader in found[i + 1 : i + 1 + FAR]:
            predicate, operation, operands = re.match(r"(@!?U?P\d+\s+)?(\S+)\s*(.*)", reader).groups()
            if passed >= cycles or operation.startswith(JUMPS):
                break
            first, _, others = operands.partition(",")
            written = set() if operation.startswith(ALL_READ) else registers(first)
            if zeroed & registers(operands if operation.startswith(ALL_READ) else others):
                yield zeroing, reader, passed
                break
            if zeroed & written and not predicate:
                break
            passed += wait


def disassembled(cubin):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        return subprocess.run(["nvdisasm", "-c", "-hex", path], capture_output=True, text=True, check=True).stdout


def main():
    import gates
    from gate_calls import jobs

    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("regex", nargs="?", default="", help="calls whose name it matches")
    options.add_argument("--cycles", type=int, default=6)
    options = options.parse_args()
    count, found = 0, 0
    for job in jobs():
        if job[0] != 90 or not re.search(options.regex, job[2]):
            continue
        for text in gates.texts(job, False):
            row = text.row
            code = gates._C.compile_text(row["text"], row["kernel"], row["entry"], row["chip"], row["multiplies"])
            count += 1
            for zeroing, reader, passed in early_reads(instructions(disassembled(code["cubin"])), options.cycles):
                found += 1
                print(f"{' '.join(text.key[:2])} {row['kernel']}: {zeroing} and {passed} cycles behind it {reader}")
    print(f"{found} early reads in {count} kernels")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
