"""Makes a random program that fails smaller: statements go, and operands stand for results, while it still fails."""

import itertools
import re

from random_statements import stays


def statements(program):
    """In the order of their first lines."""
    found = dict.fromkeys(line.statements[0] for line in program.lines if all(map(program.has, line.statements)))
    return [statement for statement in found if statement is not stays]


def ways_without(program, statement):
    """{result: operand} of values that may stand for the statement's results: of their types, and no more is known of
    what they stand for. First the way without any, for results that nobody needs.

    Not for an i32: indices of arrays are, and what bounds a loop."""
    yield {}
    texts = [line.text for line in program.lines if statement in line.statements]
    texts[0] = texts[0].split(" = ", 1)[-1]
    used = [
        program.named[name]
        for name in dict.fromkeys(re.findall(r"%\d+", program.renamed(" ".join(texts))))
        if name in program.named
    ]
    results = [v for v in program.results_of[statement] if v.shape and v.dtype != "i32"]
    choices = [
        [
            v
            for v in used
            if v.is_like(result)
            and v.known >= result.known
            and v not in results
            and (v not in program.products or result in program.products)
        ]
        for result in results
    ]
    if results:
        yield from (dict(zip(results, choice)) for choice in itertools.islice(itertools.product(*choices), 16))


def shrink(program, fails):
    """Leaves of the program what fails(program) needs to be true. A program that cannot run does not fail."""

    def still_fails(undo):
        arrays = list(program.arrays)
        program.arrays[:] = [array for array in arrays if re.search(rf"{array.name}\b(?!:)", program.text)]
        try:
            if fails(program):
                return True
        except Exception:  # nothing defines what it reads, or a loop does not end
            pass
        program.arrays[:] = arrays
        undo()
        return False

    smaller = True
    while smaller:
        smaller = False
        for statement in reversed(statements(program)):
            for instead in ways_without(program, statement):
                program.dropped.add(statement)
                program.instead |= instead

                def undo():
                    program.dropped.discard(statement)
                    for value in instead:
                        del program.instead[value]

                if still_fails(undo):
                    smaller = True
                    break
    return program
