"""Starts the processes of task_child.py, reads what they tell, ends them at a limit, and sees the programs that they start."""

import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time

from task_child import BEGUN, MARK

CHILD = pathlib.Path(__file__).resolve().with_name("task_child.py")
LOOK = 0.02  # seconds between two looks at the processes that run


def children(pid):
    """Yields the processes that a process and its children have started, and that run."""
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found = path.read_text().split()
        except OSError:  # the thread has ended
            continue
        for each in found:
            yield each
            yield from children(each)


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


_running = set()


def end_all(number, _frame):
    """Ends all processes and this one, as a handler of a signal: they are in sessions of their own, which would go on."""
    for child in list(_running):
        child.kill()
    os._exit(128 + number)


class Child:
    """A process with a task. `programs`: what it and its children start after it says that it begins."""

    def __init__(self, task, variables):
        self.programs, self.lines, self.begun = set(), queue.Queue(), False
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, str(CHILD), json.dumps(task)],
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            errors="replace",
            env={**os.environ, **variables},
            start_new_session=True,
        )
        _running.add(self)
        for work in (self._read, self._look):
            threading.Thread(target=work, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            if line.startswith(MARK):
                found = json.loads(line.removeprefix(MARK))
                if found == BEGUN:
                    self.begun = True
                else:
                    self.lines.put(found)
        self.lines.put(None)

    def _look(self):
        own = name_of(self.process.pid)
        while self.process.poll() is None:
            if self.begun:
                # A process that has not yet called exec bears the name of its parent.
                self.programs |= {name for pid in children(self.process.pid) if (name := name_of(pid))} - {own}
            time.sleep(LOOK)

    def next(self, limit):
        """Returns the next line, or None after the last one; TimeoutError after `limit` seconds."""
        try:
            return self.lines.get(timeout=limit)
        except queue.Empty:
            raise TimeoutError(f"takes longer than {limit:g} s") from None

    def reason(self):
        """Returns why the process has ended: the first line of an exception's message, or its status."""
        self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().strip().splitlines()
        # The message follows the last traceback, whose lines begin with blanks.
        traces = [i for i, line in enumerate(lines) if line.startswith("Traceback")]
        message = next((line for line in lines[traces[-1] + 1 :] if line[:1].strip()), "") if traces else ""
        return message or f"ends with {self.process.returncode}"

    def kill(self):
        """Kills the process and those that it has started."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def end(self):
        """Ends the process and those that it has started."""
        self.kill()
        self.process.wait()
        _running.discard(self)
        self.errors.close()


def one_answer(task, variables, limit):
    """Returns what a process with this task tells, with all programs that it starts."""
    child = Child(task, variables)
    try:
        found = child.next(limit)
        if found is None:
            raise RuntimeError(child.reason())
        found["programs"] = sorted({*found["programs"], *child.programs})
        return found
    finally:
        child.end()


def answers(task, cases, variables, limit):
    """Yields (case, what a process tells of it). After a case that ends the process, or takes longer than `limit` seconds,
    another one goes on."""
    left = list(cases)
    while left:
        child = Child(task | {"cases": left}, variables)
        try:
            for case in list(left):
                found = _answer(child, limit)
                left.remove(case)
                yield case, found
                if found.get("ended"):
                    break
        finally:
            child.end()


def _answer(child, limit):
    try:
        while (found := child.next(limit)) is not None:
            if "case" not in found:
                return found
        return {"reason": child.reason(), "ended": True}
    except TimeoutError as error:
        return {"reason": str(error), "ended": True}
