"""Makes a random program that fails smaller: statements go, and operands stand for results, while it still fails."""

import re

from random_statements import stays


def statements(program):
    """In the order of their first lines."""
    found = dict.fromkeys(line.statements[0] for line in program.lines if all(map(program.has, line.statements)))
    return [statement for statement in found if statement is not stays]


def operands(program, statement):
    """Values that may stand for the statement's result: of its type, and no more is known of what they stand for.

    Not for an i32: places in arrays are, and what bounds a loop."""
    value = program.result_of.get(statement)
    if value is None or not value.shape or value.dtype == "i32":
        return []
    text = next(line.text for line in reversed(program.lines) if line.statements[0] is statement)
    used = [program.named[name] for name in re.findall(r"%\d+", program.renamed(text.split(" = ", 1)[1]))]
    return [v for v in used
            if v.is_like(value) and v.known >= value.known and (v not in program.products or value in program.products)]


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
            program.dropped.add(statement)
            if still_fails(lambda: program.dropped.discard(statement)):
                smaller = True
                continue
            for operand in operands(program, statement):
                value = program.result_of[statement]
                program.instead[value] = operand
                if still_fails(lambda: program.instead.pop(value)):
                    smaller = True
                    break
    return program
