"""Finds memory that a GPU's code reads too early: before zeros, or the results of the previous kernel, are written.

    python tests/cuda/early_reads.py [--cycles N] [--arch N] [REGEX]

Compiles the usual kernels of gates.txt for a chip (default 90) whose call matches, and names each instruction that reads
registers fewer than N cycles behind the CS2R that zeroes them (default 6: ptxas leaves as many where nothing comes
between; of other chips than sm_90 0), and from sm_90 on each access of global memory before the wait for the kernel
before (ACQBULK). ptxas 13.0 was seen to leave 5 cycles. Cycles are the least that the control codes in the code demand;
where an instruction may wait, or a predicate turns it off, it may take no longer. Needs nvdisasm on PATH."""

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
GLOBAL = re.compile(r"(LDG|STG|LD|ST|RED|REDG|ATOM|ATOMG|LDGSTS|UTMA\w+|UBLK\w+|CCTL\w*|UREDG?R?)\b")
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


def unwaited(found):
    """Accesses of global memory before the wait, or all of them where there is no wait."""
    texts = [re.sub(r"^@!?U?P\d+ ", "", text) for _, _, text in found]
    waits = next((i for i, text in enumerate(texts) if text.startswith("ACQBULK")), len(texts))
    return [text for text in texts[:waits] if GLOBAL.match(text)]


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
    options.add_argument("--cycles", type=int)
    options.add_argument("--arch", type=int, default=90)
    options = options.parse_args()
    cycles = options.cycles if options.cycles is not None else 6 if options.arch == 90 else 0
    count, found = 0, 0
    for job in jobs():
        if job[0] != options.arch or not re.search(options.regex, job[2]):
            continue
        for text in gates.texts(job, False):
            row = text.row
            code = gates._C.compile_text(row["text"], row["kernel"], row["entry"], row["arch"], row["path"])
            count += 1
            kernel, lines = f"{' '.join(text.key[:2])} {row['kernel']}", instructions(disassembled(code["cubin"]))
            for zeroing, reader, passed in early_reads(lines, cycles):
                found += 1
                print(f"{kernel}: {zeroing} and {passed} cycles behind it {reader}")
            for access in unwaited(lines) if options.arch >= 90 else ():
                found += 1
                print(f"{kernel}: before the wait {access}")
    print(f"{found} early reads in {count} kernels")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
