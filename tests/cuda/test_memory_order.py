"""Runs the litmus tests of memory order as GPU kernels on the emulator, which reports accesses that nothing orders."""

import emulate
import litmus


def test_what_may_be_seen():
    cases = [(name, litmus.CASES[name](6, 64), passes) for name in litmus.CASES for passes in (False, True)]
    launches = [emulate.Case(case.text, case.grid, case.arguments, passes) for _, case, passes in cases]
    for (name, case, passes), report in zip(cases, emulate.run(launches)):
        assert report is None, f"{name}, passes {passes}: {report}\n{case.text}"
        assert case.check(case.arguments) is None, f"{name}, passes {passes}: {case.check(case.arguments)}\n{case.text}"


def test_without_their_orders_they_are_races():
    """Removes each memory order in turn; the emulator must report a data race, so every one of them is needed."""
    names = ["message", "lock", "ticket lock", "turns", "look-back"]
    texts = []
    for name in names:
        for order in ("acquire", "release"):
            case = litmus.CASES[name](4, 64)
            texts.append((name, order, emulate.Case(case.text.replace(f'{{order="{order}"}}', ""), case.grid, case.arguments)))
    for (name, order, _), report in zip(texts, emulate.run([case for _, _, case in texts])):
        assert report and "nothing orders blocks" in report, f"{name} without {order}: {report}"
